/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "base/map.h"
#include "base/seed.h"

#define PAIRS_MAX (1u << 18)
#define SHARE 8

enum { T_FRAMES, T_LISTS, T_NODES, T_PAIRS, TABLES };

struct intern_owner {
	uint32_t id;
	uint32_t cnt[TABLES]; /* that it added */
	uint8_t is_over, is_reported;
};

struct frame_list {
	uint32_t off, cnt;
	int is_cut;
};

struct list_node {
	uint32_t parent, frame;
};

struct pair {
	uint64_t both;
	uint32_t value;
};

struct intern {
	struct ev_frame *frames; /* [number - 1] in all three; entries are never removed */
	struct frame_list *lists;
	struct list_node *nodes;
	uint32_t frames_cnt, frames_cap, lists_cnt, lists_cap, nodes_cnt, nodes_cap;
	struct index by_frame, by_words, by_node;
	struct map pairs;
	uint32_t *words;
	uint32_t words_cnt, words_cap;
	struct intern_owner *owners;
	size_t owners_cnt, owners_cap;
	struct intern_owner *by; /* NULL: no owner */
};

struct intern *intern__new(void)
{
	struct intern *n = calloc(1, sizeof(*n));

	if (n)
		n->pairs = MAP_OF(struct pair);
	return n;
}

void intern__free(struct intern *n)
{
	if (!n)
		return;
	index__done(&n->by_frame);
	index__done(&n->by_words);
	index__done(&n->by_node);
	map__done(&n->pairs);
	free_all(n->frames, n->lists, n->nodes, n->words, n->owners, n);
}

static uint64_t hash_frame(const struct ev_frame *f)
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
	*n->by = (struct intern_owner){ .id = owner };
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
		if (!n->owners[i].is_over || n->owners[i].is_reported)
			continue;
		n->owners[i].is_reported = 1;
		return n->owners[i].id;
	}
	return 0;
}

/* Is one more than `cnt` within its share? */
static int has_share(struct intern *n, unsigned table, uint32_t cnt, uint32_t max)
{
	if (!n->by)
		return cnt < max;
	if (n->by->cnt[table] >= (max - cnt) / SHARE) {
		n->by->is_over = 1;
		return 0;
	}
	n->by->cnt[table]++;
	return 1;
}

/* --- frames ---------------------------------------------------------------------------------------------- */

static int is_same_frame(const struct ev_frame *a, const struct ev_frame *b)
{
	return a->function.v == b->function.v && a->file.v == b->file.v && a->line == b->line && a->kind == b->kind;
}

uint32_t intern__frame(struct intern *n, const struct ev_frame *f)
{
	uint64_t hash = hash_frame(f);
	uint32_t at = index_find(&n->by_frame, hash, i, is_same_frame(&n->frames[i], f));

	if (at != INDEX_NONE)
		return at + 1;
	if (!has_share(n, T_FRAMES, n->frames_cnt, FRAMES_MAX) ||
	    !array_has_room(n->frames, n->frames_cnt, n->frames_cap, 256) || index__add(&n->by_frame, hash, n->frames_cnt) < 0)
		return 0;
	n->frames[n->frames_cnt] = *f;
	return ++n->frames_cnt;
}

const struct ev_frame *intern__frame_at(const struct intern *n, uint32_t frame)
{
	return &n->frames[frame - 1];
}

/* --- lists ----------------------------------------------------------------------------------------------- */

static int is_same_list(const struct intern *n, const struct frame_list *l, const uint32_t *words, size_t cnt, int is_cut)
{
	return l->cnt == cnt && l->is_cut == is_cut && !memcmp(n->words + l->off, words, cnt * sizeof(*words));
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
	uint64_t hash = hash_words(words, cnt, !!is_cut);
	uint32_t at = index_find(&n->by_words, hash, i, is_same_list(n, &n->lists[i], words, cnt, !!is_cut));

	if (at != INDEX_NONE)
		return at + 1;
	if (!has_share(n, T_LISTS, n->lists_cnt, LISTS_MAX) || words_room(n, cnt) ||
	    !array_has_room(n->lists, n->lists_cnt, n->lists_cap, 256) || index__add(&n->by_words, hash, n->lists_cnt) < 0)
		return 0;
	memcpy(n->words + n->words_cnt, words, cnt * sizeof(*words));
	n->lists[n->lists_cnt] = (struct frame_list){ n->words_cnt, (uint32_t)cnt, !!is_cut };
	n->words_cnt += (uint32_t)cnt;
	return ++n->lists_cnt;
}

const uint32_t *intern__list_at(const struct intern *n, uint32_t list, size_t *ret_cnt, int *ret_is_cut)
{
	const struct frame_list *l = &n->lists[list - 1];

	*ret_cnt = l->cnt;
	*ret_is_cut = l->is_cut;
	return n->words + l->off;
}

/* --- the tree, and pairs ----------------------------------------------------------------------------------- */

uint32_t intern__node(struct intern *n, uint32_t parent, uint32_t frame, int *ret_is_new)
{
	uint64_t hash = hash_pair(parent, frame);
	uint32_t at = index_find(&n->by_node, hash, i, n->nodes[i].parent == parent && n->nodes[i].frame == frame);

	*ret_is_new = 0;
	if (at != INDEX_NONE)
		return at + 1;
	if (!has_share(n, T_NODES, n->nodes_cnt, EV_STACKS_MAX) || !array_has_room(n->nodes, n->nodes_cnt, n->nodes_cap, 256) ||
	    index__add(&n->by_node, hash, n->nodes_cnt) < 0)
		return 0;
	*ret_is_new = 1;
	n->nodes[n->nodes_cnt] = (struct list_node){ parent, frame };
	return ++n->nodes_cnt;
}

uint32_t intern__pair(const struct intern *n, uint32_t a, uint32_t b)
{
	const struct pair *p = map__find(&n->pairs, (uint64_t)a << 32 | b);

	return p ? p->value : 0;
}

void intern__keep_pair(struct intern *n, uint32_t a, uint32_t b, uint32_t value)
{
	struct pair *p;

	if (intern__pair(n, a, b) || !has_share(n, T_PAIRS, n->pairs.cnt, PAIRS_MAX))
		return;
	p = map__put(&n->pairs, (uint64_t)a << 32 | b);
	if (p)
		p->value = value;
}
