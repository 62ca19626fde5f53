/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/check.h"

void gaps__done(struct gaps *g)
{
	free(g->v);
	*g = (struct gaps){ 0 };
}

/* Two of the older half become one: it lasts from the begin of the first to the end of the second. */
static void gaps__join(struct gaps *g)
{
	size_t half = g->cnt / 2 & ~(size_t)1, kept = 0;

	for (size_t i = 0; i < half; i += 2) {
		struct gap joined = g->v[i];

		if (joined.seen_ns == joined.end_ns && g->v[i + 1].seen_ns == g->v[i + 1].end_ns)
			joined.seen_ns = g->v[i + 1].end_ns;
		else
			joined.seen_ns = joined.begin_ns;
		joined.end_ns = g->v[i + 1].end_ns;
		joined.lost_ns += g->v[i + 1].lost_ns;
		g->v[kept++] = joined;
	}
	memmove(&g->v[kept], &g->v[half], (g->cnt - half) * sizeof(*g->v));
	g->cnt -= half - kept;
}

/* How many begin before that time. */
static size_t gaps__before(const struct gaps *g, uint64_t ts_ns)
{
	size_t lo = 0, hi = g->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (g->v[mid].begin_ns < ts_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool gaps__begin(struct gaps *g, uint64_t ts_ns)
{
	const struct gap *last = g->cnt ? &g->v[g->cnt - 1] : NULL;

	if (gaps__is_open(g))
		return true;
	if (g->cnt == GAPS_MAX)
		gaps__join(g);
	if (!array_has_room(g->v, g->cnt, g->cap, 16))
		return false;
	last = g->cnt ? &g->v[g->cnt - 1] : NULL;
	g->v[g->cnt] = (struct gap){ .begin_ns = ts_ns, .end_ns = UINT64_MAX, .seen_ns = UINT64_MAX,
				     .before_ns = last ? last->before_ns + last->lost_ns : 0 };
	g->cnt++;
	g->times++;
	return true;
}

void gaps__end(struct gaps *g, uint64_t ts_ns)
{
	struct gap *last = g->cnt ? &g->v[g->cnt - 1] : NULL;

	if (!gaps__is_open(g))
		return;
	last->end_ns = ts_ns;
	last->lost_ns = ts_ns - last->begin_ns;
	last->seen_ns = gap__seen_ns(last, ts_ns);
}

bool gaps__seen(struct gaps *g, uint64_t ts_ns)
{
	struct gap *last = g->cnt ? &g->v[g->cnt - 1] : NULL;

	if (!gaps__is_open(g) || last->seen_ns != UINT64_MAX || last->known_ns)
		return false;
	last->known_ns = ts_ns;
	return true;
}

void gaps__blind(struct gaps *g, uint64_t ts_ns)
{
	if (gaps__is_open(g))
		g->v[g->cnt - 1].seen_ns = gap__seen_ns(&g->v[g->cnt - 1], ts_ns);
}

uint64_t gap__seen_ns(const struct gap *g, uint64_t now_ns)
{
	return !g->known_ns ? g->begin_ns : g->seen_ns < now_ns ? g->seen_ns : now_ns;
}

bool gaps__saw(const struct gaps *g, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = gaps__before(g, to_ns); i && g->v[i - 1].end_ns > from_ns; i--)
		if (g->v[i - 1].known_ns && g->v[i - 1].known_ns < to_ns && g->v[i - 1].seen_ns > from_ns)
			return true;
	return false;
}

uint64_t gaps__past(const struct gaps *g, uint64_t ts_ns)
{
	size_t cnt = gaps__before(g, ts_ns);
	const struct gap *p;
	uint64_t lost;

	if (!cnt)
		return ts_ns;
	p = &g->v[cnt - 1];
	if (ts_ns >= p->end_ns)
		return ts_ns - p->before_ns - p->lost_ns;
	if (p->end_ns == UINT64_MAX || p->lost_ns == p->end_ns - p->begin_ns)
		return p->begin_ns - p->before_ns;
	lost = (uint64_t)((double)p->lost_ns * ((double)(ts_ns - p->begin_ns) / (double)(p->end_ns - p->begin_ns)));
	return ts_ns - p->before_ns - (lost < ts_ns - p->begin_ns ? lost : ts_ns - p->begin_ns);
}

void gaps__check(const struct gaps *g)
{
	uint64_t lost = 0, end = 0;

	for (size_t i = 0; i < g->cnt; i++) {
		const struct gap *p = &g->v[i];

		mt_check(p->begin_ns >= end && p->end_ns >= p->begin_ns && p->before_ns == lost);
		mt_check(p->end_ns != UINT64_MAX || (i + 1 == g->cnt && !p->lost_ns));
		mt_check(p->end_ns == UINT64_MAX || p->lost_ns <= p->end_ns - p->begin_ns);
		mt_check(p->seen_ns >= p->begin_ns && p->seen_ns <= p->end_ns);
		lost += p->lost_ns;
		end = p->end_ns;
	}
	mt_check(g->cnt <= GAPS_MAX && g->times >= g->cnt);
}
