/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Three turns: every module's three dicts, which also tells who is whose child; down from the roots, in the
 * order of named_modules(); the optimizers, whose parameters are known by the object's address by then.
 *
 * All that it keeps is counted as it is kept (keep). Where there is no room for more it ends: names that it has are true,
 * and without all modules nobody can tell which are roots, so then it has none.
 */
#include "python/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum { PARAMETERS = 0, BUFFERS = 1, MODULES = 2, DICTS = 3 };
static const char *const dict_names[DICTS] = { "_parameters", "_buffers", "_modules" };

#define NAMELESS UINT32_MAX
#define STACK_MAX 1024 /* levels that are gone down without names, below WALK_DEPTH_MAX */

struct member {
	uint32_t name; /* in the text; NAMELESS: it cannot be told */
	uint32_t module; /* MODULES: index + 1 */
	uint64_t obj;
};

struct module {
	uint64_t obj;
	uint32_t first[DICTS + 1]; /* members[first[i]] up to first[i + 1] */
	uint8_t is_child, is_named;
};

struct parameter {
	struct py_storage at;
	uint64_t obj, root;
	uint32_t path;
};

/* Of an address. */
struct about {
	uint64_t addr;
	uint32_t value;
};

struct walk_state {
	struct module *modules;
	size_t modules_cnt, modules_cap;
	uint64_t *addrs; /* of the modules, for walk__modules */
	struct member *members;
	size_t members_cnt, members_cap;
	struct map by_addr; /* all five: struct about. Modules → number + 1 */
	struct map objects; /* parameters → their names; NAMELESS: they have one that cannot be told */
	struct map of;      /* parameters → where their path begins, a module's number in `modules` + 1 */
	struct map data;    /* data pointers → their names, gradients not among them */
	struct map grads;   /* … of these */
	struct parameter *parameters; /* whose gradients are looked for */
	size_t parameters_cnt, parameters_cap;
	uint32_t full; /* without gradients */
	size_t names_bytes; /* of `kept`, without gradients and their index */
	uint64_t interned[DICTS]; /* the strings that name the three dicts are one object each, nearly always */
};

/* --- tables ----------------------------------------------------------------------------------------------- */

static uint32_t get(const struct map *m, uint64_t key)
{
	const struct about *row = map__find(m, key);

	return row ? row->value : 0;
}

/* Of what may be kept; -ENOSPC: that is all, and the walk ends there. */
static int keep(struct walk *w, size_t bytes)
{
	if (bytes > WALK_BYTES_MAX - w->kept) {
		w->full++;
		return -ENOSPC;
	}
	w->kept += bytes;
	return 0;
}

/* The first value stays. */
static int put(struct walk *w, struct map *m, uint64_t key, uint32_t value)
{
	struct about *row;
	int r;

	if (!key || map__find(m, key))
		return 0;
	r = keep(w, map__growth(m));
	row = r ? NULL : map__put(m, key);
	if (!row)
		return r ? r : -ENOMEM;
	row->value = value;
	return 0;
}

/* Room for one more; *cap grows. */
static int make_room(struct walk *w, void *array, size_t cnt, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : 256;
	int r = keep(w, size);
	void *p;

	if (r || cnt < *cap)
		return r;
	p = reallocarray(*(void **)array, more, size);
	if (!p)
		return -ENOMEM;
	*(void **)array = p;
	*cap = more;
	return 0;
}

static int add_text(struct walk *w, const char *text, uint32_t *ret)
{
	size_t len = strlen(text) + 1;
	int r = keep(w, len);

	if (r)
		return r;
	while (w->text_cap < w->text_len + len) {
		size_t cap = w->text_cap ? w->text_cap * 2 : 65536;
		char *p = realloc(w->text, cap);

		if (!p)
			return -ENOMEM;
		w->text = p;
		w->text_cap = cap;
	}
	memcpy(w->text + w->text_len, text, len);
	*ret = (uint32_t)w->text_len;
	w->text_len += len;
	return 0;
}

const char *walk__text(const struct walk *w, uint32_t at)
{
	return w->text + at;
}

/* --- modules --------------------------------------------------------------------------------------------- */

static int is_a(struct walk *w, uint64_t obj, unsigned base)
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
	/* without any of them it is none yet, or never will be: it holds nothing */
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
 * What a scripted module has in the places of the three dicts: objects that ask C++. Its modules have a dict behind that, its
 * parameters and buffers are not Python's to name.
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
	struct member m = { .obj = value };
	char text[PY_TEXT_MAX];

	/* None stands for a bias that is not there */
	if (!is_a(a->w, value, a->which == MODULES ? WALK_MODULE : WALK_TENSOR))
		return PY_ITEM_NEXT;
	if (s->members_cnt >= WALK_NAMES_MAX) {
		a->w->full++;
		return PY_ITEM_ENOUGH;
	}
	if (py__text(a->w->py, key, text)) { /* it is there all the same: nobody's root, and no parameter of no module */
		a->w->nameless++;
		m.name = NAMELESS;
	}
	a->err = make_room(a->w, &s->members, s->members_cnt, &s->members_cap, sizeof(m));
	if (!a->err && m.name != NAMELESS)
		a->err = add_text(a->w, text, &m.name);
	if (a->err)
		return PY_ITEM_ENOUGH;
	s->members[s->members_cnt++] = m;
	return PY_ITEM_NEXT;
}

static int add_module(struct walk *w, uint64_t obj)
{
	struct walk_state *s = w->state;
	int r;

	if (get(&s->by_addr, obj))
		return 0;
	if (s->modules_cnt >= WALK_MODULES_MAX) {
		w->full++;
		return 0;
	}
	r = make_room(w, &s->modules, s->modules_cnt, &s->modules_cap, sizeof(*s->modules));
	if (r)
		return r;
	s->modules[s->modules_cnt] = (struct module){ .obj = obj };
	return put(w, &s->by_addr, obj, (uint32_t)++s->modules_cnt);
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
		s->members[i].module = get(&s->by_addr, s->members[i].obj);
		if (!r && s->members[i].module)
			s->modules[s->members[i].module - 1].is_child = 1;
	}
	return r;
}

static int read_modules(struct walk *w, const uint64_t *modules, size_t cnt)
{
	struct walk_state *s = w->state;
	int r = 0;

	for (size_t i = 0; i < cnt && !r; i++)
		if (is_a(w, modules[i], WALK_MODULE))
			r = add_module(w, modules[i]);
	for (size_t i = 0; i < s->modules_cnt && !r; i++) { /* grows meanwhile */
		r = read_module(w, i);
		r = r ? r : add_children(w, i);
	}
	w->modules = (uint32_t)s->modules_cnt;
	return r;
}

/* --- names ------------------------------------------------------------------------------------------------ */

static int add_name(struct walk *w, const struct py_name *n)
{
	struct map *data = n->kind == PY_GRADIENT ? &w->state->grads : &w->state->data;
	int r;

	if (w->names_cnt >= WALK_NAMES_MAX) {
		w->full++;
		return 0;
	}
	if (get(&w->state->data, n->at.data) || get(&w->state->grads, n->at.data))
		return 0;
	r = keep(w, WALK_TOLD_BYTES);
	r = r ? r : make_room(w, &w->names, w->names_cnt, &w->names_cap, sizeof(*n));
	if (r)
		return r;
	w->names[w->names_cnt] = *n;
	return put(w, data, n->at.data, (uint32_t)++w->names_cnt);
}

static int name_tensor(struct walk *w, struct py_name *n)
{
	struct walk_state *s = w->state;
	int r = py_torch__of_object(w->torch, w->py, n->obj, &n->at);

	w->torn += r == -EAGAIN;
	if (r)
		return 0;
	r = add_name(w, n);
	if (r || n->kind != PY_PARAMETER)
		return r;
	r = make_room(w, &s->parameters, s->parameters_cnt, &s->parameters_cap, sizeof(*s->parameters));
	if (r)
		return r;
	s->parameters[s->parameters_cnt++] = (struct parameter){ n->at, n->obj, n->root, n->path };
	return 0;
}

/* A parameter's path is kept even if its memory is elsewhere: its state is named after it. */
static int name_members(struct walk *w, const struct module *m, uint32_t root, char *path, size_t len)
{
	const size_t room = len < WALK_PATH_MAX ? WALK_PATH_MAX - len : 0;
	struct walk_state *s = w->state;
	int r = 0;

	for (uint32_t i = m->first[PARAMETERS]; i < m->first[MODULES] && !r; i++) {
		struct py_name n = { .obj = s->members[i].obj, .root = s->modules[root].obj };
		uint32_t name = s->members[i].name;

		n.kind = i < m->first[BUFFERS] ? PY_PARAMETER : PY_BUFFER;
		if (!path || name == NAMELESS || strlen(walk__text(w, name)) >= room) {
			w->full += path && name != NAMELESS;
			r = n.kind == PY_PARAMETER ? put(w, &s->objects, n.obj, NAMELESS) : 0;
			continue;
		}
		strcpy(path + len, walk__text(w, name));
		r = add_text(w, path, &n.path);
		if (!r && n.kind == PY_PARAMETER)
			r = put(w, &s->objects, n.obj, n.path + 1);
		if (!r && n.kind == PY_PARAMETER)
			r = put(w, &s->of, n.obj, root + 1);
		r = r ? r : name_tensor(w, &n);
	}
	return r;
}

struct level {
	uint32_t module, next;
	size_t len; /* of the path */
	uint8_t is_nameless; /* this one, and what is in it */
};

/* `path` ends with a dot, or is empty. */
static int add_path(struct walk *w, uint32_t module, uint32_t parent, uint32_t root, char *path, size_t len)
{
	const struct module *all = w->state->modules;
	const struct py_type *t = py__type_of(w->py, all[module].obj);
	struct py_module m = { .obj = all[module].obj, .type = t ? t->addr : 0, .root = all[root].obj,
			       .parent = module == root ? 0 : all[parent].obj };
	char end = path[len ? len - 1 : 0];
	int r;

	path[len ? len - 1 : 0] = 0;
	r = add_text(w, path, &m.path);
	path[len ? len - 1 : 0] = end;
	r = r ? r : keep(w, WALK_TOLD_BYTES);
	r = r ? r : make_room(w, &w->paths, w->paths_cnt, &w->paths_cap, sizeof(m));
	if (r)
		return r;
	w->paths[w->paths_cnt++] = m;
	return 0;
}

static uint32_t members_of(const struct module *m)
{
	return m->first[MODULES] - m->first[PARAMETERS];
}

static int name_from(struct walk *w, uint32_t root)
{
	struct walk_state *s = w->state;
	size_t first = w->paths_cnt;
	uint32_t tensors = members_of(&s->modules[root]);
	struct level stack[STACK_MAX];
	char path[WALK_PATH_MAX + PY_TEXT_MAX];
	unsigned depth = 1;
	int r;

	stack[0] = (struct level){ root, s->modules[root].first[MODULES], 0, 0 };
	s->modules[root].is_named = 1;
	path[0] = 0;
	r = add_path(w, root, root, root, path, 0);
	r = r ? r : name_members(w, &s->modules[root], root, path, 0);
	while (depth && !r) {
		struct level *l = &stack[depth - 1];
		const struct member *m;
		size_t len = 0;
		int is_nameless;

		if (l->next >= s->modules[l->module].first[DICTS]) {
			depth--;
			continue;
		}
		m = &s->members[l->next++];
		if (!m->module || s->modules[m->module - 1].is_named)
			continue;
		is_nameless = l->is_nameless || m->name == NAMELESS;
		if (!is_nameless) {
			len = l->len + strlen(walk__text(w, m->name)) + 1;
			is_nameless = depth >= WALK_DEPTH_MAX || len >= WALK_PATH_MAX;
			w->full += (uint32_t)is_nameless;
		}
		if (depth == STACK_MAX)
			continue;
		s->modules[m->module - 1].is_named = 1;
		tensors += members_of(&s->modules[m->module - 1]);
		stack[depth++] = (struct level){ m->module - 1, s->modules[m->module - 1].first[MODULES], len, is_nameless };
		if (is_nameless) {
			r = name_members(w, &s->modules[m->module - 1], root, NULL, 0);
			continue;
		}
		sprintf(path + l->len, "%s.", walk__text(w, m->name));
		r = add_path(w, m->module - 1, l->module, root, path, len);
		r = r ? r : name_members(w, &s->modules[m->module - 1], root, path, len);
	}
	if (first < w->paths_cnt)
		w->paths[first].is_bare = !tensors;
	return r;
}

static int name_modules(struct walk *w)
{
	struct walk_state *s = w->state;
	int r = 0;

	for (uint32_t i = 0; i < s->modules_cnt && !r; i++) {
		if (s->modules[i].is_child)
			continue;
		w->roots++;
		r = name_from(w, i);
	}
	for (size_t i = 0; i < s->modules_cnt && !w->full; i++)
		w->circles += !s->modules[i].is_named;
	return r;
}

/* --- optimizers -------------------------------------------------------------------------------------------- */

struct of_optimizer {
	struct walk *w;
	uint64_t obj, state, groups, root; /* root: of the parameter at hand */
	uint32_t path, group;
	int err;
};

static int find_parts(void *ctx, uint64_t key, uint64_t value)
{
	struct of_optimizer *o = ctx;

	if (!o->state && py__is_text(o->w->py, key, "state"))
		o->state = value;
	else if (!o->groups && py__is_text(o->w->py, key, "param_groups"))
		o->groups = value;
	else
		return PY_ITEM_PASSED;
	return o->state && o->groups ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
}

/* Parameters of no module. */
static int name_group(struct of_optimizer *o, uint64_t params)
{
	struct walk *w = o->w;
	uint64_t *items = NULL;
	size_t cnt = 0;
	int r = py__items(w->py, params, &items, &cnt);

	for (size_t i = 0; i < cnt && !r; i++) {
		struct py_name n = { .obj = items[i], .root = o->obj, .kind = PY_PARAMETER };
		char path[64];

		if (!is_a(w, n.obj, WALK_TENSOR) || get(&w->state->objects, n.obj))
			continue;
		snprintf(path, sizeof(path), "param_groups.%u.%zu", o->group, i);
		r = add_text(w, path, &n.path);
		r = r ? r : put(w, &w->state->objects, n.obj, n.path + 1);
		r = r ? r : name_tensor(w, &n);
	}
	free(items);
	return r;
}

static int name_groups(struct of_optimizer *o)
{
	struct walk *w = o->w;
	uint64_t *groups = NULL, params = 0;
	size_t cnt = 0;
	int r = py__items(w->py, o->groups, &groups, &cnt);

	for (o->group = 0; o->group < cnt && !r; o->group++) {
		r = py__get(w->py, groups[o->group], "params", &params);
		r = r ? r : params ? name_group(o, params) : -EAGAIN;
	}
	free(groups);
	return r;
}

static int name_value(struct of_optimizer *o, uint64_t value, const char *key)
{
	struct py_name n = { .obj = value, .root = o->obj, .kind = PY_STATE, .path = o->path,
			     .of_root = o->root };
	int r = add_text(o->w, key, &n.key);

	return r ? r : name_tensor(o->w, &n);
}

/* {"step": tensor, "exp_avg": tensor, "old_dirs": [tensor, …]} */
static int name_state_item(void *ctx, uint64_t key, uint64_t value)
{
	struct of_optimizer *o = ctx;
	char text[PY_TEXT_MAX], numbered[PY_TEXT_MAX + 24];
	uint64_t *items = NULL;
	size_t cnt = 0;

	if (py__text(o->w->py, key, text))
		return PY_ITEM_PASSED;
	if (is_a(o->w, value, WALK_TENSOR))
		o->err = name_value(o, value, text);
	else if (py__is(o->w->py, value, PY_IS_LIST | PY_IS_TUPLE) && !py__items(o->w->py, value, &items, &cnt))
		for (size_t i = 0; i < cnt && !o->err; i++) {
			if (!is_a(o->w, items[i], WALK_TENSOR))
				continue;
			snprintf(numbered, sizeof(numbered), "%s.%zu", text, i);
			o->err = name_value(o, items[i], numbered);
		}
	free(items);
	return o->err ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
}

static int name_state(void *ctx, uint64_t key, uint64_t value)
{
	struct of_optimizer *o = ctx;
	const struct walk_state *s = o->w->state;
	uint32_t path = get(&s->objects, key), root;

	if (!path || path == NAMELESS || !py__is(o->w->py, value, PY_IS_DICT))
		return PY_ITEM_NEXT;
	o->path = path - 1;
	root = get(&s->of, key);
	o->root = root ? s->modules[root - 1].obj : 0;
	if (py__each_item(o->w->py, value, name_state_item, o) == -ENOMEM)
		o->err = -ENOMEM;
	return o->err ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
}

static int name_optimizer(struct walk *w, uint64_t obj)
{
	struct of_optimizer o = { .w = w, .obj = obj };
	int r;

	if (!is_a(w, obj, WALK_OPTIMIZER))
		return 0;
	w->optimizers++;
	r = py__each_attr(w->py, obj, find_parts, &o);
	if (!r && o.groups)
		r = name_groups(&o);
	if (!r && o.state)
		r = py__each_item(w->py, o.state, name_state, &o);
	w->torn += r == -EAGAIN;
	return o.err ? o.err : r == -EAGAIN ? 0 : r;
}

/* --- all --------------------------------------------------------------------------------------------------- */

void walk__init(struct walk *w, struct py *py, struct py_torch *torch)
{
	*w = (struct walk){ .py = py, .torch = torch };
}

/* All tables; nothing is known then. */
static void forget(struct walk *w)
{
	if (w->state) {
		map__done(&w->state->by_addr);
		map__done(&w->state->objects);
		map__done(&w->state->of);
		map__done(&w->state->data);
		map__done(&w->state->grads);
		free(w->state->parameters);
		free(w->state->modules);
		free(w->state->members);
		free(w->state->addrs);
		free(w->state);
	}
	free(w->names);
	free(w->paths);
	free(w->text);
	w->state = NULL;
	w->names = NULL;
	w->paths = NULL;
	w->text = NULL;
	w->names_cap = w->paths_cap = w->text_cap = 0;
	w->names_cnt = w->gradients_at = w->paths_cnt = w->text_len = 0;
}

void walk__done(struct walk *w)
{
	forget(w);
	*w = (struct walk){ 0 };
}

static size_t maps_bytes(const struct walk_state *s)
{
	return map__bytes(&s->by_addr) + map__bytes(&s->objects) + map__bytes(&s->of) + map__bytes(&s->data) +
	       map__bytes(&s->grads);
}

/* What the tables of walks before have room for: each may have had its own that was large. */
static size_t has_room_for(const struct walk *w)
{
	const struct walk_state *s = w->state;

	if (!s)
		return 0;
	return maps_bytes(s) + s->modules_cap * sizeof(*s->modules) + s->members_cap * sizeof(*s->members) +
	       s->parameters_cap * sizeof(*s->parameters) + w->names_cap * (sizeof(*w->names) + WALK_TOLD_BYTES) +
	       w->paths_cap * (sizeof(*w->paths) + WALK_TOLD_BYTES) + w->text_cap;
}

static struct walk_state *state__new(void)
{
	struct walk_state *s = calloc(1, sizeof(*s));

	if (s)
		s->by_addr = s->objects = s->of = s->data = s->grads = MAP_OF(struct about);
	return s;
}

static int begin(struct walk *w)
{
	uint32_t empty;

	if (has_room_for(w) > WALK_BYTES_MAX / 2)
		forget(w);
	if (!w->state)
		w->state = state__new();
	if (!w->state)
		return -ENOMEM;
	map__clear(&w->state->by_addr);
	map__clear(&w->state->objects);
	map__clear(&w->state->of);
	map__clear(&w->state->data);
	map__clear(&w->state->grads);
	w->state->modules_cnt = w->state->members_cnt = w->state->parameters_cnt = 0;
	w->names_cnt = w->paths_cnt = w->text_len = 0;
	w->kept = maps_bytes(w->state);
	w->modules = w->roots = w->optimizers = w->circles = w->torn = w->full = w->nameless = w->torn_modules = 0;
	return add_text(w, "", &empty); /* at 0 */
}

/* The place of the sizes, from the first parameters that there are. */
static void calibrate(struct walk *w)
{
	uint64_t impls[256];
	size_t cnt = 0;

	for (size_t i = 0; i < w->state->members_cnt && cnt < 256 && !w->torch->sizes; i++) {
		struct py_storage s;

		if (!is_a(w, w->state->members[i].obj, WALK_MODULE) &&
		    !py_torch__of_object(w->torch, w->py, w->state->members[i].obj, &s))
			impls[cnt++] = s.impl;
	}
	py_torch__calibrate(w->torch, w->py, impls, cnt);
}

int walk__names(struct walk *w, const uint64_t *modules, size_t modules_cnt, const uint64_t *optimizers, size_t optimizers_cnt)
{
	int r = begin(w);

	py_snap__trace(w->py->snap, !w->is_untraced);
	py__forget_types(w->py); /* what they rest on belongs to the trace */
	r = r ? r : read_modules(w, modules, modules_cnt);
	if (!r)
		calibrate(w);
	r = r ? r : name_modules(w);
	for (size_t i = 0; i < optimizers_cnt && !r; i++)
		r = name_optimizer(w, optimizers[i]);
	py_snap__trace_end(w->py->snap);
	w->gradients_at = w->names_cnt;
	if (w->state) {
		w->state->full = w->full;
		w->state->names_bytes = w->kept - map__bytes(&w->state->grads);
	}
	return r == -ENOSPC ? 0 : r;
}

int walk__gradients(struct walk *w)
{
	struct walk_state *s = w->state;
	int r = 0;

	w->names_cnt = w->gradients_at;
	w->full = s->full;
	w->kept = s->names_bytes + map__bytes(&s->grads);
	map__clear(&s->grads);
	for (size_t i = 0; i < s->parameters_cnt && !r; i++) {
		const struct parameter *p = &s->parameters[i];
		struct py_name n = { .obj = p->obj, .root = p->root, .path = p->path, .of = (uint32_t)i, .kind = PY_GRADIENT };
		uint64_t grad = py_torch__grad(w->torch, w->py, p->at.impl);

		if (grad && !py_torch__of_impl(w->torch, w->py, grad, &n.at))
			r = add_name(w, &n);
	}
	return r == -ENOSPC ? 0 : r;
}

int walk__is_gradient(struct walk *w, const struct py_name *n)
{
	const struct parameter *p = &w->state->parameters[n->of];
	struct py_storage grad;

	if (py_torch__impl(w->torch, w->py, p->obj) != p->at.impl ||
	    py_torch__grad(w->torch, w->py, p->at.impl) != n->at.impl ||
	    py_torch__of_impl(w->torch, w->py, n->at.impl, &grad))
		return 0;
	return grad.data == n->at.data && grad.storage == n->at.storage && grad.bytes == n->at.bytes &&
	       grad.dims == p->at.dims && !memcmp(grad.shape, p->at.shape, (grad.dims <= PY_DIMS_MAX ? grad.dims : 0) * 8u);
}

size_t walk__modules(const struct walk *w, const uint64_t **ret)
{
	struct walk_state *s = w->state;

	free(s->addrs);
	s->addrs = calloc(s->modules_cnt + 1, sizeof(*s->addrs));
	for (size_t i = 0; s->addrs && i < s->modules_cnt; i++)
		s->addrs[i] = s->modules[i].obj;
	*ret = s->addrs;
	return s->addrs ? s->modules_cnt : 0;
}
