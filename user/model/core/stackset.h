/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stackset: where blocks were allocated: the tree of stacks as the recording tells it, what was allocated at each
 * leaf, and which leaf a living block has. Few blocks have one (--stack-size), so a block's record knows
 * nothing of it: 12 bytes are kept beside it for those that do.
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
/* A node is told. False: it is out of order, or there is no room. */
bool stackset__define(struct stackset *s, const struct event *ev);
static inline bool stackset__has(const struct stackset *s, uint64_t node)
{
	return node && node <= s->defs_cnt;
}
/* The block of this id was allocated at `node`; seen late: nobody's allocation. False: no room. */
bool stackset__allocated(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch);
bool stackset__late(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch);
uint32_t stackset__of(const struct stackset *s, uint64_t id); /* node where that living block was allocated; 0: not known */
/* What stackset__of said of it. */
uint32_t stackset__freed(struct stackset *s, uint64_t id, unsigned dev_idx, uint64_t size, uint64_t epoch);
/* What is live at the leaves is what the blocks with a stack have. Aborts when broken. */
void stackset__check(const struct stackset *s, const struct blocks *blocks);

#endif
