/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * growth: blocks that live across steps and keep growing in number, by process, device, operator, region and (--stacks) stack.
 *
 * At each boundary (a step of the process; without steps every GROWTH_TICK_NS) counts, for each row, the live blocks allocated
 * before the previous boundary: what a step allocates and frees again never shows. GROWTH_SLOTS numbers a row
 * whose distance doubles, each the lowest of its boundaries: memory does not grow with the trace. A row settles when it is
 * touched, so that a boundary costs nothing.
 *
 * Where only some steps are traced, boundaries are those of traced steps, and blocks those of whole ones: as if the steps
 * between did not exist. Blocks from an earlier window that are still there are reported by EV_STAYED (model_levels.c).
 *
 * Holds at most GROWTH_ROWS_MAX rows; then one without blocks gives its place up, or the allocation is counted as not
 * watched. Blocks seen late are no growth and are not counted here.
 */
#ifndef MT_MODEL_GROWTH_H
#define MT_MODEL_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

#define GROWTH_SLOTS 32		   /* 16 to 32 are in use, once there were as many boundaries */
#define GROWTH_ROWS_MAX 16384	   /* 8 MiB */
#define GROWTH_TICK_NS 500000000ull
#define GROWTH_TICKS_MIN 10	   /* with fewer nothing can be concluded */
#define GROWTH_BLOCKS_MIN 4	   /* a growing place grew by so many at least */

struct block;

enum growth_kind { GROWTH_BY_TIME = 0, GROWTH_BY_CLEARING, GROWTH_BY_OPTIMIZER, GROWTH_BY_MARK };

/*
 * Of a process: when its boundaries are. A better kind of boundary begins a new era, and so does the moment at which all
 * operators have their probes: what was before does not count.
 */
struct growth_clock {
	uint64_t steps;	   /* boundaries of this era so far, */
	uint64_t tick;	   /* … and those that count: of steps that were traced */
	uint64_t young_id; /* blocks from this one on were allocated after the last boundary */
	uint64_t from_ns, last_ns; /* the era's begin (0: not yet), the last boundary */
	uint32_t era;
	uint32_t windows;  /* of traced steps, in this era; 0: all are */
	uint8_t kind;	   /* enum growth_kind */
	uint8_t shift;	   /* boundaries a slot, as a power of two */
};

/* The key of a row. */
struct growth_key {
	uint32_t pid;
	uint32_t op, region; /* rows of the model's tallies */
	uint32_t dev : 8;    /* enum mt_dev */
	uint32_t stack : 24; /* node of the tree of stacks, 0: not known */
};

static inline bool growth_key__is(const struct growth_key *a, const struct growth_key *b)
{
	return a->pid == b->pid && a->op == b->op && a->region == b->region && a->dev == b->dev &&
	       a->stack == b->stack;
}

struct growth_row {
	struct growth_key key;
	uint32_t era, cnt, young_cnt;
	uint8_t shift;
	uint32_t stayed, alike; /* times that a block was still there after a gap; of them those that could be another one */
	uint64_t first_id; /* of its blocks: older ones of the same key were not watched */
	uint64_t live, young;
	uint64_t fell_ns; /* when half of the blocks at the last boundary were left; 0: never */
	uint32_t half;	  /* that many blocks */
	uint64_t tick; /* boundaries that are in the slots */
	uint64_t low[GROWTH_SLOTS];
	uint32_t low_cnt[GROWTH_SLOTS];
};

struct growth {
	struct growth_row *rows;
	uint32_t cnt, cap, hand; /* hand: where the search for a row without blocks goes on */
	struct index by_key;
	uint64_t not_watched;
};

void growth__done(struct growth *g);
/* A boundary of this kind in the process; ignored if a better kind was seen before. */
void growth_clock__step(struct growth_clock *c, enum growth_kind kind, uint64_t last_id, uint64_t now_ns);
/* A new era of the same kind of boundaries, whose numbers go on. */
void growth_clock__anew(struct growth_clock *c, uint64_t last_id, uint64_t now_ns);
/* The boundary just passed ended a step that was seen whole. last_id: the newest block's. */
void growth_clock__count(struct growth_clock *c, uint64_t last_id);
/* stack: where it was allocated, of a block the same all its life. */
void growth__allocated(struct growth *g, const struct block *b, uint32_t stack, struct growth_clock *c, uint64_t now_ns);
/* b: already out of the table; last_id: the newest block's. Blocks that were not watched are no error. */
void growth__freed(struct growth *g, const struct block *b, uint32_t stack, struct growth_clock *c, uint64_t last_id,
		  uint64_t now_ns);
void growth__drop_pid(struct growth *g, uint32_t pid); /* its blocks have ended */
/* The row of a block; NULL: it has none, or was not watched. */
struct growth_row *growth__row_of(const struct growth *g, const struct block *b, uint32_t stack);
/* Copies, as a report must not change the model: the clock as of now, and a row as of a clock. */
void growth_clock__time(struct growth_clock *c, uint64_t last_id, uint64_t now_ns);
void growth_row__settle(struct growth_row *r, const struct growth_clock *c);
uint32_t growth_row__used(const struct growth_row *r); /* slots */

#endif
