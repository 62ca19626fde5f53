/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * caught: blocks whose allocation stack was captured (EV_CAUGHT), used to find the line of a leak. Most are freed at once;
 * only those count that are still live, and a growing place's, when a report is made; or, of a process that has ended, that
 * lived at its last boundary: an interpreter frees most of what it has before it exits. At most CAUGHT_MAX; then each new one
 * takes the place of another, of a freed one if there is one.
 */
#ifndef MT_MODEL_CAUGHT_H
#define MT_MODEL_CAUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "event/event.h"
#include "model/core/growth.h"

#define CAUGHT_MAX 4096
#define CAUGHT_WAITING_MAX 16

struct block;

struct caught_block {
	uint64_t id; /* of the block */
	uint64_t ptr;
	uint32_t pid, node; /* node: of the tree of stacks */
	uint8_t dev;
	bool is_freed;	     /* … after this boundary, and was of this place: */
	uint64_t freed_tick;
	struct growth_key place;
};

/* Reported just before its block is allocated. */
struct caught_waiting {
	uint64_t ptr;
	uint32_t pid, tid, node;
	uint8_t dev;
};

struct caught {
	struct map blocks; /* struct caught_block */
	uint32_t hand;	   /* whose place is taken next */
	uint32_t freed;	   /* so many of them */
	struct caught_waiting waiting[CAUGHT_WAITING_MAX];
	size_t waiting_cnt;
};

void caught__init(struct caught *c);
void caught__done(struct caught *c);
/* EV_CAUGHT. */
void caught__reported(struct caught *c, const struct event *ev);
/* b is allocated, and has its id: keeps it if it was reported. */
void caught__allocated(struct caught *c, const struct block *b);
/* place: if it lived at the last boundary, the tick-th one; else NULL, and it is forgotten. */
void caught__freed(struct caught *c, uint64_t id, const struct growth_key *place, uint64_t tick);
void caught__forget(struct caught *c, uint32_t pid); /* its freed ones; 0: all of them */
uint32_t caught__of(const struct caught *c, uint64_t id); /* its node; 0: not caught */
static inline const struct caught_block *caught__at(const struct caught *c, uint32_t number) /* of blocks.cnt */
{
	return map__at(&c->blocks, number);
}

#endif
