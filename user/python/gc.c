/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/gc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LISTS 4
#define HEAD_BYTES 16 /* PyGC_Head, in front of the object */

/* Generations 2, 1, 0 and what gc.freeze() put aside; the same places of interp.gc from 3.10 to 3.13. */
static const uint16_t heads_at[LISTS] = { 72, 104, 48, 24 };

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

static int walk_list(struct py *p, const uint64_t *heads, unsigned which, gc_fn fn, void *ctx, struct gc_found *f)
{
	int r;

	struct circle circle = { .limit = 64 };
	uint64_t node = py_snap__word(p->snap, heads[which]) & ~3ull;

	while (node != heads[which]) {
		uint64_t words[4]; /* next, previous; references, type */
		const struct py_type *t;

		if (!py_plausible(node) || is_a_head(heads, node) || is_circle(&circle, node) ||
		    f->nodes >= GC_NODES_MAX || py_snap__read(p->snap, node, words, sizeof(words))) {
			f->is_whole = 0;
			return 0;
		}
		f->nodes++;
		t = (uint32_t)words[2] ? py__type(p, words[3]) : NULL;
		r = t ? fn(ctx, node + HEAD_BYTES, t) : 0;
		if (r)
			return r;
		node = words[0] & ~3ull; /* two bits of it are flags */
	}
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

int gc__each(struct py *p, gc_fn fn, void *ctx, struct gc_found *ret)
{
	uint64_t heads[LISTS];
	int r = 0;

	*ret = (struct gc_found){ .is_whole = 1 };
	for (unsigned i = 0; i < LISTS; i++) {
		heads[i] = p->interp + p->at->interp_gc + heads_at[i];
		if (!py_snap__ptr(p->snap, heads[i]))
			return -EAGAIN;
	}
	for (unsigned i = 0; i < LISTS && !r; i++)
		r = walk_list(p, heads, i, fn, ctx, ret);
	return r;
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

	return r || !ret->cnt ? r : drop_doubles(ret);
}
