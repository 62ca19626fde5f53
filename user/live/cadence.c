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

/* Windows may begin this much earlier than they must: probes that are set and not used cost time. */
#define EARLY_NS 200000000ull
#define EARLY_STEPS 3

bool cadence__fits(const struct cadence *c, const struct cadence_now *now)
{
	double left_ns, lead_ns = (double)now->lead_ns, early_ns = (double)EARLY_NS;

	if (c->align_ns) {
		left_ns = (double)(c->align_ns - now->wall_ns % c->align_ns);
		return left_ns >= lead_ns ? left_ns <= lead_ns + early_ns : (double)c->align_ns <= lead_ns + early_ns;
	}
	if (!c->align_steps || !now->step_no || now->step_ns <= 0)
		return true;
	/* one step more than are left: the step before the first traced one shows what is there */
	lead_ns += 2 * now->step_ns;
	early_ns = early_ns > EARLY_STEPS * now->step_ns ? early_ns : EARLY_STEPS * now->step_ns;
	left_ns = (double)(c->align_steps - now->step_no % c->align_steps) * now->step_ns;
	return left_ns >= lead_ns ? left_ns <= lead_ns + early_ns :
				    (double)c->align_steps * now->step_ns <= lead_ns + early_ns;
}

uint64_t cadence__at(const struct cadence *c, uint64_t wall_ns)
{
	return c->align_ns && wall_ns % c->align_ns ? wall_ns + c->align_ns - wall_ns % c->align_ns : 0;
}
