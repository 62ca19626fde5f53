/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"

#define PAIRS_MAX (1u << 18)
#define SHARE 8

enum { T_FRAMES, T_LISTS, T_NODES, T_PAIRS, TABLES };

struct owner {
	uint32_t id;
	uint32_t cnt[TABLES]; /* that it added */
	uint8_t is_over, is_told;
};

/* Numbers by hash, open addressing, at most half full; nothing is removed. */
struct slots {
	uint32_t *at;
	uint32_t mask, cnt;
};

struct list {
	uint32_t off, cnt;
	int is_cut;
};

struct node {
	uint32_t parent, frame;
};

struct pair {
	uint32_t a, b, value;
};

struct intern {
	struct slots frame_slots, list_slots, node_slots, pair_slots;
	struct frame *frames; /* [number - 1] in all four */
	struct list *lists;
	struct node *nodes;
	struct pair *pairs;
	uint32_t frames_cap, lists_cap, nodes_cap, pairs_cap;
	uint32_t *words;
	uint32_t words_cnt, words_cap;
	struct owner *owners;
	size_t owners_cnt, owners_cap;
	struct owner *by; /* NULL: nobody's */
};

struct intern *intern__new(void)
{
	return calloc(1, sizeof(struct intern));
}

void intern__free(struct intern *n)
{
	if (!n)
		return;
	free(n->frame_slots.at);
	free(n->list_slots.at);
	free(n->node_slots.at);
	free(n->pair_slots.at);
	free(n->frames);
	free(n->lists);
	free(n->nodes);
	free(n->pairs);
	free(n->words);
	free(n->owners);
	free(n);
}

typedef uint64_t (*hash_fn)(const struct intern *n, uint32_t number);

static uint64_t hash_frame(const struct frame *f)
{
	return hash_two(hash_two((uint64_t)f->function.v << 32 | f->file.v, f->line), f->kind);
}

static uint64_t hash_words(const uint32_t *words, size_t cnt, int is_cut)
{
	return hash_bytes(words, cnt * sizeof(*words)) ^ (uint64_t)is_cut;
}

static uint64_t hash_pair(uint32_t a, uint32_t b)
{
	return hash_u64((uint64_t)a << 32 | b);
}

static uint64_t frame_hash(const struct intern *n, uint32_t i)
{
	return hash_frame(&n->frames[i - 1]);
}

static uint64_t list_hash(const struct intern *n, uint32_t i)
{
	const struct list *l = &n->lists[i - 1];

	return hash_words(n->words + l->off, l->cnt, l->is_cut);
}

static uint64_t node_hash(const struct intern *n, uint32_t i)
{
	return hash_pair(n->nodes[i - 1].parent, n->nodes[i - 1].frame);
}

static uint64_t pair_hash(const struct intern *n, uint32_t i)
{
	return hash_pair(n->pairs[i - 1].a, n->pairs[i - 1].b);
}

/* --- owners ---------------------------------------------------------------------------------------------- */

void intern__by(struct intern *n, uint32_t owner)
{
	if (n->by && n->by->id == owner)
		return;
	n->by = NULL;
	for (size_t i = 0; owner && i < n->owners_cnt && !n->by; i++)
		n->by = n->owners[i].id == owner ? &n->owners[i] : NULL;
	if (!owner || n->by || !array_has_room(n->owners, n->owners_cnt, n->owners_cap, 16))
		return;
	n->by = &n->owners[n->owners_cnt++];
	*n->by = (struct owner){ .id = owner };
}

void intern__drop_owner(struct intern *n, uint32_t owner)
{
	for (size_t i = 0; i < n->owners_cnt; i++) {
		if (n->owners[i].id != owner)
			continue;
		n->owners[i] = n->owners[--n->owners_cnt];
		n->by = NULL;
		return;
	}
}

uint32_t intern__next_over(struct intern *n)
{
	for (size_t i = 0; i < n->owners_cnt; i++) {
		if (!n->owners[i].is_over || n->owners[i].is_told)
			continue;
		n->owners[i].is_told = 1;
		return n->owners[i].id;
	}
	return 0;
}

/* One more: is it within its share? */
static int has_share(struct intern *n, unsigned table, const struct slots *s, uint32_t max)
{
	if (!n->by)
		return 1;
	if (n->by->cnt[table] >= (max - s->cnt) / SHARE) {
		n->by->is_over = 1;
		return 0;
	}
	n->by->cnt[table]++;
	return 1;
}

/* Room in both the table of things and its slots. 0, or -1: no more. */
static int grow(const struct intern *n, struct slots *s, hash_fn hash, void *things, size_t size, uint32_t *cap,
		uint32_t max)
{
	void **all = things;
	uint32_t room = *cap ? 2 * *cap : 256, *at;
	void *more;

	if (s->cnt < *cap)
		return 0;
	if (s->cnt >= max)
		return -1;
	more = reallocarray(*all, room, size);
	if (!more)
		return -1;
	*all = more;
	at = calloc(2 * (size_t)room, sizeof(*at));
	if (!at)
		return -1;
	free(s->at);
	s->at = at;
	s->mask = 2 * room - 1;
	*cap = room;
	for (uint32_t i = 1; i <= s->cnt; i++) {
		uint64_t slot = hash(n, i) & s->mask;

		while (at[slot])
			slot = (slot + 1) & s->mask;
		at[slot] = i;
	}
	return 0;
}

/* --- frames ---------------------------------------------------------------------------------------------- */

static uint32_t *frame_slot(const struct intern *n, const struct frame *f)
{
	uint64_t i = hash_frame(f) & n->frame_slots.mask;

	while (n->frame_slots.at[i]) {
		const struct frame *o = &n->frames[n->frame_slots.at[i] - 1];

		if (o->function.v == f->function.v && o->file.v == f->file.v && o->line == f->line && o->kind == f->kind)
			break;
		i = (i + 1) & n->frame_slots.mask;
	}
	return &n->frame_slots.at[i];
}

uint32_t intern__frame(struct intern *n, const struct frame *f)
{
	uint32_t *slot = n->frame_slots.at ? frame_slot(n, f) : NULL;

	if (slot && *slot)
		return *slot;
	if (!has_share(n, T_FRAMES, &n->frame_slots, FRAMES_MAX) ||
	    grow(n, &n->frame_slots, frame_hash, &n->frames, sizeof(*n->frames), &n->frames_cap, FRAMES_MAX))
		return 0;
	n->frames[n->frame_slots.cnt++] = *f;
	return *frame_slot(n, f) = n->frame_slots.cnt;
}

const struct frame *intern__frame_at(const struct intern *n, uint32_t frame)
{
	return &n->frames[frame - 1];
}

/* --- lists ----------------------------------------------------------------------------------------------- */

static uint32_t *list_slot(const struct intern *n, const uint32_t *words, size_t cnt, int is_cut)
{
	uint64_t i = hash_words(words, cnt, is_cut) & n->list_slots.mask;

	while (n->list_slots.at[i]) {
		const struct list *l = &n->lists[n->list_slots.at[i] - 1];

		if (l->cnt == cnt && l->is_cut == is_cut && !memcmp(n->words + l->off, words, cnt * sizeof(*words)))
			break;
		i = (i + 1) & n->list_slots.mask;
	}
	return &n->list_slots.at[i];
}

static int words_room(struct intern *n, size_t cnt)
{
	uint32_t cap = n->words_cap ? n->words_cap : 4096, *words;

	if (cnt > LISTS_WORDS_MAX - n->words_cnt)
		return -1;
	while (cap < n->words_cnt + cnt)
		cap *= 2;
	if (cap == n->words_cap)
		return 0;
	words = reallocarray(n->words, cap, sizeof(*words));
	if (!words)
		return -1;
	n->words = words;
	n->words_cap = cap;
	return 0;
}

uint32_t intern__list(struct intern *n, const uint32_t *words, size_t cnt, int is_cut)
{
	uint32_t *slot;

	is_cut = !!is_cut;
	slot = n->list_slots.at ? list_slot(n, words, cnt, is_cut) : NULL;
	if (slot && *slot)
		return *slot;
	if (!has_share(n, T_LISTS, &n->list_slots, LISTS_MAX) ||
	    grow(n, &n->list_slots, list_hash, &n->lists, sizeof(*n->lists), &n->lists_cap, LISTS_MAX) ||
	    words_room(n, cnt))
		return 0;
	slot = list_slot(n, words, cnt, is_cut);
	memcpy(n->words + n->words_cnt, words, cnt * sizeof(*words));
	n->lists[n->list_slots.cnt++] = (struct list){ n->words_cnt, (uint32_t)cnt, is_cut };
	n->words_cnt += (uint32_t)cnt;
	return *slot = n->list_slots.cnt;
}

const uint32_t *intern__list_at(const struct intern *n, uint32_t list, size_t *ret_cnt, int *ret_is_cut)
{
	const struct list *l = &n->lists[list - 1];

	*ret_cnt = l->cnt;
	*ret_is_cut = l->is_cut;
	return n->words + l->off;
}

/* --- the tree, and pairs ----------------------------------------------------------------------------------- */

static uint32_t *node_slot(const struct intern *n, uint32_t parent, uint32_t frame)
{
	uint64_t i = hash_pair(parent, frame) & n->node_slots.mask;

	while (n->node_slots.at[i]) {
		const struct node *o = &n->nodes[n->node_slots.at[i] - 1];

		if (o->parent == parent && o->frame == frame)
			break;
		i = (i + 1) & n->node_slots.mask;
	}
	return &n->node_slots.at[i];
}

uint32_t intern__node(struct intern *n, uint32_t parent, uint32_t frame, int *ret_is_new)
{
	uint32_t *slot = n->node_slots.at ? node_slot(n, parent, frame) : NULL;

	*ret_is_new = 0;
	if (slot && *slot)
		return *slot;
	if (!has_share(n, T_NODES, &n->node_slots, EV_STACKS_MAX) ||
	    grow(n, &n->node_slots, node_hash, &n->nodes, sizeof(*n->nodes), &n->nodes_cap, EV_STACKS_MAX))
		return 0;
	*ret_is_new = 1;
	n->nodes[n->node_slots.cnt++] = (struct node){ parent, frame };
	return *node_slot(n, parent, frame) = n->node_slots.cnt;
}

static uint32_t *pair_slot(const struct intern *n, uint32_t a, uint32_t b)
{
	uint64_t i = hash_pair(a, b) & n->pair_slots.mask;

	while (n->pair_slots.at[i]) {
		const struct pair *o = &n->pairs[n->pair_slots.at[i] - 1];

		if (o->a == a && o->b == b)
			break;
		i = (i + 1) & n->pair_slots.mask;
	}
	return &n->pair_slots.at[i];
}

uint32_t intern__pair(const struct intern *n, uint32_t a, uint32_t b)
{
	uint32_t i = n->pair_slots.at ? *pair_slot(n, a, b) : 0;

	return i ? n->pairs[i - 1].value : 0;
}

void intern__keep_pair(struct intern *n, uint32_t a, uint32_t b, uint32_t value)
{
	if (intern__pair(n, a, b) || !has_share(n, T_PAIRS, &n->pair_slots, PAIRS_MAX) ||
	    grow(n, &n->pair_slots, pair_hash, &n->pairs, sizeof(*n->pairs), &n->pairs_cap, PAIRS_MAX))
		return;
	n->pairs[n->pair_slots.cnt++] = (struct pair){ a, b, value };
	*pair_slot(n, a, b) = n->pair_slots.cnt;
}
