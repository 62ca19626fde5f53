/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * icicle: the tree of stacks (process, regions, backward nodes, operators) with the bytes under each node, and of it
 * only visible ones: when it has more than `max` nodes, the lightest are dropped; their bytes stay in their parents.
 */
#ifndef MT_VIEW_FOLD_ICICLE_H
#define MT_VIEW_FOLD_ICICLE_H

#include <stddef.h>
#include <stdint.h>

struct heapsum;

struct icicle_row {
	uint32_t parent; /* row, which stands before its children; row 0 is the whole and its own parent */
	uint32_t value;	 /* name_id's number; of a process, the pid */
	uint8_t kind;	 /* enum stack_kind */
	uint64_t at_peak, live, alloc_bytes, alloc_count; /* with everything under it */
};

struct icicle {
	struct icicle_row *rows;
	size_t cnt;
	uint32_t total; /* nodes that had bytes */
};

/* After heapsum__end. 0 or -ENOMEM. */
int icicle__init(struct icicle *ic, const struct heapsum *h, uint32_t max);
void icicle__done(struct icicle *ic);

#endif
