/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/carried.h"

#include <stdlib.h>

#include "base/array.h"

static int at_cmp(const void *pa, const void *pb)
{
	const struct carried_at *a = pa, *b = pb;

	return cmp_up(a->pid, b->pid) ?: cmp_up(a->dev, b->dev) ?: cmp_up(a->ptr, b->ptr);
}

void carried__done(struct carried *c)
{
	free(c->v);
	*c = (struct carried){ 0 };
}

void carried__add(struct carried *c, uint32_t pid, uint8_t dev, uint64_t ptr)
{
	if (c->cnt < CARRIED_MAX && array_has_room(c->v, c->cnt, c->cap, 1024))
		c->v[c->cnt++] = (struct carried_at){ ptr, pid, dev };
}

void carried__sort(struct carried *c)
{
	if (c->cnt)
		qsort(c->v, c->cnt, sizeof(*c->v), at_cmp);
}

size_t carried__from(const struct carried *c, uint32_t pid, uint8_t dev, uint64_t ptr)
{
	const struct carried_at key = { ptr, pid, dev };
	size_t lo = 0, hi = c->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (at_cmp(&c->v[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}
