/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/pace.h"

#include "base/clock.h"

void pace__begin(struct pace *p)
{
	p->begun_cpu_ns = cpu_ns();
}

void pace__made(struct pace *p)
{
	p->cost_ns = cpu_ns() - p->begun_cpu_ns;
	p->made_ns = now_ns();
}

bool pace__may(const struct pace *p, uint64_t age_ns)
{
	return !p->made_ns || age_ns >= p->cost_ns * PACE_FACTOR;
}
