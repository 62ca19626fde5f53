/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * learned: labels of allocations seen while operators were not, taken from a like step that was traced (docs/sampling.md).
 *
 * The allocations of the step under way are kept, in order, for each process whose steps are known. A step that was traced
 * whole waits for its labels until the next one is over; then it is compared with what was learned before, as if it had not
 * been traced (the check), and becomes the pattern of its kind of steps, or a kind of its own. In a step that was not traced
 * whole, each allocation gets the label of its pair in the kind that fits best (core/align.h), when the step is over; before
 * that a guess, by its place.
 *
 * Counted apart from everything measured: byte·time in gaps, by a clock that runs there alone. Nothing of it is in any other
 * number. A block whose category is measured after all (an operator was given it, Python has a name for it) leaves these sums.
 *
 * Holds LEARNED_KINDS a process, of LEARNED_ALLOCS allocations at most (of a longer step its beginning); together LEARNED_MAX
 * allocations of kinds and LEARNED_OPEN of steps under way and live blocks, one process half of each. Allocations beyond have
 * no label and no weight: they are counted (no_room). The least recently used kind is dropped.
 */
#ifndef MT_MODEL_LEARNED_H
#define MT_MODEL_LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/core/align.h"
#include "timeline/timeline.h"

#define LEARNED_KINDS 8
#define LEARNED_ALLOCS 65536
#define LEARNED_LANES 16	/* threads whose order is kept apart; the last one has all others, too */
#define LEARNED_MAX (1u << 18)	/* 6 MiB */
#define LEARNED_OPEN (1u << 19) /* 28 MiB */
#define LEARNED_DEVS 66		/* TALLY_DEVS_MAX */
#define LEARNED_FITS 0.45	/* of a step: less is of no kind that is known */
#define LEARNED_SAME 0.98	/* of a traced step: less is another kind, as one with seven batches of eight is */
#define LEARNED_WRONG 0.02	/* of the bytes of a check: more is reported as a drift */

/* Rows of the model's tallies. */
struct learned_what {
	uint16_t op, region, module;
	uint8_t cat, phase;
};

/* An allocation of the step under way, or of one that is over and lives. */
struct learned_alloc {
	uint64_t id, size;
	uint64_t since_ns, end_ns; /* by the clock of gaps: weighed until then; its end, or from when it was measured */
	struct learned_what what;  /* of one that was traced: measured; else learned, until its step is over a guess */
	uint8_t dev, lane;	   /* dev: its number among the model's */
	uint8_t blind : 1;	   /* no operator was seen */
	uint8_t is_dead : 1;
	uint8_t is_over : 1;	 /* of one that is blind: weighed until end_ns, and no further … */
	uint8_t is_measured : 1; /* … because it is measured */
	uint8_t has : 1;	 /* of one that is blind: it has a label */
	uint8_t lives_on : 1;	 /* likewise: its step is over; is_over: it was weighed for the last time */
};

struct learned_allocs {
	struct learned_alloc *v; /* by id */
	uint32_t cnt, cap;
};

/* A thread's part of a step. */
struct learned_lane {
	uint32_t tid, at, cnt;
};

struct learned_kind {
	struct align_item *items; /* by lanes */
	struct learned_what *whats;
	uint32_t cnt, lanes_cnt;
	struct learned_lane lanes[LEARNED_LANES];
	uint64_t regions; /* that begin in such a step */
	uint64_t used;	  /* when it was last needed */
};

/* Where a thread is in the step, for guesses. */
struct learned_place {
	uint32_t cnt;  /* allocations in this step */
	uint32_t next; /* the one that is expected, of the kind's lane */
	bool is_off;   /* the last one was another */
	uint64_t last[ALIGN_RUN]; /* sizes */
};

struct learned_proc {
	struct learned_allocs now, ready, living; /* ready: traced, and waits for its labels */
	struct learned_place places[LEARNED_LANES];
	uint32_t tids[LEARNED_LANES], lanes_cnt; /* of the step under way */
	uint32_t ready_tids[LEARNED_LANES];
	struct learned_kind kinds[LEARNED_KINDS];
	uint32_t kinds_cnt, guess; /* guess: the kind of this step, perhaps */
	uint32_t living_gone;
	uint64_t regions, ready_regions; /* that had begun at the last boundary; in the one that is ready */
	bool is_whole, by_place; /* the step under way was seen from its begin on; the last one fitted by place alone */
	struct learned *all;
};

struct learned_sums {
	unsigned __int128 byte_ns[CAT_MAX]; /* learned */
	unsigned __int128 none_ns;	    /* seen while no operator was, and of no kind that is known */
	unsigned __int128 all_ns;	    /* of all that lived in gaps */
	uint64_t live, since_ns;
};

struct learned_op {
	unsigned __int128 byte_ns;
	uint64_t cnt;
};

struct learned_counts {
	uint64_t steps, unlike;	 /* with labels from a kind; of no kind that is known */
	uint64_t learnt, again;	 /* traced steps that were learned from; of them, because the check went wrong */
	uint64_t checks;
	unsigned __int128 check_bytes, wrong_cat, wrong_op, wrong_none, wrong; /* wrong: one of the three */
	uint64_t no_room;	 /* allocations of gaps that are in no sum, or not to their end */
	unsigned __int128 no_room_bytes;
};

struct learned {
	void *ctx;
	uint8_t (*cat_of)(void *ctx, uint64_t id, uint8_t cat); /* its final one; cat: at its free, or its allocation */
	void (*reported)(void *ctx, const struct learned_alloc *b); /* its step is over */
	struct learned_sums devs[LEARNED_DEVS];
	struct learned_op *ops;
	uint32_t ops_cnt;
	struct learned_counts counts;
	uint64_t ticks;
	uint32_t kinds, items, open; /* of all processes; open: room */
	uint64_t clock_ns, base_ns; /* base: of the clock of gaps when it last began to run */
	bool runs;		    /* allocations are seen in gaps */
	struct align_item *room; /* of one comparison: LEARNED_ALLOCS of each */
	uint32_t *pairs, *best, *order;
};

struct learned *learned__new(void *ctx, uint8_t (*cat_of)(void *, uint64_t, uint8_t),
			     void (*reported)(void *, const struct learned_alloc *)); /* NULL: no memory */
void learned__free(struct learned *l);
struct learned_proc *learned__add(struct learned *l); /* a process; NULL: no memory */
void learned_proc__free(struct learned_proc *p);      /* NULL is fine */
void learned__gone(struct learned_proc *p, uint64_t clock_ns); /* with its blocks: what is known of them is counted */

/* gaps_ns: the clock of gaps. */
void learned__runs(struct learned *l, bool runs, uint64_t gaps_ns);
uint64_t learned__clock(const struct learned *l, uint64_t gaps_ns);
/* A block came, or went; `live` bytes are on its device from now on. */
void learned__live(struct learned *l, unsigned dev, uint64_t live, uint64_t clock_ns);

/* An allocation: its guess if it is blind, NULL: none. The same by the id of a block that is live or was just freed. */
const struct learned_what *learned__allocated(struct learned_proc *p, const struct learned_alloc *b, uint32_t tid);
const struct learned_what *learned__find(const struct learned_proc *p, uint64_t id);
/* what: measured until then. */
void learned__freed(struct learned_proc *p, uint64_t id, const struct learned_what *what, uint64_t clock_ns);
void learned__measured(struct learned_proc *p, uint64_t id, uint64_t clock_ns); /* no longer learned */

/* A step is over, seen whole or not; is_traced: all of it. regions: that have begun so far. */
void learned__step(struct learned_proc *p, bool is_whole, bool is_traced, uint64_t regions, uint64_t clock_ns);
void learned__settle(struct learned_proc *p); /* the step that is ready has all its labels */
void learned__cut(struct learned_proc *p);    /* allocations are not seen: the step under way is not whole */

/* Adds live blocks and the step under way to sums that have all else. ret_ops: ops_cnt. */
void learned_proc__sum(const struct learned_proc *p, uint64_t clock_ns, struct learned_sums *ret_devs,
			struct learned_op *ret_ops);
void learned_proc__check(const struct learned_proc *p);

#endif
