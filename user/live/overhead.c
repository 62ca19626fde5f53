/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/overhead.h"

#define TURN_NS 1000000000ull
#define CPU_NS_MIN 50000000ull /* of less, a share means nothing: such a turn is extended */

bool overhead__turn(struct overhead *o, uint64_t now_ns, uint64_t probe_ns, uint64_t cpu_ns)
{
	if (!o->limit)
		return false;
	if (!o->at_ns || probe_ns < o->probe_ns || cpu_ns < o->cpu_ns) {
		o->over_cnt = 0;
	} else {
		if (now_ns - o->at_ns < TURN_NS || cpu_ns - o->cpu_ns < CPU_NS_MIN)
			return false;
		o->share = (double)(probe_ns - o->probe_ns) / (double)(cpu_ns - o->cpu_ns);
		o->over_cnt = o->share > o->limit ? o->over_cnt + 1 : 0;
	}
	o->at_ns = now_ns;
	o->probe_ns = probe_ns;
	o->cpu_ns = cpu_ns;
	return o->over_cnt >= OVERHEAD_TURNS;
}
