/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/tensors.h"

#include "base/array.h"
#include "base/quota.h"
#include "base/seed.h"
#include "model/core/check.h"

#define WAITS_PART 2

static uint32_t at_of(const struct tensors *t, uint64_t a, uint64_t b)
{
	return index_find(&t->by_key, hash_two(a, b), i, t->all[i].a == a && t->all[i].b == b);
}

void tensors__done(struct tensors *t)
{
	index__done(&t->by_key);
	free(t->all);
	*t = (struct tensors){ 0 };
}

struct tensor *tensors__find(const struct tensors *t, uint64_t a, uint64_t b)
{
	uint32_t at = t->cnt ? at_of(t, a, b) : INDEX_NONE;

	return at == INDEX_NONE ? NULL : &t->all[at];
}

static uint32_t *waits_of(struct tensors *t, uint64_t pid)
{
	return &t->waits[hash_u64(pid) & (TENSORS_WAITERS - 1)];
}

/* One that is not there. */
static struct tensor *add(struct tensors *t, uint64_t a, uint64_t b)
{
	if (t->cnt >= TENSORS_MAX || !array_has_room(t->all, t->cnt, t->cap, 512) ||
	    index__add(&t->by_key, hash_two(a, b), t->cnt) < 0)
		return NULL;
	t->all[t->cnt] = (struct tensor){ .a = a, .b = b, .kind = UINT8_MAX };
	if (a)
		++*waits_of(t, a);
	return &t->all[t->cnt++];
}

struct tensor *tensors__put(struct tensors *t, uint64_t a, uint64_t b)
{
	struct tensor *found = tensors__find(t, a, b);

	if (found)
		return found;
	return a && !quota_allows(*waits_of(t, a), t->cnt, TENSORS_MAX, WAITS_PART) ? NULL : add(t, a, b);
}

/* The last one comes to its place. */
static void remove_at(struct tensors *t, uint32_t at)
{
	const struct tensor gone = t->all[at], *last = &t->all[--t->cnt];

	index__remove(&t->by_key, hash_two(gone.a, gone.b), at);
	if (at != t->cnt)
		index__renumber(&t->by_key, hash_two(last->a, last->b), t->cnt, at);
	t->all[at] = *last;
	if (gone.a)
		--*waits_of(t, gone.a);
}

void tensors__remove(struct tensors *t, uint64_t a, uint64_t b)
{
	uint32_t at = at_of(t, a, b);

	if (at != INDEX_NONE)
		remove_at(t, at);
}

void tensors__of(struct tensors *t, uint32_t pid, uint64_t addr, name_id root)
{
	t->of.pid = pid;
	t->of.addr = addr;
	t->of.root = root;
}

name_id tensors__take_of(struct tensors *t, uint32_t pid, uint64_t addr)
{
	name_id root = t->of.pid == pid && t->of.addr == addr ? t->of.root : (name_id){ 0 };

	tensors__of(t, 0, 0, (name_id){ 0 });
	return root;
}

void tensors__drop_pid(struct tensors *t, uint32_t pid)
{
	for (uint32_t i = t->cnt; i-- > 0;)
		if (!t->all[i].block && t->all[i].a == pid)
			remove_at(t, i);
}

const struct tensor *tensors__next(const struct tensors *t, size_t *pos)
{
	return *pos < t->cnt ? &t->all[(*pos)++] : NULL;
}

void tensors__check(const struct tensors *t)
{
	for (uint32_t i = 0; i < t->cnt; i++)
		mt_check(t->all[i].kind && at_of(t, t->all[i].a, t->all[i].b) == i);
	mt_check(t->by_key.cnt == t->cnt);
}
