/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/gc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LISTS 4
#define YOUNG 2
#define YOUNG_TRIES 4
#define YOUNG_NODES_MAX 65536u /* more, where the program has switched the collector off, are walked once */
#define HEAD_BYTES 16 /* PyGC_Head, in front of the object */

/*
 * Generations 0, 1, 2 and what gc.freeze() put aside; the same places of interp.gc from 3.10 to 3.13. Objects only grow older,
 * so young ones are looked at first: what moves meanwhile is met twice and not missed. Their lists are short and change all
 * the time: where they are cut, they are read anew.
 */
static const uint16_t heads_at[LISTS] = { 24, 48, 72, 104 };
/* The oldest first. */
static const uint8_t age_of[LISTS] = { 3, 2, 0, 1 };

static int found__add(struct gc_found *f, uint64_t obj)
{
	if (f->cnt == GC_FOUND_MAX) {
		f->is_full = 1;
		return 0;
	}
	if (f->cnt == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 1024;
		uint64_t *objs = reallocarray(f->objs, cap, sizeof(*objs));

		if (!objs)
			return -ENOMEM;
		f->objs = objs;
		f->cap = cap;
	}
	f->objs[f->cnt++] = obj | f->age;
	return 0;
}

static int is_a_head(const uint64_t *heads, uint64_t node)
{
	for (unsigned i = 0; i < LISTS; i++)
		if (heads[i] == node)
			return 1;
	return 0;
}

/* Brent: the node that is remembered moves up whenever as many nodes again have passed. */
struct circle {
	uint64_t mark, passed, limit;
};

static int is_circle(struct circle *c, uint64_t node)
{
	if (node == c->mark)
		return 1;
	if (++c->passed == c->limit) {
		c->mark = node;
		c->passed = 0;
		c->limit *= 2;
	}
	return 0;
}

typedef int (*gc_fn)(void *ctx, uint64_t obj, const struct py_type *type);

/* 1: it is cut. */
static int walk_list(struct py *p, const uint64_t *heads, unsigned which, gc_fn fn, void *ctx, struct gc_found *f)
{
	struct circle circle = { .limit = 64 };
	uint64_t node = py_snap__word(p->snap, heads[which]) & ~3ull;
	int r;

	f->age = age_of[which];
	while (node != heads[which]) {
		uint64_t words[4]; /* next, previous; references, type */
		const struct py_type *t;

		if (!py_plausible(node) || is_a_head(heads, node) || is_circle(&circle, node) ||
		    f->nodes >= GC_NODES_MAX || py_snap__read(p->snap, node, words, sizeof(words)))
			return 1;
		f->nodes++;
		t = (uint32_t)words[2] ? py__type(p, words[3]) : NULL;
		r = t ? fn(ctx, node + HEAD_BYTES, t) : 0;
		if (r)
			return r;
		node = words[0] & ~3ull; /* two bits of it are flags */
	}
	return 0;
}

/* What is in the lower bits of an object's address until all are found. */
#define AGE_BITS 3ull

/* The order is that of ages, and in one of discovery. 16 bytes an object for a moment. */
static int put_in_order(struct gc_found *f)
{
	uint64_t *in_order = malloc(f->cnt * 8 + 8);
	size_t cnt = 0;

	if (!in_order)
		return -ENOMEM;
	for (unsigned age = 0; age < LISTS; age++)
		for (size_t i = 0; i < f->cnt; i++)
			if ((f->objs[i] & AGE_BITS) == age)
				in_order[cnt++] = f->objs[i] & ~AGE_BITS;
	memcpy(f->objs, in_order, cnt * 8); /* one at least */
	free(in_order);
	return 0;
}

/* An object that was moved to another list meanwhile is found twice; the order of discovery is kept. */
static int drop_doubles(struct gc_found *f)
{
	uint64_t *sorted = malloc(f->cnt * 8 + 8);
	uint8_t *seen = calloc(f->cnt + 1, 1);
	size_t cnt = 0;

	if (!sorted || !seen) {
		free(sorted);
		free(seen);
		return -ENOMEM;
	}
	memcpy(sorted, f->objs, f->cnt * 8); /* one at least */
	qsort(sorted, f->cnt, 8, u64_cmp);
	for (size_t i = 0; i < f->cnt; i++) {
		size_t low = 0, high = f->cnt;

		while (low < high) { /* the first of equal ones */
			size_t mid = low + (high - low) / 2;

			if (sorted[mid] < f->objs[i])
				low = mid + 1;
			else
				high = mid;
		}
		if (!seen[low])
			f->objs[cnt++] = f->objs[i];
		seen[low] = 1;
	}
	f->cnt = cnt;
	free(sorted);
	free(seen);
	return 0;
}

static int walk_young(struct py *p, const uint64_t *heads, gc_fn fn, void *ctx, struct gc_found *f)
{
	for (unsigned try = 1;; try++) {
		uint64_t before = f->nodes;
		int r = walk_list(p, heads, 0, fn, ctx, f), is_cut = r == 1;

		r = r < 0 ? r : walk_list(p, heads, 1, fn, ctx, f);
		is_cut |= r == 1;
		if (r < 0 || !is_cut)
			return r;
		if (try == YOUNG_TRIES || f->nodes - before > YOUNG_NODES_MAX)
			return 1;
		py_snap__fresh(p->snap);
	}
}

int gc__each(struct py *p, gc_fn fn, void *ctx, struct gc_found *ret)
{
	uint64_t heads[LISTS];
	int r;

	*ret = (struct gc_found){ 0 };
	for (unsigned i = 0; i < LISTS; i++) {
		heads[i] = p->interp + p->at->interp_gc + heads_at[i];
		if (!py_snap__ptr(p->snap, heads[i]))
			return -EAGAIN;
	}
	r = walk_young(p, heads, fn, ctx, ret);
	ret->is_whole = !r;
	for (unsigned i = YOUNG; i < LISTS && r >= 0; i++) {
		r = walk_list(p, heads, i, fn, ctx, ret);
		ret->is_whole &= !r;
	}
	ret->is_whole &= !ret->is_full;
	return r < 0 ? r : 0;
}

struct wanted {
	struct gc_found *found;
	uint32_t bases;
};

static int add_wanted(void *ctx, uint64_t obj, const struct py_type *type)
{
	const struct wanted *w = ctx;

	return type->bases & w->bases ? found__add(w->found, obj) : 0;
}

int gc__find(struct py *p, uint32_t bases, struct gc_found *ret)
{
	struct wanted w = { ret, bases };
	int r = gc__each(p, add_wanted, &w, ret);

	if (r || !ret->cnt)
		return r;
	r = put_in_order(ret);
	return r ? r : drop_doubles(ret);
}
