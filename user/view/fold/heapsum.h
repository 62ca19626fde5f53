/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * heapsum: bytes by stack, category and device: live, at each device's own peak, and all that was ever
 * allocated. The data of heap profiles. The peak is the report's: of the moments at which the device's live
 * bytes were highest, all processes together, the one of which most is known.
 *
 * Grows with the number of different stacks (HEAPSUM_MAX cells; bytes above that go to a cell
 * without a stack), and with the blocks that are live at one time.
 */
#ifndef MT_VIEW_FOLD_HEAPSUM_H
#define MT_VIEW_FOLD_HEAPSUM_H

#include "view/fold/live.h"
#include "view/fold/stacks.h"

#define HEAPSUM_MAX (1u << 20)

struct export_to;

struct heap_cell {
	uint32_t stack; /* heapsum__stacks */
	uint8_t cat, dev;
	uint64_t live, at_peak, alloc_bytes, alloc_count;
	uint64_t epoch; /* of at_peak */
};

struct heapsum;

struct heapsum *heapsum__new(const struct export_to *to); /* NULL: no memory */
void heapsum__free(struct heapsum *h);
int heapsum__event(struct heapsum *h, const struct tl_event *ev); /* 0 or -ENOMEM */
void heapsum__end(struct heapsum *h); /* at_peak is final from here on */
const struct heap_cell *heapsum__cells(const struct heapsum *h, size_t *ret_cnt);
const struct stacks *heapsum__stacks(const struct heapsum *h);
/* "PID comm"; returns its length. */
size_t heapsum_process(const struct export_to *to, uint32_t pid, char *buf, size_t size);

#endif
