/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The first turn of a walk: what every module holds, and so parents and children. Called by walk.c. A module is known by
 * its type; its dicts are found among its attributes by the strings that name them: nearly always one object each.
 */
#include <errno.h>
#include <string.h>

#include "python/walk_state.h"

static const char *const dict_names[DICTS] = { "_parameters", "_buffers", "_modules" };

int walk__is_a(struct walk *w, uint64_t obj, unsigned base)
{
	const struct py_type *t = py__type_of(w->py, obj);

	return t && (t->bases >> base & 1);
}

struct dicts {
	struct walk *w;
	int by_text;
	unsigned found;
	uint64_t at[DICTS];
};

static int find_dict(void *ctx, uint64_t key, uint64_t value)
{
	struct dicts *d = ctx;
	uint64_t *interned = d->w->state->interned;

	for (unsigned i = 0; i < DICTS; i++) {
		if (d->at[i] || (interned[i] && interned[i] != key && !d->by_text) ||
		    (interned[i] != key && !py__is_text(d->w->py, key, dict_names[i])))
			continue;
		interned[i] = key;
		d->at[i] = value;
		return ++d->found == DICTS ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
	}
	return PY_ITEM_PASSED;
}

struct wrapped {
	struct walk *w;
	uint64_t dict;
};

static int find_dicts(struct walk *w, uint64_t module, uint64_t *ret)
{
	struct dicts d = { .w = w };
	int r = py__each_attr(w->py, module, find_dict, &d);

	if (!r && d.found < DICTS) {
		d.by_text = 1;
		r = py__each_attr(w->py, module, find_dict, &d);
	}
	memcpy(ret, d.at, sizeof(d.at));
	/* with none of them it is no module yet, or never one: it holds nothing */
	return r ? r : d.found == DICTS || !d.found ? 0 : -EAGAIN;
}

static int find_python_modules(void *ctx, uint64_t key, uint64_t value)
{
	struct wrapped *x = ctx;

	if (!py__is_text(x->w->py, key, "_python_modules"))
		return PY_ITEM_PASSED;
	x->dict = value;
	return PY_ITEM_ENOUGH;
}

/*
 * A scripted module has, in the places of the three dicts, objects that ask C++. Its modules have a dict behind that; its
 * parameters and buffers have no Python names.
 */
static int unwrap(struct walk *w, unsigned which, uint64_t *dict)
{
	struct wrapped x = { .w = w };
	int r;

	if (!*dict || py__is(w->py, *dict, PY_IS_DICT) || !py__type_of(w->py, *dict))
		return 0;
	if (which != MODULES) {
		*dict = 0;
		return 0;
	}
	r = py__each_attr(w->py, *dict, find_python_modules, &x);
	*dict = x.dict;
	return r ? r : x.dict ? 0 : -EAGAIN;
}

struct adding {
	struct walk *w;
	unsigned which;
	int err;
};

static int add_member(void *ctx, uint64_t key, uint64_t value)
{
	struct adding *a = ctx;
	struct walk_state *s = a->w->state;
	struct module_member m = { .obj = value };
	char text[PY_TEXT_MAX];

	/* None stands for a bias that is not there */
	if (!walk__is_a(a->w, value, a->which == MODULES ? WALK_MODULE : WALK_TENSOR))
		return PY_ITEM_NEXT;
	if (s->members_cnt >= WALK_NAMES_MAX) {
		a->w->full++;
		return PY_ITEM_ENOUGH;
	}
	if (py__text(a->w->py, key, text)) { /* kept: such a module is no root, such a parameter has a module */
		a->w->nameless++;
		m.name = NAMELESS;
	}
	a->err = walk__has_room(a->w, &s->members, s->members_cnt, &s->members_cap, sizeof(m));
	if (!a->err && m.name != NAMELESS)
		a->err = walk__add_text(a->w, text, &m.name);
	if (a->err)
		return PY_ITEM_ENOUGH;
	s->members[s->members_cnt++] = m;
	return PY_ITEM_NEXT;
}

static int add_module(struct walk *w, uint64_t obj)
{
	struct walk_state *s = w->state;
	int r;

	if (walk__get(&s->by_addr, obj))
		return 0;
	if (s->modules_cnt >= WALK_MODULES_MAX) {
		w->full++;
		return 0;
	}
	r = walk__has_room(w, &s->modules, s->modules_cnt, &s->modules_cap, sizeof(*s->modules));
	if (r)
		return r;
	s->modules[s->modules_cnt] = (struct module){ .obj = obj };
	return walk__put(w, &s->by_addr, obj, (uint32_t)++s->modules_cnt);
}

/* What it holds. A module that cannot be read has no members, and is counted. */
static int read_module(struct walk *w, size_t at)
{
	struct walk_state *s = w->state;
	struct adding a = { .w = w };
	size_t first = s->members_cnt;
	uint64_t dicts[DICTS];
	int r = find_dicts(w, s->modules[at].obj, dicts);

	for (unsigned i = 0; i < DICTS; i++) {
		s->modules[at].first[i] = (uint32_t)s->members_cnt;
		a.which = i;
		r = r ? r : unwrap(w, i, &dicts[i]);
		r = r || !dicts[i] ? r : py__each_item(w->py, dicts[i], add_member, &a);
		r = r ? r : a.err;
	}
	if (r == -EAGAIN) {
		w->torn++;
		if (w->torn_modules < WALK_TORN_KEPT)
			w->torn_at[w->torn_modules] = s->modules[at].obj;
		w->torn_modules++;
		s->members_cnt = first;
		memset(s->modules[at].first, 0, sizeof(s->modules[at].first));
		return 0;
	}
	s->modules[at].first[DICTS] = (uint32_t)s->members_cnt;
	return r;
}

static int add_children(struct walk *w, size_t at)
{
	struct walk_state *s = w->state;
	uint32_t end = s->modules[at].first[DICTS];
	int r = 0;

	for (uint32_t i = s->modules[at].first[MODULES]; i < end && !r; i++) {
		r = add_module(w, s->members[i].obj);
		s->members[i].module = walk__get(&s->by_addr, s->members[i].obj);
		if (!r && s->members[i].module)
			s->modules[s->members[i].module - 1].is_child = 1;
	}
	return r;
}

int walk__read_modules(struct walk *w, const uint64_t *modules, size_t cnt)
{
	struct walk_state *s = w->state;
	int r = 0;

	for (size_t i = 0; i < cnt && !r; i++)
		if (walk__is_a(w, modules[i], WALK_MODULE))
			r = add_module(w, modules[i]);
	for (size_t i = 0; i < s->modules_cnt && !r; i++) { /* grows meanwhile */
		r = read_module(w, i);
		r = r ? r : add_children(w, i);
	}
	w->modules = (uint32_t)s->modules_cnt;
	return r;
}
