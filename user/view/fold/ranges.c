/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/ranges.h"

#include <string.h>

void ranges__init(struct ranges *s)
{
	s->cnt = s->last = 0;
	s->gap = RANGES_GAP;
}

static void ranges__join(struct ranges *s)
{
	size_t out = 0;

	for (size_t i = 1; i < s->cnt; i++) {
		if (s->r[i].from <= s->r[out].to || s->r[i].from - s->r[out].to <= s->gap) {
			if (s->r[i].to > s->r[out].to)
				s->r[out].to = s->r[i].to;
		} else {
			s->r[++out] = s->r[i];
		}
	}
	s->cnt = out + 1;
	s->last = 0;
}

void ranges__add(struct ranges *s, uint64_t from, uint64_t size)
{
	uint64_t to = size > UINT64_MAX - from ? UINT64_MAX : from + size;
	size_t lo = 0, hi = s->cnt;

	if (s->cnt && s->r[s->last].from <= from && to <= s->r[s->last].to)
		return;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (s->r[mid].from <= from)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo && to <= s->r[lo - 1].to) {
		s->last = lo - 1;
		return;
	}
	memmove(&s->r[lo + 1], &s->r[lo], (s->cnt - lo) * sizeof(s->r[0]));
	s->r[lo] = (struct range_used){ from, to };
	s->cnt++;
	ranges__join(s);
	while (s->cnt > RANGES_MAX) {
		s->gap *= 2;
		ranges__join(s);
	}
}
