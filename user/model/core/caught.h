/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * caught: blocks whose allocation stack was captured (EV_CAUGHT), used to find the line of a leak. Most are freed at once;
 * only those count that are still live, and a suspect's, when a report is made. At most CAUGHT_MAX live ones; then each new one
 * takes the place of another.
 */
#ifndef MT_MODEL_CAUGHT_H
#define MT_MODEL_CAUGHT_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "event/event.h"

#define CAUGHT_MAX 4096
#define CAUGHT_WAITING_MAX 16

struct block;

struct caught_block {
	uint64_t id; /* of the block */
	uint64_t ptr;
	uint32_t pid, node; /* node: of the tree of stacks */
	uint8_t dev;
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
	struct caught_waiting waiting[CAUGHT_WAITING_MAX];
	size_t waiting_cnt;
};

void caught__init(struct caught *c);
void caught__done(struct caught *c);
/* EV_CAUGHT. */
void caught__reported(struct caught *c, const struct event *ev);
/* b is allocated, and has its id: keeps it if it was reported. */
void caught__allocated(struct caught *c, const struct block *b);
static inline void caught__freed(struct caught *c, uint64_t id)
{
	void *row = c->blocks.cnt ? map__find(&c->blocks, id) : NULL;

	if (row)
		map__remove(&c->blocks, row);
}
uint32_t caught__of(const struct caught *c, uint64_t id); /* its node; 0: not caught */
static inline const struct caught_block *caught__at(const struct caught *c, uint32_t number) /* of blocks.cnt */
{
	return map__at(&c->blocks, number);
}

#endif
