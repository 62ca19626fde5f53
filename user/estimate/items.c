/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/items.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"

static uint64_t ticks(uint64_t ns)
{
	return ns < ITEM_NEVER / ITEM_TICKS ? ns * ITEM_TICKS : ITEM_NEVER;
}

static int is_in(const struct recorded_block *k, const struct recorded_kept *kept, int given)
{
	if (!k->alloc_ns || k->pid != kept->pid || k->dev != kept->dev)
		return 0;
	if (given)
		return k->alloc_ns < kept->step_from && (!k->free_ns || k->free_ns >= kept->step_from);
	return k->alloc_ns >= kept->step_from && k->alloc_ns < kept->step_to;
}

static struct item *items__room(struct items *i)
{
	return array_has_room(i->at, i->cnt, i->cap, 1024) ? &i->at[i->cnt++] : NULL;
}

static int collect(struct items *i, const struct recorded *r, const struct recorded_kept *kept, int given)
{
	for (uint64_t id = 1; id <= r->last_id && id < r->blocks_cap; id++) {
		const struct recorded_block *k = &r->blocks[id];
		struct item *t;

		if (!is_in(k, kept, given))
			continue;
		t = items__room(i);
		if (!t)
			return -ENOMEM;
		*t = (struct item){ .k = k, .alloc = given ? i->from : ticks(k->alloc_ns),
				    .freed = k->free_ns ? ticks(k->free_ns) : ITEM_NEVER, .size = (double)k->size,
				    .factor = 1, .is_given = given };
	}
	return 0;
}

int items__init(struct items *i, const struct recorded *r, const struct recorded_kept *kept)
{
	int e;

	*i = (struct items){ .from = ticks(kept->step_from), .to = ticks(kept->step_to), .names = r->names };
	e = collect(i, r, kept, 1);
	i->given = i->cnt;
	if (!e)
		e = collect(i, r, kept, 0);
	i->recorded = i->cnt;
	return e ? e : items__sort(i);
}

void items__done(struct items *i)
{
	free_all(i->at, i->by_alloc, i->by_free);
	*i = (struct items){ 0 };
}

int items__copy(struct items *to, const struct items *from)
{
	*to = *from;
	to->by_alloc = to->by_free = NULL;
	to->cap = from->cnt ? from->cnt : 1;
	to->at = malloc(to->cap * sizeof(*to->at));
	if (!to->at)
		return -ENOMEM;
	if (from->cnt)
		memcpy(to->at, from->at, from->cnt * sizeof(*to->at));
	return 0;
}

int items__add(struct items *i, uint64_t alloc, uint64_t freed, double size)
{
	struct item *t = items__room(i);

	if (!t)
		return -ENOMEM;
	*t = (struct item){ .alloc = alloc, .freed = freed > alloc ? freed : alloc + 1, .size = size, .factor = 1 };
	return 0;
}

static int allocated_earlier(const void *a, const void *b, void *items)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct item *x = &((const struct item *)items)[i], *y = &((const struct item *)items)[j];

	return cmp_up(x->alloc, y->alloc) ?: cmp_up(i, j);
}

static int freed_earlier(const void *a, const void *b, void *items)
{
	const struct item *x = &((const struct item *)items)[*(const uint32_t *)a];
	const struct item *y = &((const struct item *)items)[*(const uint32_t *)b];

	return cmp_up(x->freed, y->freed);
}

int items__sort(struct items *i)
{
	free(i->by_alloc);
	free(i->by_free);
	i->by_alloc = malloc((i->cnt + 1) * sizeof(*i->by_alloc));
	i->by_free = malloc((i->cnt + 1) * sizeof(*i->by_free));
	if (!i->by_alloc || !i->by_free)
		return -ENOMEM;
	for (size_t k = 0; k < i->cnt; k++)
		i->by_alloc[k] = i->by_free[k] = (uint32_t)k;
	if (i->cnt) {
		qsort_r(i->by_alloc, i->cnt, sizeof(*i->by_alloc), allocated_earlier, i->at);
		qsort_r(i->by_free, i->cnt, sizeof(*i->by_free), freed_earlier, i->at);
	}
	return 0;
}

double item__size(const struct item *t, double more)
{
	double size;

	if (t->doubt == ITEM_SHRINKS) /* only as far as recorded: the line would go below zero */
		more = t->span > 0 ? fmin(fmax(more, 0), t->span) : fmax(fmin(more, 0), t->span);
	size = (t->size + (t->slope + t->curve * more) * more) * t->factor;
	return size > 0 ? size : 0;
}

double items__peak(const struct items *i, double more, uint64_t *ret_when)
{
	double now = 0, peak = 0;
	uint64_t when = i->from;
	size_t dead = 0;

	for (size_t k = 0; k < i->cnt; k++) {
		const struct item *t = &i->at[i->by_alloc[k]];

		for (; dead < i->cnt && i->at[i->by_free[dead]].freed <= t->alloc; dead++)
			now -= item__size(&i->at[i->by_free[dead]], more);
		now += item__size(t, more);
		if (now > peak) {
			peak = now;
			when = t->alloc;
		}
	}
	if (ret_when)
		*ret_when = when;
	return peak;
}

int item__is_used(const struct items *i, const struct item *t)
{
	return t->k && ticks(t->k->used_ns) > i->from;
}
