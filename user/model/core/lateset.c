/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A sorted array: a search is log n, a change moves the tail: 40 µs at the very most (512 KiB), for each
 * block that is seen late once.
 */
#include "model/core/lateset.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/check.h"

void lateset__done(struct lateset *s)
{
	free(s->ptrs);
	*s = (struct lateset){ 0 };
}

/* The first one at ptr or above it. */
static size_t lateset__find(const struct lateset *s, uint64_t ptr)
{
	size_t lo = 0, hi = s->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->ptrs[mid] < ptr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool lateset__add(struct lateset *s, uint64_t ptr)
{
	size_t i = lateset__find(s, ptr);

	if (i < s->cnt && s->ptrs[i] == ptr)
		return true;
	if (s->cnt >= LATESET_MAX || !array_has_room(s->ptrs, s->cnt, s->cap, 64))
		return false;
	memmove(&s->ptrs[i + 1], &s->ptrs[i], (s->cnt - i) * sizeof(*s->ptrs));
	s->ptrs[i] = ptr;
	s->cnt++;
	return true;
}

void lateset__remove(struct lateset *s, uint64_t ptr)
{
	size_t i = lateset__find(s, ptr);

	if (i == s->cnt || s->ptrs[i] != ptr)
		return;
	s->cnt--;
	memmove(&s->ptrs[i], &s->ptrs[i + 1], (s->cnt - i) * sizeof(*s->ptrs));
}

bool lateset__next(const struct lateset *s, uint64_t from, uint64_t end, uint64_t *ret)
{
	size_t i = lateset__find(s, from);

	if (i == s->cnt || s->ptrs[i] >= end)
		return false;
	*ret = s->ptrs[i];
	return true;
}

bool lateset__before(const struct lateset *s, uint64_t ptr, uint64_t *ret)
{
	size_t i = lateset__find(s, ptr);

	if (!i)
		return false;
	*ret = s->ptrs[i - 1];
	return true;
}

void lateset__check(const struct lateset *s)
{
	for (size_t i = 1; i < s->cnt; i++)
		mt_check(s->ptrs[i - 1] < s->ptrs[i]);
}
