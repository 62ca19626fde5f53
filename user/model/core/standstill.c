/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/standstill.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"

void standstill__attach(struct standstill *s, struct report_attach *sum, const struct event *ev)
{
	if (ev->flags & EV_ATTACH_BEGINS) {
		s->when = STANDSTILL_MEANWHILE;
		s->longest_ns = 0;
		return;
	}
	s->when = STANDSTILL_LAST_STEP;
	sum->sites += ev->sites;
	sum->slices += ev->slices;
	if (ev->took_ns > sum->took_ns)
		sum->took_ns = ev->took_ns;
	if (ev->longest_us * 1000ull > sum->longest_slice_ns)
		sum->longest_slice_ns = ev->longest_us * 1000ull;
}

static void standstill__reported(const struct standstill *s, struct report_attach *sum)
{
	size_t cnt = s->before_cnt < STANDSTILL_BEFORE ? (size_t)s->before_cnt : STANDSTILL_BEFORE;
	uint64_t sorted[STANDSTILL_BEFORE], gap;

	if (!cnt)
		return;
	memcpy(sorted, s->before, cnt * sizeof(*sorted));
	qsort(sorted, cnt, sizeof(*sorted), u64_cmp);
	gap = s->longest_ns > sorted[cnt - 1] ? s->longest_ns - sorted[cnt - 1] : 0;
	if (sum->steps_before && gap <= sum->longest_gap_ns)
		return;
	sum->steps_before = cnt;
	sum->median_before_ns = sorted[cnt / 2];
	sum->longest_before_ns = sorted[cnt - 1];
	sum->longest_step_ns = s->longest_ns;
	sum->longest_gap_ns = gap;
}

void standstill__step(struct standstill *s, struct report_attach *sum, uint64_t took_ns)
{
	if (s->when == STANDSTILL_BEFORE_IT) {
		s->before[s->before_cnt++ % STANDSTILL_BEFORE] = took_ns;
		return;
	}
	if (took_ns > s->longest_ns)
		s->longest_ns = took_ns;
	if (s->when == STANDSTILL_MEANWHILE)
		return;
	s->when = STANDSTILL_BEFORE_IT;
	standstill__reported(s, sum);
}
