/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * budget: when the next window may be, so that of the time that passes a job loses no more than a share: over the whole
 * session, over the last minute, and from the begin of each window to that of the next. Distances are random, for what a job
 * does every so many steps would else be in all windows or in none. Pure: it is told the time, and what windows cost.
 *
 * The first window is not asked about: only it tells what one costs. It is paid for like the others.
 */
#ifndef MT_LIVE_BUDGET_H
#define MT_LIVE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_MINUTE_NS 60000000000ull
#define BUDGET_HOUR_NS 3600000000000ull /* a window that costs more than this leaves is one too many */
#define BUDGET_REST_NS 1000000000ull	/* at least, between two windows */
#define BUDGET_WINDOWS 64		/* in a minute, at most */

struct budget_window {
	uint64_t begin_ns, end_ns;
	double lost_ns;
};

/* All 0 but the share at first. */
struct budget {
	double share;	 /* of the time; 0: no budget, nothing below is used */
	uint64_t random; /* the state of its generator; 0: it begins with a fixed one */
	uint64_t start_ns;
	double watch;	 /* share that is lost between windows, too */
	double spent_ns; /* in all windows but the last */
	double price_ns, before_ns; /* that a window is expected to cost; without what the last one cost */
	double stretch;	 /* how far this distance is, of the least: 1 to 1.5 */
	uint64_t cnt;
	struct budget_window windows[BUDGET_WINDOWS]; /* the latest, by number */
};

/* A window was from begin to end. Until more is said of its price it is as the one before. */
void budget__window(struct budget *b, uint64_t begin_ns, uint64_t end_ns);
/* The job lost so much in the last window, as far as is known now; and one like it would cost so much. */
void budget__price(struct budget *b, double lost_ns, double next_ns);
void budget__free(struct budget *b); /* instead: somebody asked for it whatever it costs */
/* When the next window may begin. UINT64_MAX: never, at this price. */
uint64_t budget__may(const struct budget *b);
/* When it is to begin: then, or somewhat later. */
uint64_t budget__next(const struct budget *b);

#endif
