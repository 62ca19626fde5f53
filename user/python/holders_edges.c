/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One step of the way up is one walk over all objects, for references to this one. Of several, a variable is better than an
 * attribute, an attribute than a dict's key, and that than a place in a list. Types are recognised by their names: another
 * object of such a name is read as one, and at worst gives a wrong name, on which nothing depends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/deque.h"
#include "python/gc.h"
#include "python/holders_edges.h"
#include "python/holders_frames.h"
#include "python/object_head.h"

#define DEPTH_MAX 6
#define HEAP_TYPE (1u << 9)

struct type_kind {
	uint64_t type;
	uint32_t kind;
};

struct module_of {
	uint64_t dict, name;
};

/* --- kinds of objects ----------------------------------------------------------------------------------------------- */

static int add_module(void *ctx, uint64_t key, uint64_t value)
{
	struct hunt *h = ctx;
	uint64_t dict = py_snap__ptr(h->p->snap, value + MODULE_DICT);
	struct module_of *m = dict && py__is(h->p, dict, PY_IS_DICT) ? map__put(&h->modules, dict) : NULL;

	if (m && !m->name)
		m->name = key;
	return PY_ITEM_NEXT;
}

void hunt__init(struct hunt *h, struct py *p, const struct py_frame_offsets *at)
{
	uint64_t modules = py_snap__ptr(p->snap, p->interp + p->at->interp_modules);

	*h = (struct hunt){ .p = p, .at = at, .kinds = MAP_OF(struct type_kind), .modules = MAP_OF(struct module_of) };
	if (modules)
		(void)py__each_item(p, modules, add_module, h);
}

void hunt__done(struct hunt *h)
{
	map__done(&h->kinds);
	map__done(&h->modules);
}

static enum holds kind_of(struct hunt *h, const struct py_type *t)
{
	char name[PY_TEXT_MAX];

	if (t->flags & PY_IS_LIST)
		return HOLDS_LIST;
	if (t->flags & PY_IS_TUPLE)
		return HOLDS_TUPLE;
	if (t->flags & PY_IS_DICT)
		return HOLDS_DICT;
	if (t->flags & PY_IS_TYPE)
		return HOLDS_CLASS;
	if (t->flags & HEAP_TYPE)
		return HOLDS_OBJECT;
	if (py__type_name(h->p, t->addr, name))
		return HOLDS_NOTHING;
	return !strcmp(name, "function") ? HOLDS_FUNCTION : !strcmp(name, "deque") ? HOLDS_DEQUE : HOLDS_NOTHING;
}

enum holds hunt__kind(struct hunt *h, const struct py_type *type)
{
	struct py_type t = *type;
	struct type_kind *k = map__put(&h->kinds, t.addr);

	if (k && !k->kind)
		k->kind = kind_of(h, &t);
	return k ? k->kind : HOLDS_NOTHING;
}

/* --- references of an object ------------------------------------------------------------------------------------------ */

struct telling {
	edge_fn fn;
	void *ctx;
	int r;
};

static int tell_item(void *ctx, uint64_t key, uint64_t value)
{
	struct telling *t = ctx;

	t->r = t->fn(t->ctx, &(struct py_edge){ .to = value, .key = key });
	return t->r ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
}

static int each_of_sequence(struct hunt *h, uint64_t seq, edge_fn fn, void *ctx)
{
	uint64_t *items;
	size_t cnt;
	int r = py__items(h->p, seq, &items, &cnt);

	if (r)
		return r;
	for (size_t i = 0; i < cnt && !r; i++)
		r = fn(ctx, &(struct py_edge){ .to = items[i], .index = i });
	free(items);
	return r;
}

struct deque_edges {
	edge_fn fn;
	void *ctx;
};

static int tell_deque_item(void *ctx, uint64_t item, uint64_t index)
{
	const struct deque_edges *d = ctx;

	return d->fn(d->ctx, &(struct py_edge){ .to = item, .index = index });
}

struct closure {
	struct hunt *h;
	edge_fn fn;
	void *ctx;
};

static int tell_cell(void *ctx, const struct py_edge *e)
{
	struct closure *c = ctx;
	uint64_t in = py_plausible(e->to) ? py_snap__ptr(c->h->p->snap, e->to + 16) : 0;

	return in ? c->fn(c->ctx, &(struct py_edge){ .to = in, .index = e->index }) : 0;
}

int hunt__each_edge(struct hunt *h, uint64_t obj, enum holds kind, edge_fn fn, void *ctx)
{
	struct telling t = { .fn = fn, .ctx = ctx };
	struct closure c = { h, fn, ctx };
	struct deque_edges d = { fn, ctx };
	uint64_t cells;
	int r;

	switch (kind) {
	case HOLDS_TUPLE:
	case HOLDS_LIST:
		return each_of_sequence(h, obj, fn, ctx);
	case HOLDS_DEQUE:
		return py_deque__each(h->p, obj, 0, tell_deque_item, &d);
	case HOLDS_FUNCTION:
		cells = py_snap__ptr(h->p->snap, obj + PY_FUNCTION_CLOSURE);
		return cells ? each_of_sequence(h, cells, tell_cell, &c) : 0;
	case HOLDS_DICT:
		r = py__each_item(h->p, obj, tell_item, &t);
		return t.r ? t.r : r;
	case HOLDS_CLASS:
	case HOLDS_OBJECT:
		r = py__each_attr(h->p, obj, tell_item, &t);
		return t.r ? t.r : r;
	default:
		return 0;
	}
}

/* --- the way up ----------------------------------------------------------------------------------------------------- */

struct up {
	struct hunt *h;
	uint64_t chain[DEPTH_MAX + 1]; /* objects passed; the last one is looked for */
	unsigned depth;
	uint64_t obj; /* that is looked at */
	enum holds kind;
	int rank; /* of the best so far */
	uint64_t by;
	enum holds by_kind;
	struct py_edge edge;
};

/* A module's globals; a closure; an attribute; a class's; a dict's key; a place. */
static int rank_of(const struct up *u)
{
	switch (u->kind) {
	case HOLDS_DICT:
		return map__find(&u->h->modules, u->obj) ? 6 : 2;
	case HOLDS_FUNCTION:
		return 5;
	case HOLDS_OBJECT:
		return 4;
	case HOLDS_CLASS:
		return 3;
	default:
		return 1;
	}
}

static int see_edge(void *ctx, const struct py_edge *e)
{
	struct up *u = ctx;
	int rank;

	if (e->to != u->chain[u->depth])
		return 0;
	rank = rank_of(u);
	if (rank <= u->rank)
		return 0;
	u->rank = rank;
	u->by = u->obj;
	u->by_kind = u->kind;
	u->edge = *e;
	return 0;
}

static int see_object(void *ctx, uint64_t obj, const struct py_type *type)
{
	struct up *u = ctx;

	u->obj = obj;
	u->kind = hunt__kind(u->h, type);
	if (u->kind == HOLDS_NOTHING)
		return 0;
	for (unsigned i = 0; i <= u->depth; i++)
		if (u->chain[i] == obj)
			return 0;
	return hunt__each_edge(u->h, obj, u->kind, see_edge, u) == -ENOMEM ? -ENOMEM : 0;
}

/* In front of the text; a part without room is left out. */
static void prepend(char path[PY_HELD_PATH_MAX], const char *text)
{
	size_t len = strlen(path), more = strlen(text);

	if (len + more >= PY_HELD_PATH_MAX)
		return;
	memmove(path + more, path, len + 1);
	memcpy(path, text, more);
}

static void prepend_key(struct up *u, char path[PY_HELD_PATH_MAX])
{
	char key[PY_TEXT_MAX], text[PY_TEXT_MAX + 8];

	if (!u->edge.key || py__text(u->h->p, u->edge.key, key)) {
		prepend(path, "[...]");
		return;
	}
	snprintf(text, sizeof(text), u->by_kind == HOLDS_DICT ? "[\"%s\"]" : ".%s", key);
	prepend(path, text);
}

static int class_name(struct hunt *h, uint64_t obj, char name[PY_TEXT_MAX])
{
	const struct py_type *t = py__type_of(h->p, obj);

	return t ? py__type_name(h->p, t->addr, name) : -EAGAIN;
}

static void end_with(struct py_holder *ret, const struct variable *v)
{
	prepend(ret->path, v->name);
	strcpy(ret->where, v->where);
}

/* The end of the way, where that is one: 1. */
static int end_at(struct up *u, struct py_holder *ret)
{
	const struct module_of *m;
	char text[PY_TEXT_MAX];
	struct variable v;
	uint64_t cells;

	if (u->by_kind == HOLDS_FUNCTION) {
		cells = py_snap__ptr(u->h->p->snap, u->by + PY_FUNCTION_CLOSURE);
		if (variable__of_closure(&v, u->h->p, u->h->at, u->by, u->edge.index,
					 py_snap__word(u->h->p->snap, cells + 16)))
			end_with(ret, &v);
		return 1;
	}
	m = u->by_kind == HOLDS_DICT ? map__find(&u->h->modules, u->by) : NULL;
	if (!m || py__text(u->h->p, u->edge.key, text))
		return 0;
	prepend(ret->path, text);
	prepend(ret->path, ".");
	if (!py__text(u->h->p, m->name, text))
		prepend(ret->path, text);
	return 1;
}

static int go_up(struct up *u, struct py_holder *ret)
{
	struct gc_found all;
	struct variable v;
	int r;

	py__fresh(u->h->p);
	if (variable__of_frames(&v, u->h->p, u->h->at, u->chain[u->depth])) {
		end_with(ret, &v);
		return 1;
	}
	u->rank = 0;
	r = gc__each(u->h->p, see_object, u, &all);
	if (r || !u->rank)
		return r ? r : 1;
	if (end_at(u, ret))
		return 1;
	prepend_key(u, ret->path);
	u->chain[++u->depth] = u->by;
	return 0;
}

int hunt__name(struct hunt *h, uint64_t obj, struct py_holder *ret)
{
	struct up u = { .h = h, .chain = { obj } };
	char name[PY_TEXT_MAX];
	int r = 0;

	ret->path[0] = ret->where[0] = '\0';
	snprintf(ret->kind, sizeof(ret->kind), "%.60s", class_name(h, obj, name) ? "object" : name);
	while (!r && u.depth < DEPTH_MAX)
		r = go_up(&u, ret);
	if (r < 0)
		return r;
	if ((ret->path[0] == '.' || ret->path[0] == '[') && !class_name(h, u.chain[u.depth], name))
		prepend(ret->path, name); /* no reference to it: its class alone */
	return 0;
}
