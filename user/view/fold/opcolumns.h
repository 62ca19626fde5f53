/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * opcolumns: the lines of optrace as a picture holds them, outermost operators only. Bounded.
 *
 * All of them in OPCOLUMNS_MAX columns with the least and the most of their operators: when they are full, neighbours join, so
 * the highest value stays exact. Marks likewise: when there are too many, every second step's are dropped. And one step
 * operator by operator: the one in which most was allocated, OPSTEP_MAX operators of it at most.
 */
#ifndef MT_VIEW_FOLD_OPCOLUMNS_H
#define MT_VIEW_FOLD_OPCOLUMNS_H

#include "view/fold/optrace.h"

#define OPCOLUMNS_MAX 2048u
#define OPMARKS_MAX 1024u
#define OPSTEP_MAX 4096u
#define OPSTEP_MARKS_MAX 64u

struct opspan {
	uint64_t low, high;
};

struct opcolumn {
	struct opspan allocated, reserved;
	name_id op; /* of the one after which most was allocated */
};

struct opmark {
	uint64_t at;	/* operators before it; of a step: in it */
	uint64_t round; /* steps before it */
	uint64_t number; /* of a step that is over */
	uint8_t kind;	/* enum optrace_kind */
};

struct opstep_row {
	uint64_t allocated, reserved, created;
	name_id op;
	uint8_t phase;
};

struct opstep {
	struct opstep_row rows[OPSTEP_MAX];
	struct opmark marks[OPSTEP_MARKS_MAX];
	uint32_t cnt, marks_cnt;
	uint64_t first; /* operators before it */
	uint64_t ops;	/* all that it has */
	uint64_t high, number;
	int has_number; /* its end was seen */
};

struct opcolumns {
	struct opcolumn columns[OPCOLUMNS_MAX];
	struct opmark marks[OPMARKS_MAX];
	uint64_t ops, each;	    /* operators; in a column */
	uint64_t round, round_each; /* marks are kept of one step in this many */
	uint32_t marks_cnt;
	uint64_t high;
	struct opstep *now, *most; /* NULL: steps are not kept */
	uint64_t around_ns;	   /* `most` is the step in which this is */
	uint64_t since_ns;	   /* `now` began */
	int is_found;
};

/* with_step: the highest one is kept, or the one around a moment, 0: none. 0 or -ENOMEM; zeroed by the caller. */
int opcolumns__init(struct opcolumns *c, int with_step, uint64_t around_ns);
void opcolumns__done(struct opcolumns *c);
void opcolumns__add(struct opcolumns *c, const struct optrace_line *l);
void opcolumns__end(struct opcolumns *c); /* the step that is under way is one, too */

#endif
