/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * cadence: when the next window of whole traced steps begins, and how many steps it has. Pure: it is told the time. Two rules:
 * --steps N --every T, and a budget (live/budget.h); where both are given, none is sooner than either says.
 */
#ifndef MT_LIVE_CADENCE_H
#define MT_LIVE_CADENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "live/budget.h"

struct cadence {
	uint64_t steps;	   /* of a window */
	uint64_t every_ns; /* from the begin of one to that of the next; 0: no such rule */
	/* --align, one of them or none: the first traced step's number is a multiple of it; so is the wall clock then */
	uint64_t align_steps, align_ns;
	struct budget budget;
};

/* What a window was, from its first probe that was set until the last was gone again. */
struct cadence_window {
	uint64_t begin_ns, end_ns;
	uint64_t steps; /* whole ones that were traced; 0: none, it was given up or a slice of time */
};

/* Without a rule there are no windows: all is traced. */
static inline bool cadence__is_on(const struct cadence *c)
{
	return c->every_ns || c->budget.share > 0;
}

/* How things stand, for --align. */
struct cadence_now {
	uint64_t wall_ns;
	uint64_t step_no;  /* the latest boundary's, by the optimizer's own count; 0: not known */
	double step_ns;	   /* a step takes; 0: not known */
	uint64_t lead_ns;  /* probes take so long to be set */
};

/* If they come now, all are set in time, and not long before. Always so without --align, or where numbers are not known. */
bool cadence__fits(const struct cadence *c, const struct cadence_now *now);
/* All are set: until when to wait with the window, by the wall clock; 0: not at all, or the model waits for the step. */
uint64_t cadence__at(const struct cadence *c, uint64_t wall_ns);

/* One is over. */
void cadence__over(struct cadence *c, const struct cadence_window *last);
/* When the next one is to begin: never before the last one's end. One that is late is not made up for. UINT64_MAX: never. */
uint64_t cadence__next(const struct cadence *c, const struct cadence_window *last);
/* The same, for what should be traced now: as soon as the budget allows; without one at once. */
uint64_t cadence__may(const struct cadence *c, const struct cadence_window *last);

#endif
