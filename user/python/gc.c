/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/gc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LISTS 4
#define YOUNG 2
#define YOUNG_TRIES 4
#define YOUNG_NODES_MAX 65536u /* longer ones (the program has switched the collector off) are walked once */
#define HEAD_BYTES 16 /* PyGC_Head, in front of the object */

/* Generations 0, 1, 2 and what gc.freeze() put aside; the same places of interp.gc from 3.10 to 3.13. */
static const uint16_t heads_at[LISTS] = { 24, 48, 72, 104 };

static int found__add(struct gc_found *f, uint64_t obj)
{
	if (f->cnt == GC_FOUND_MAX) {
		f->is_whole = 0;
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
	f->objs[f->cnt++] = obj;
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

struct lists {
	struct py *p;
	uint64_t heads[LISTS];
	gc_fn fn;
	void *ctx;
	uint64_t nodes, nodes_max;
	int is_cut; /* one was, since this was false */
};

static int lists__init(struct lists *l, struct py *p, gc_fn fn, void *ctx)
{
	*l = (struct lists){ .p = p, .fn = fn, .ctx = ctx, .nodes_max = GC_NODES_MAX };
	for (unsigned i = 0; i < LISTS; i++) {
		l->heads[i] = p->interp + p->at->interp_gc + heads_at[i];
		if (!py_snap__ptr(p->snap, l->heads[i]))
			return -EAGAIN;
	}
	return 0;
}

static int lists__walk(struct lists *l, unsigned which)
{
	struct circle circle = { .limit = 64 };
	uint64_t node = py_snap__word(l->p->snap, l->heads[which]) & ~3ull;
	int r;

	while (node != l->heads[which]) {
		uint64_t words[4]; /* next, previous; references, type */
		const struct py_type *t;

		if (!py_plausible(node) || is_a_head(l->heads, node) || is_circle(&circle, node) ||
		    l->nodes >= l->nodes_max || py_snap__read(l->p->snap, node, words, sizeof(words))) {
			l->is_cut = 1;
			return 0;
		}
		l->nodes++;
		t = (uint32_t)words[2] ? py__type(l->p, words[3]) : NULL;
		r = t ? l->fn(l->ctx, node + HEAD_BYTES, t) : 0;
		if (r)
			return r;
		node = words[0] & ~3ull; /* two bits of it are flags */
	}
	return 0;
}

int gc__each(struct py *p, gc_fn fn, void *ctx, struct gc_found *ret)
{
	struct lists l;
	int r = lists__init(&l, p, fn, ctx);

	for (unsigned i = LISTS; i-- && !r;)
		r = lists__walk(&l, i);
	*ret = (struct gc_found){ .nodes = l.nodes, .is_whole = !r && !l.is_cut };
	return r;
}

/* gc__find has each object's age, 0 the oldest, in the lower bits of its address until all are found. */
#define AGE_BITS 3ull

/* By age, and in one age as they were found. */
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

struct wanted_types {
	struct gc_found *found;
	uint32_t bases;
	unsigned age;
};

static int add_wanted(void *ctx, uint64_t obj, const struct py_type *type)
{
	const struct wanted_types *w = ctx;

	return type->bases & w->bases ? found__add(w->found, obj | w->age) : 0;
}

static int find_in(struct lists *l, struct wanted_types *w, unsigned which)
{
	w->age = LISTS - 1 - which;
	return lists__walk(l, which);
}

/* These lists are short and change all the time: where one is cut, both are read anew. Half of all nodes at most are theirs. */
static int find_young(struct lists *l, struct wanted_types *w)
{
	int r = 0;

	l->nodes_max = GC_NODES_MAX / 2;
	for (unsigned try = 1; !r; try++) {
		uint64_t before = l->nodes;

		l->is_cut = 0;
		for (unsigned i = 0; i < YOUNG && !r; i++)
			r = find_in(l, w, i);
		if (!l->is_cut || try == YOUNG_TRIES || l->nodes - before > YOUNG_NODES_MAX)
			break;
		py_snap__fresh(l->p->snap);
	}
	l->nodes_max = GC_NODES_MAX;
	return r;
}

/* Objects grow older, so young ones are read first: one that a collection moves meanwhile is found twice, not missed. */
int gc__find(struct py *p, uint32_t bases, struct gc_found *ret)
{
	struct wanted_types w = { .found = ret, .bases = bases };
	struct lists l;
	int r;

	*ret = (struct gc_found){ .is_whole = 1 };
	r = lists__init(&l, p, add_wanted, &w);
	r = r ? r : find_young(&l, &w);
	for (unsigned i = YOUNG; i < LISTS && !r; i++)
		r = find_in(&l, &w, i);
	ret->nodes = l.nodes;
	ret->is_whole &= !l.is_cut;
	if (r || !ret->cnt)
		return r;
	r = put_in_order(ret);
	return r ? r : drop_doubles(ret);
}
