/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/saved.h"

#include <stdlib.h>

#include "base/quota.h"
#include "model/core/blocks.h"
#include "model/core/check.h"

static size_t saved__bytes(const struct saved *s)
{
	size_t sum = map__bytes(&s->most.blocks);

	for (unsigned i = 0; i < SAVED_PASSES; i++)
		sum += map__bytes(&s->last[i].blocks);
	return sum;
}

struct saved *saved__new(size_t *used)
{
	struct saved *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->most.blocks = MAP_OF(struct saved_block);
	for (unsigned i = 0; i < SAVED_PASSES; i++)
		s->last[i].blocks = MAP_OF(struct saved_block);
	s->before = UINT64_MAX;
	s->used = used;
	return s;
}

void saved__free(struct saved *s)
{
	if (!s)
		return;
	*s->used -= saved__bytes(s);
	map__done(&s->most.blocks);
	for (unsigned i = 0; i < SAVED_PASSES; i++)
		map__done(&s->last[i].blocks);
	free(s);
}

struct saved_pass *saved__oldest(struct saved *s)
{
	return &s->last[(s->passes + 1) % SAVED_PASSES];
}

/* Without others. */
static uint64_t saved_pass__bytes(const struct saved_pass *p)
{
	uint64_t bytes = p->rest_bytes;

	for (uint32_t i = 0; i < p->blocks.cnt; i++) {
		const struct saved_block *k = map__at(&p->blocks, i);

		bytes += k->is_other ? 0 : k->size;
	}
	return bytes;
}

/* Replaces `most` if it is as large. */
static void keep_largest(struct saved *s, struct saved_pass *old)
{
	struct saved_pass most = s->most;

	if (!old->number || (most.number > 1 && saved_pass__bytes(old) < saved_pass__bytes(&most)))
		return;
	s->most = *old;
	*old = most;
}

void saved__begin(struct saved *s, uint64_t ts_ns, uint64_t newest_id, uint64_t live)
{
	struct saved_pass *p = saved__oldest(s);
	struct map blocks;

	keep_largest(s, p);
	blocks = p->blocks;
	map__clear(&blocks);
	*p = (struct saved_pass){ .number = ++s->passes, .blocks = blocks, .ts_ns = ts_ns, .until = newest_id, .live = live,
				  .before = s->before };
	s->now = p;
}

struct saved_block *saved__find(const struct saved *s, uint64_t id)
{
	return map__find(&s->now->blocks, id);
}

static struct saved_block *saved__put(struct saved *s, struct saved_pass *p, uint64_t id)
{
	size_t has = map__bytes(&p->blocks), more = map__growth(&p->blocks);
	struct saved_block *k;

	if (more && !quota_allows_more(saved__bytes(s), more, *s->used, SAVED_BYTES_MAX, 2))
		return NULL;
	k = map__put(&p->blocks, id);
	*s->used += map__bytes(&p->blocks) - has; /* also where half of it came */
	return k;
}

struct saved_block *saved__add(struct saved *s, const struct block *b)
{
	struct saved_block *k = saved__put(s, s->now, b->id);

	if (!k)
		return NULL;
	k->ptr = b->ptr;
	k->size = b->size;
	k->op = b->op & UINT16_MAX;
	k->region = b->region & UINT16_MAX;
	k->module = b->module & UINT16_MAX;
	k->within = k->module;
	k->dev = b->dev & UINT8_MAX;
	return k;
}

/* A block older than the kept passes counts as the job's own: since when autograd keeps it is not known. */
static void add_to_earlier(struct saved *s, uint64_t oldest, const struct saved_block *k)
{
	for (uint64_t i = s->passes - 1; i >= oldest && s->last[i % SAVED_PASSES].until >= k->id; i--) {
		struct saved_pass *p = &s->last[i % SAVED_PASSES];
		struct saved_block *there = map__find(&p->blocks, k->id);

		if (there && !there->is_later)
			continue; /* a node of its own has it */
		there = there ? there : saved__put(s, p, k->id);
		if (!there)
			continue;
		*there = *k;
		there->is_later = true;
	}
}

void saved__end(struct saved *s, uint64_t newest_id)
{
	/* blocks from before the first one are not known */
	uint64_t oldest = s->passes > SAVED_PASSES ? s->passes - SAVED_PASSES + 1 : 2;

	for (uint32_t i = 0; s->passes > oldest && i < s->now->blocks.cnt; i++) {
		const struct saved_block *k = map__at(&s->now->blocks, i);

		if (!k->is_other && k->id > s->last[oldest % SAVED_PASSES].before)
			add_to_earlier(s, oldest, k);
	}
	s->now = NULL;
	s->before = newest_id;
}

static void saved_pass__check(const struct saved_pass *p)
{
	for (uint32_t i = 0; i < p->blocks.cnt; i++) {
		const struct saved_block *k = map__at(&p->blocks, i);

		mt_check(k->id && k->id <= p->until);
	}
	mt_check(!p->blocks.cnt || p->number);
}

void saved__check(const struct saved *s)
{
	saved_pass__check(&s->most);
	mt_check(s->most.number < s->passes);
	for (unsigned i = 0; i < SAVED_PASSES; i++) {
		saved_pass__check(&s->last[i]);
		mt_check(!s->last[i].number || (s->last[i].number % SAVED_PASSES == i && s->last[i].number <= s->passes));
	}
	mt_check(saved__bytes(s) <= *s->used);
}
