/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A sorted array. Neighbours are merged, as the kernel merges mappings, so that a process seldom
 * has more than some hundred ranges and moving the tail of the array is cheap; each change of it
 * was a system call, which cost more.
 */
#include "model/core/mapset.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/check.h"

void mapset__init(struct mapset *s)
{
	*s = (struct mapset){ 0 };
}

void mapset__done(struct mapset *s)
{
	free(s->ranges);
	*s = (struct mapset){ 0 };
}

void mapset__clear(struct mapset *s)
{
	s->cnt = 0;
	s->bytes = 0;
}

static uint64_t end_of(uint64_t start, uint64_t size)
{
	uint64_t end;

	return __builtin_add_overflow(start, size, &end) ? UINT64_MAX : end;
}

/* First range that ends at or after addr (after: strictly). */
static size_t mapset__find(const struct mapset *s, uint64_t addr, bool after)
{
	size_t lo = 0, hi = s->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->ranges[mid].end < addr || (after && s->ranges[mid].end == addr))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Room for one range at i. */
static bool mapset__open(struct mapset *s, size_t i)
{
	if (s->cnt >= MAPSET_MAX || !array_has_room(s->ranges, s->cnt, s->cap, 16))
		return false;
	memmove(&s->ranges[i + 1], &s->ranges[i], (s->cnt - i) * sizeof(*s->ranges));
	s->cnt++;
	return true;
}

static void mapset__close(struct mapset *s, size_t from, size_t to)
{
	if (from == to)
		return;
	memmove(&s->ranges[from], &s->ranges[to], (s->cnt - to) * sizeof(*s->ranges));
	s->cnt -= to - from;
}

bool mapset__add(struct mapset *s, uint64_t start, uint64_t size)
{
	uint64_t end = end_of(start, size);
	size_t i = mapset__find(s, start, false);
	bool left, right;

	if (start == end)
		return true;
	left = i < s->cnt && s->ranges[i].end == start;
	right = i + left < s->cnt && s->ranges[i + left].start == end;
	if (left && right) {
		s->ranges[i].end = s->ranges[i + 1].end;
		mapset__close(s, i + 1, i + 2);
	} else if (left) {
		s->ranges[i].end = end;
	} else if (right) {
		s->ranges[i].start = start;
	} else {
		if (!mapset__open(s, i))
			return false;
		s->ranges[i] = (struct map_range){ start, end };
	}
	s->bytes += end - start;
	return true;
}

bool mapset__remove(struct mapset *s, uint64_t start, uint64_t size, uint64_t *ret_gone)
{
	uint64_t end = end_of(start, size), was = s->bytes;
	size_t i = mapset__find(s, start, true), to;

	*ret_gone = 0;
	if (start == end || i == s->cnt)
		return true;
	if (s->ranges[i].start < start) {
		struct map_range *r = &s->ranges[i], tail = { end, r->end };

		s->bytes -= r->end - start;
		r->end = start;
		i++;
		if (tail.end > end) { /* a hole inside it */
			bool fits = mapset__open(s, i);

			if (fits) {
				s->ranges[i] = tail;
				s->bytes += tail.end - tail.start;
			}
			*ret_gone = was - s->bytes;
			return fits;
		}
	}
	for (to = i; to < s->cnt && s->ranges[to].end <= end; to++)
		s->bytes -= s->ranges[to].end - s->ranges[to].start;
	if (to < s->cnt && s->ranges[to].start < end) {
		s->bytes -= end - s->ranges[to].start;
		s->ranges[to].start = end;
	}
	mapset__close(s, i, to);
	*ret_gone = was - s->bytes;
	return true;
}

void mapset__check(const struct mapset *s)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->cnt; i++) {
		mt_check(s->ranges[i].start < s->ranges[i].end);
		mt_check(!i || s->ranges[i - 1].end < s->ranges[i].start);
		bytes += s->ranges[i].end - s->ranges[i].start;
	}
	mt_check(bytes == s->bytes);
}
