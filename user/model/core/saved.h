/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * saved: what a process keeps from forward to backward: the blocks that were there when a backward pass began, and that its
 * nodes, or those of a pass after it, read or freed (docs/saved.md).
 *
 * The caller reports a pass's beginning and end; meanwhile blocks are added. A block that was made before an earlier pass,
 * too, was there when that began: it is added to that one as well (a GAN's generator waits while the discriminator is
 * trained). So the last SAVED_PASSES are kept, and of all before them the largest, the later of two equal ones. The first
 * pass is replaced by any other: which blocks are parameters is learned in it.
 *
 * All processes together have at most SAVED_BYTES_MAX, and one has half of what the others leave: about half a million
 * blocks. Blocks without room are not in a pass: the caller counts them in `rest` when they are freed.
 */
#ifndef MT_MODEL_SAVED_H
#define MT_MODEL_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

#define SAVED_BYTES_MAX (64u << 20)
#define SAVED_PASSES 8

struct block;

struct saved_block {
	uint64_t id; /* its key */
	uint64_t ptr, size;
	uint32_t node; /* row of the regions' tally: the backward node that read or freed it last */
	uint16_t op, region, module; /* rows, as struct block has them */
	uint16_t within; /* row: the innermost module that made it and has all of its nodes; 0: none */
	uint8_t dev;
	bool is_other; /* a parameter or a gradient on its way, for example: kept, but not by autograd */
	bool is_later; /* it waits for a pass after this one: the node is of the last that had it */
};

struct saved_pass {
	uint64_t number;   /* from 1; 0: there is none */
	struct map blocks; /* struct saved_block, by id */
	uint64_t ts_ns;	   /* when it began, … */
	uint64_t until;	   /* … the newest block then, … */
	uint64_t live;	   /* … and the process's bytes on framework devices */
	uint64_t before;   /* the newest block when the pass before it was over; UINT64_MAX: none was */
	uint64_t rest_bytes, rest_cnt;
};

struct saved {
	struct saved_pass last[SAVED_PASSES], most; /* last: by number */
	struct saved_pass *now; /* under way; NULL: none */
	uint64_t passes;	/* that were, with the one that is under way */
	uint64_t before;	/* the next one's */
	size_t *used;		/* by all of them together; borrowed */
};

struct saved *saved__new(size_t *used); /* NULL: no memory */
void saved__free(struct saved *s);	/* NULL is fine */
/* The pass whose place the next one takes, and which may be the largest so far; number 0: none yet. */
struct saved_pass *saved__oldest(struct saved *s);
void saved__begin(struct saved *s, uint64_t ts_ns, uint64_t newest_id, uint64_t live);
/* Of the pass under way. NULL: it is not in it. */
struct saved_block *saved__find(const struct saved *s, uint64_t id);
/* A block that is not in the pass under way yet. NULL: no room. */
struct saved_block *saved__add(struct saved *s, const struct block *b);
/* is_other is set in all blocks of the pass under way. Those made before an earlier pass are added to that, too. */
void saved__end(struct saved *s, uint64_t newest_id);
void saved__check(const struct saved *s); /* aborts when broken */

#endif
