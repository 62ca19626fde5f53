/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * cadence: when the next window of whole traced steps begins, and how many steps it has. Pure: the time is given. Two rules:
 * --steps N --every T, and a budget (live/budget.h); where both are given, a window begins when both allow it.
 */
#ifndef MT_LIVE_CADENCE_H
#define MT_LIVE_CADENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "live/budget.h"

struct cadence {
	uint64_t steps;	   /* per window */
	uint64_t every_ns; /* from the start of one window to the start of the next; 0: no such rule */
	/* --align, at most one of them: the number of the first traced step is a multiple of it; or the wall clock then is */
	uint64_t align_steps, align_ns;
	struct budget budget;
};

/* A window, from its first probe set until its last probe removed. */
struct cadence_window {
	uint64_t begin_ns, end_ns;
	uint64_t steps; /* whole steps traced; 0: none, the window was given up or was a slice of time */
};

/* Without a rule there are no windows: everything is traced. */
static inline bool cadence__is_on(const struct cadence *c)
{
	return c->every_ns || c->budget.share > 0;
}

/* The present state, for --align. */
struct cadence_now {
	uint64_t wall_ns;
	uint64_t step_no;  /* of the latest boundary, by the optimizer's own count; 0: unknown */
	double step_ns;	   /* duration of a step; 0: unknown */
	uint64_t lead_ns;  /* time it takes to set the probes */
};

/* If a window begins now, all probes are set in time and not long before. True without --align or with unknown numbers. */
bool cadence__fits(const struct cadence *c, const struct cadence_now *now);
/* All probes are set: the wall clock time to wait for; 0: no wait, or the model waits for the step. */
uint64_t cadence__at(const struct cadence *c, uint64_t wall_ns);

/* A window is over. */
void cadence__over(struct cadence *c, const struct cadence_window *last);
/* When the next one is to begin, never before the last one's end. A late one is not made up for. UINT64_MAX: never. */
uint64_t cadence__next(const struct cadence *c, const struct cadence_window *last);
/* The same for a requested window: as soon as the budget allows; without a budget at once. */
uint64_t cadence__may(const struct cadence *c, const struct cadence_window *last);

#endif
