/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Open addressing; a removal moves those behind it up, so that there are no tombstones. */
#include "model/core/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/quota.h"
#include "base/seed.h"
#include "model/core/check.h"

#define CAP_MIN 1024u
#define WAITS_PART 2

static size_t home_of(const struct tensors *t, uint64_t a, uint64_t b)
{
	return (size_t)hash_two(a, b) & (t->cap - 1);
}

/* The entry with this key, or the free one where it would be. */
static struct tensor *slot_of(const struct tensors *t, uint64_t a, uint64_t b)
{
	size_t i = home_of(t, a, b);

	while (t->slots[i].kind && (t->slots[i].a != a || t->slots[i].b != b))
		i = (i + 1) & (t->cap - 1);
	return &t->slots[i];
}

void tensors__done(struct tensors *t)
{
	free(t->slots);
	*t = (struct tensors){ 0 };
}

struct tensor *tensors__find(const struct tensors *t, uint64_t a, uint64_t b)
{
	struct tensor *found = t->cnt ? slot_of(t, a, b) : NULL;

	return found && found->kind ? found : NULL;
}

static bool grow(struct tensors *t)
{
	struct tensors big = { .cap = t->cap ? t->cap * 2 : CAP_MIN, .cnt = t->cnt };

	big.slots = calloc(big.cap, sizeof(*big.slots));
	if (!big.slots)
		return false;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slots[i].kind)
			*slot_of(&big, t->slots[i].a, t->slots[i].b) = t->slots[i];
	free(t->slots);
	t->slots = big.slots;
	t->cap = big.cap;
	return true;
}

static uint32_t *waits_of(struct tensors *t, uint64_t pid)
{
	return &t->waits[hash_u64(pid) & (TENSORS_WAITERS - 1)];
}

/* One that is not there. */
static struct tensor *add(struct tensors *t, uint64_t a, uint64_t b)
{
	struct tensor *slot;

	if (t->cnt >= TENSORS_MAX || (t->cnt >= t->cap / 2 && !grow(t)))
		return NULL;
	slot = slot_of(t, a, b);
	*slot = (struct tensor){ .a = a, .b = b, .kind = UINT8_MAX };
	t->cnt++;
	if (a)
		++*waits_of(t, a);
	return slot;
}

struct tensor *tensors__put(struct tensors *t, uint64_t a, uint64_t b)
{
	struct tensor *found = tensors__find(t, a, b);

	if (found)
		return found;
	return a && !quota_allows(*waits_of(t, a), t->cnt, TENSORS_MAX, WAITS_PART) ? NULL : add(t, a, b);
}

void tensors__remove(struct tensors *t, uint64_t a, uint64_t b)
{
	struct tensor *found = tensors__find(t, a, b);
	size_t hole, i;

	if (!found)
		return;
	t->cnt--;
	if (a)
		--*waits_of(t, a);
	hole = (size_t)(found - t->slots);
	for (i = (hole + 1) & (t->cap - 1); t->slots[i].kind; i = (i + 1) & (t->cap - 1)) {
		size_t home = home_of(t, t->slots[i].a, t->slots[i].b);

		/* may it move up to the hole, which is not before its home? */
		if (((i - home) & (t->cap - 1)) < ((i - hole) & (t->cap - 1)))
			continue;
		t->slots[hole] = t->slots[i];
		hole = i;
	}
	t->slots[hole] = (struct tensor){ 0 };
}

void tensors__drop_pid(struct tensors *t, uint32_t pid)
{
	struct tensors old = *t;

	if (!t->cnt)
		return;
	*t = (struct tensors){ 0 };
	for (size_t i = 0; i < old.cap; i++) {
		struct tensor *to;

		if (!old.slots[i].kind || (!old.slots[i].block && old.slots[i].a == pid))
			continue;
		to = add(t, old.slots[i].a, old.slots[i].b);
		if (to) /* else a name less */
			*to = old.slots[i];
	}
	free(old.slots);
}

const struct tensor *tensors__next(const struct tensors *t, size_t *pos)
{
	while (*pos < t->cap) {
		const struct tensor *found = &t->slots[(*pos)++];

		if (found->kind)
			return found;
	}
	return NULL;
}

void tensors__check(const struct tensors *t)
{
	size_t cnt = 0;

	for (size_t i = 0; i < t->cap; i++) {
		if (!t->slots[i].kind)
			continue;
		cnt++;
		mt_check(slot_of(t, t->slots[i].a, t->slots[i].b) == &t->slots[i]);
	}
	mt_check(cnt == t->cnt);
}
