/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stackset: where blocks were allocated: the tree of stacks from the recording, the bytes allocated at each
 * leaf, and the leaf of each live block. Few blocks have one (--stack-size), so it is not in a block's
 * record: those that do have 12 bytes beside it.
 *
 * EV_STACKS_MAX nodes, TALLY_ROWS_MAX leaves, STACKED_MAX living blocks.
 */
#ifndef MT_MODEL_STACKSET_H
#define MT_MODEL_STACKSET_H

#include <stdbool.h>

#include "base/map.h"
#include "event/event.h"
#include "model/core/tally.h"

#define STACKED_MAX (1u << 24)

struct stack_def {
	uint32_t parent; /* node, 0: none */
	uint32_t line;
	name_id function, file;
	uint8_t kind; /* enum ev_frame_kind */
};

struct blocks;

struct stackset {
	struct stack_def *defs; /* [node - 1] */
	uint32_t defs_cnt, defs_cap;
	struct tally tally;   /* a row's name is the number of its leaf */
	struct map allocated; /* struct stacked */
};

int stackset__init(struct stackset *s); /* 0 or -ENOMEM; zeroed by the caller */
void stackset__done(struct stackset *s);
/* Adds a node. False: it is out of order, or there is no room. */
bool stackset__define(struct stackset *s, const struct event *ev);
static inline bool stackset__has(const struct stackset *s, uint64_t node)
{
	return node && node <= s->defs_cnt;
}
/* The block of this id was allocated at `node`; late: no allocation. False: no room. */
bool stackset__allocated(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch);
bool stackset__late(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch);
uint32_t stackset__of(const struct stackset *s, uint64_t id); /* node where that living block was allocated; 0: not known */
/* Returns its node, as stackset__of. */
uint32_t stackset__freed(struct stackset *s, uint64_t id, unsigned dev_idx, uint64_t size, uint64_t epoch);
/* Live bytes at the leaves are the sums of the blocks with a stack. Aborts when broken. */
void stackset__check(const struct stackset *s, const struct blocks *blocks);

#endif
