/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/budget.h"

#define PRICE_LEAST 0.01 /* of a window's own time: anything measured below that is noise */

/* xorshift64*, of Marsaglia and Vigna. 0 to 1. */
static double budget__random(struct budget *b)
{
	b->random = b->random ? b->random : 88172645463325252ull;
	b->random ^= b->random >> 12;
	b->random ^= b->random << 25;
	b->random ^= b->random >> 27;
	return (double)(b->random * 0x2545f4914f6cdd1dull >> 11) / 0x1p53;
}

static const struct budget_window *budget__last(const struct budget *b)
{
	return &b->windows[(b->cnt - 1) % BUDGET_WINDOWS];
}

void budget__window(struct budget *b, uint64_t begin_ns, uint64_t end_ns)
{
	if (b->cnt)
		b->spent_ns += budget__last(b)->lost_ns;
	b->before_ns = b->price_ns;
	b->windows[b->cnt++ % BUDGET_WINDOWS] =
		(struct budget_window){ .begin_ns = begin_ns, .end_ns = end_ns, .lost_ns = b->price_ns };
	b->stretch = 1 + budget__random(b) / 2;
}

void budget__price(struct budget *b, double lost_ns, double next_ns)
{
	struct budget_window *w = &b->windows[(b->cnt - 1) % BUDGET_WINDOWS];
	double least = PRICE_LEAST * (double)(w->end_ns - w->begin_ns);

	w->lost_ns = lost_ns > least ? lost_ns : least;
	next_ns = next_ns > least ? next_ns : least;
	b->price_ns = b->cnt > 2 ? (b->before_ns + next_ns) / 2 : next_ns;
}

void budget__free(struct budget *b)
{
	b->windows[(b->cnt - 1) % BUDGET_WINDOWS].lost_ns = 0;
	b->price_ns = b->before_ns;
}

/* When the cost of the last minute leaves room for one more window: once enough windows are older than a minute. */
static uint64_t budget__minute(const struct budget *b, double share)
{
	double sum = b->price_ns;
	uint64_t cnt = b->cnt < BUDGET_WINDOWS ? b->cnt : BUDGET_WINDOWS;

	if (sum > share * (double)BUDGET_MINUTE_NS) /* one alone costs more: its distance to the next takes care of it */
		return 0;
	for (uint64_t i = 1; i <= cnt; i++) {
		const struct budget_window *w = &b->windows[(b->cnt - i) % BUDGET_WINDOWS];

		sum += w->lost_ns;
		if (sum > share * (double)BUDGET_MINUTE_NS)
			return w->end_ns + BUDGET_MINUTE_NS;
	}
	return 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t after(uint64_t ts_ns, double ns)
{
	return ns < (double)(UINT64_MAX - ts_ns) / 2 ? ts_ns + (uint64_t)ns : UINT64_MAX;
}

uint64_t budget__may(const struct budget *b)
{
	double share = b->share - b->watch;
	const struct budget_window *w;
	uint64_t ret;

	if (!b->cnt)
		return b->start_ns;
	if (share <= 0 || b->price_ns > share * (double)BUDGET_HOUR_NS)
		return UINT64_MAX;
	w = budget__last(b);
	ret = later(w->end_ns + BUDGET_REST_NS, after(w->begin_ns, w->lost_ns / share));
	ret = later(ret, after(b->start_ns, (b->spent_ns + w->lost_ns + b->price_ns) / share));
	return later(ret, budget__minute(b, share));
}

uint64_t budget__next(const struct budget *b)
{
	uint64_t may_ns = budget__may(b);
	const struct budget_window *w;

	if (may_ns == UINT64_MAX || !b->cnt)
		return may_ns;
	w = budget__last(b);
	return after(w->begin_ns, (double)(may_ns - w->begin_ns) * b->stretch);
}
