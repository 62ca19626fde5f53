/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Open addressing, at most three quarters full, with linear probing: eight slots are in a cache line. A slot has half of the
 * hash, so neither growing nor closing a gap looks at the numbered things, and a search looks at a wrong one once in many
 * thousand times. Removal shifts the following slots back: no tombstones, so an index that churns for weeks is as fast as on
 * its first day.
 *
 * Measured beside the table of live blocks by tests/bench/bench_index.
 */
#include "base/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 16u
#define SLOTS_MAX (1u << 31)

static void put(struct index_slot *slots, uint32_t mask, struct index_slot slot)
{
	uint32_t at = slot.hash & mask;

	while (slots[at].number)
		at = (at + 1) & mask;
	slots[at] = slot;
}

static int index__is_full(const struct index *x)
{
	return 4 * ((uint64_t)x->cnt + 1) > 3 * (uint64_t)index__slots(x);
}

static uint32_t index__slots_next(const struct index *x)
{
	return x->slots ? 2 * index__slots(x) : SLOTS_MIN;
}

size_t index__growth(const struct index *x)
{
	return index__is_full(x) ? (index__slots_next(x) - index__slots(x)) * sizeof(*x->slots) : 0;
}

static int index__grow(struct index *x)
{
	uint32_t cnt = index__slots(x), more = index__slots_next(x);
	struct index_slot *slots = cnt < SLOTS_MAX ? calloc(more, sizeof(*slots)) : NULL;

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < cnt; i++)
		if (x->slots[i].number)
			put(slots, more - 1, x->slots[i]);
	free(x->slots);
	x->slots = slots;
	x->mask = more - 1;
	return 0;
}

int index__add(struct index *x, uint64_t hash, uint32_t number)
{
	if (index__is_full(x) && index__grow(x) < 0)
		return -ENOMEM;
	put(x->slots, x->mask, (struct index_slot){ (uint32_t)hash, number + 1 });
	x->cnt++;
	return 0;
}

/* Its slot, or a free one if it is not there, which is the caller's error. */
static uint32_t index__at(const struct index *x, uint64_t hash, uint32_t number)
{
	uint32_t at = (uint32_t)hash & x->mask;

	while (x->slots[at].number && x->slots[at].number != number + 1)
		at = (at + 1) & x->mask;
	return at;
}

void index__remove(struct index *x, uint64_t hash, uint32_t number)
{
	uint32_t hole = index__at(x, hash, number), mask = x->mask;

	if (!x->slots[hole].number)
		return;
	for (uint32_t at = (hole + 1) & mask; x->slots[at].number; at = (at + 1) & mask) {
		if (((at - x->slots[at].hash) & mask) < ((at - hole) & mask))
			continue; /* its home is after the hole: it is found where it is */
		x->slots[hole] = x->slots[at];
		hole = at;
	}
	x->slots[hole].number = 0;
	x->cnt--;
}

void index__renumber(struct index *x, uint64_t hash, uint32_t number, uint32_t now)
{
	uint32_t at = index__at(x, hash, number);

	if (x->slots[at].number)
		x->slots[at].number = now + 1;
}

void index__clear(struct index *x)
{
	if (x->slots)
		memset(x->slots, 0, index__bytes(x));
	x->cnt = 0;
}

void index__done(struct index *x)
{
	free(x->slots);
	*x = (struct index){ 0 };
}
