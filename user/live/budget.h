/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * budget: when the next window may begin, such that a job loses no more than a share of its time: over the whole session, over
 * the last minute, and from the start of each window to the start of the next. Distances are random, because what a job does
 * every few steps would otherwise be in all windows or in none. Pure: the time and the cost of windows are given.
 *
 * The first window is not asked about: only it shows what a window costs. It is paid for like the others.
 */
#ifndef MT_LIVE_BUDGET_H
#define MT_LIVE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_MINUTE_NS 60000000000ull
#define BUDGET_HOUR_NS 3600000000000ull /* a window must not cost more than its share of this time */
#define BUDGET_REST_NS 1000000000ull	/* the least rest between two windows */
#define BUDGET_WINDOWS 64		/* in a minute, at most */

struct budget_window {
	uint64_t begin_ns, end_ns;
	double lost_ns;
};

/* Zeroed at first, except for the share. */
struct budget {
	double share;	 /* of the time; 0: no budget, nothing below is used */
	uint64_t random; /* state of the generator; 0: it starts from a fixed one */
	uint64_t start_ns;
	double watch;	 /* share that is lost between windows */
	double spent_ns; /* in all windows but the last */
	double price_ns, before_ns; /* expected cost of the next window; the same, before the last window was priced */
	double stretch;	 /* this distance as a multiple of the least: 1 to 1.5 */
	uint64_t cnt;
	struct budget_window windows[BUDGET_WINDOWS]; /* the latest, by number */
};

/* A window lasted from begin to end. Until it is priced, its cost is taken to be that of the one before. */
void budget__window(struct budget *b, uint64_t begin_ns, uint64_t end_ns);
/* What the job lost in the last window, as far as is known now, and what another one like it would cost. */
void budget__price(struct budget *b, double lost_ns, double next_ns);
void budget__free(struct budget *b); /* instead: the window was requested whatever it costs */
/* When the next window may begin. UINT64_MAX: never, at this price. */
uint64_t budget__may(const struct budget *b);
/* When it is to begin: at that time or somewhat later. */
uint64_t budget__next(const struct budget *b);

#endif
