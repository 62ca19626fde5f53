/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/cadence.h"

void cadence__over(struct cadence *c, const struct cadence_window *last)
{
	if (c->budget.share > 0)
		budget__window(&c->budget, last->begin_ns, last->end_ns);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t cadence__next(const struct cadence *c, const struct cadence_window *last)
{
	uint64_t every_ns = last->begin_ns > UINT64_MAX - c->every_ns ? UINT64_MAX : last->begin_ns + c->every_ns;

	every_ns = later(every_ns, last->end_ns);
	return c->budget.share > 0 ? later(budget__next(&c->budget), every_ns) : every_ns;
}

uint64_t cadence__may(const struct cadence *c, const struct cadence_window *last)
{
	return c->budget.share > 0 ? later(budget__may(&c->budget), last->end_ns) : last->end_ns;
}
