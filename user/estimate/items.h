/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * items: the blocks of one recorded step as sizes with lives, to be changed, added to and summed again (estimate/whatif.h).
 *
 * Times are those of the recording in ITEM_TICKS to the nanosecond: what is added has its place between two recorded
 * allocations. At the same time ends come before allocations, and allocations go in the order of items.
 */
#ifndef MT_ESTIMATE_ITEMS_H
#define MT_ESTIMATE_ITEMS_H

#include "estimate/recorded.h"

#define ITEM_TICKS 32
#define ITEM_NEVER UINT64_MAX

/* Whether its size with another batch is known (estimate/mates.h). */
enum item_doubt { ITEM_SURE = 0, ITEM_ALONE, ITEM_SHRINKS, ITEM_STEEP, ITEM_BY_KIND };

struct item {
	const struct recorded_block *k; /* NULL: added */
	uint64_t alloc, freed;		/* ticks; ITEM_NEVER: it outlives the step */
	double size, slope, curve;	/* as recorded; more for each one more of the batch, and for its square */
	double other, span;		/* its mate's size, and how much more its batch was */
	double factor;
	int is_given, is_paired; /* there when the step begins; found in the other recording */
	enum item_doubt doubt;
};

struct items {
	struct item *at; /* those that are given first, then by allocation; behind `recorded` what was added, in any order */
	size_t cnt, cap, given, recorded;
	uint32_t *by_alloc, *by_free;
	uint64_t from, to; /* the step, ticks */
	const struct names *names;
};

int items__init(struct items *i, const struct recorded *r, const struct recorded_kept *kept); /* 0 or -ENOMEM */
void items__done(struct items *i);
int items__add(struct items *i, uint64_t alloc, uint64_t freed, double size); /* 0 or -ENOMEM */
int items__copy(struct items *to, const struct items *from);		      /* 0 or -ENOMEM */
int items__sort(struct items *i); /* after any change of lives, before a sum: 0 or -ENOMEM */

double item__size(const struct item *t, double more); /* `more`: of the batch than recorded */
/* The highest sum; *ret_when (or NULL): the time of the allocation that reached it. */
double items__peak(const struct items *i, double more, uint64_t *ret_when);

/* An operator of the step, or after it, was given it: only such blocks are known to belong to the job's work. */
int item__is_used(const struct items *i, const struct item *t);

#endif
