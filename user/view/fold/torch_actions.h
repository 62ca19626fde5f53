/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch_actions: decisions as torch.profiler's memory timeline has them (_memory_profiler.py, 2.13):
 * PREEXISTING at -1, CREATE, INCREMENT_VERSION at the start of the node that writes, DESTROY, with final
 * categories, by (time, action). For the formats that write that timeline down.
 *
 * A node is reported steps after its start, so records wait in a heap of at most `pending_max`
 * until no earlier one can come; the time of a later one is moved forward. Live blocks are kept by
 * id, 24 bytes each, with the category they are counted under: so the sums never go negative and
 * end right, whatever was lost.
 */
#ifndef MT_VIEW_FOLD_TORCH_ACTIONS_H
#define MT_VIEW_FOLD_TORCH_ACTIONS_H

#include "view/view.h"

#define TORCH_CATEGORIES 8
#define TORCH_PENDING_MAX (1u << 20) /* 40 MiB */

enum torch_action { TORCH_PREEXISTING = 1, TORCH_CREATE, TORCH_INCREMENT, TORCH_DESTROY };

struct torch_record {
	int64_t t_ns;	/* since the epoch; -1: before everything */
	int64_t bytes;	/* negative: they go. An increment is two records, old category and new */
	uint8_t action; /* enum torch_action */
	uint8_t index;	/* of the category, in torch's order: 0 PARAMETER … 7 unknown */
};
typedef int (*torch_fn)(void *ctx, const struct torch_record *r); /* 0 or -errno, which ends it */

struct torch_actions;
/* to->labels is needed: -EINVAL without. Passes the preexisting blocks on at once. pending_max 0: default. */
int torch_actions__new(struct torch_actions **ret, const struct export_to *to, uint32_t pending_max, torch_fn fn,
		       void *ctx);
int torch_actions__event(struct torch_actions *a, const struct tl_event *ev, int64_t epoch_off_ns);
int torch_actions__flush(struct torch_actions *a);	   /* the rest */
void torch_actions__free(struct torch_actions *a); /* NULL is fine */

#endif
