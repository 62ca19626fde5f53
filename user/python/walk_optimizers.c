/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The third turn of a walk: optimizers, whose parameters are known by the object's address by then; parameters of no module get
 * their names here. Called by walk.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "python/walk_state.h"

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

/* --- DTensors that were a module's ------------------------------------------------------------------------- */

/* Of a made-up heap; 100,000 parameters have 40 bytes or so each. */
#define FORMER_TEXT_MAX (8u << 20)

static int keep_former(struct walk_state *s, const struct parameter *p, uint64_t root, const char *path)
{
	size_t len = strlen(path) + 1;
	struct former *f;

	if (map__find(&s->former, p->obj) || s->former_len + len > FORMER_TEXT_MAX)
		return 0;
	if (s->former_cap < s->former_len + len) {
		size_t cap = s->former_cap ? s->former_cap * 2 : 4096;
		char *text = realloc(s->former_text, cap);

		if (!text)
			return -ENOMEM;
		s->former_text = text;
		s->former_cap = cap;
	}
	f = map__put(&s->former, p->obj);
	if (!f)
		return -ENOMEM;
	f->impl = p->at.impl;
	f->root = root;
	f->path = (uint32_t)s->former_len;
	memcpy(s->former_text + s->former_len, path, len);
	s->former_len += len;
	return 0;
}

int walk__keep_formers(struct walk *w)
{
	struct walk_state *s = w->state;
	int r = 0;

	if (!s)
		return 0;
	map__clear(&s->former);
	s->former_len = 0;
	for (size_t i = 0; i < s->parameters_cnt && !r; i++) {
		const struct parameter *p = &s->parameters[i];
		uint32_t path, root;

		if (p->at.storage)
			continue;
		path = walk__get(&s->objects, p->obj);
		root = walk__get(&s->of, p->obj);
		if (path && path != NAMELESS && root)
			r = keep_former(s, p, s->modules[root - 1].obj, walk__text(w, path - 1));
	}
	return r;
}

size_t walk__formers_bytes(const struct walk_state *s)
{
	return map__bytes(&s->former) + s->former_cap;
}

/*
 * While fully_shard has a module's weights gathered, these are its parameters, and the shards are the optimizer's alone: they
 * keep their names. Another tensor at the address of an object that is gone has a TensorImpl of its own. *ret: the path; "": it
 * has none.
 */
static int former_path(struct walk *w, struct py_name *n, const char **ret)
{
	struct walk_state *s = w->state;
	const struct former *f = map__find(&s->former, n->obj);
	uint32_t root = f ? walk__get(&s->by_addr, f->root) : 0;

	*ret = "";
	if (!root || s->modules[root - 1].is_child || py_torch__impl(w->torch, w->py, n->obj) != f->impl)
		return 0;
	*ret = s->former_text + f->path;
	n->root = f->root;
	return walk__put(w, &s->of, n->obj, root);
}

/* Parameters of no module. */
static int name_group(struct of_optimizer *o, uint64_t params)
{
	struct walk *w = o->w;
	uint64_t *items = NULL;
	size_t cnt = 0;
	int r = py__items(w->py, params, &items, &cnt);

	for (size_t i = 0; i < cnt && !r; i++) {
		struct py_name n = { .obj = items[i], .root = o->obj, .kind = EV_TENSOR_PARAMETER };
		const char *former;
		char path[64];

		if (!walk__is_a(w, n.obj, WALK_TENSOR))
			continue;
		r = walk__put(w, &w->state->held, n.obj, 1);
		if (r || walk__get(&w->state->objects, n.obj))
			continue;
		snprintf(path, sizeof(path), "param_groups.%u.%zu", o->group, i);
		r = former_path(w, &n, &former);
		r = r ? r : walk__add_text(w, *former ? former : path, &n.path);
		r = r ? r : walk__put(w, &w->state->objects, n.obj, n.path + 1);
		r = r ? r : walk__name_tensor(w, &n);
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
	struct py_name n = { .obj = value, .root = o->obj, .kind = EV_TENSOR_STATE, .path = o->path,
			     .of_root = o->root };
	int r = walk__add_text(o->w, key, &n.key);

	return r ? r : walk__name_tensor(o->w, &n);
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
	if (walk__is_a(o->w, value, WALK_TENSOR))
		o->err = name_value(o, value, text);
	else if (py__is(o->w->py, value, PY_IS_LIST | PY_IS_TUPLE) && !py__items(o->w->py, value, &items, &cnt))
		for (size_t i = 0; i < cnt && !o->err; i++) {
			if (!walk__is_a(o->w, items[i], WALK_TENSOR))
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
	uint32_t path = walk__get(&s->objects, key), root;

	if (!path || path == NAMELESS || !py__is(o->w->py, value, PY_IS_DICT))
		return PY_ITEM_NEXT;
	o->path = path - 1;
	root = walk__get(&s->of, key);
	o->root = root ? s->modules[root - 1].obj : 0;
	if (py__each_item(o->w->py, value, name_state_item, o) == -ENOMEM)
		o->err = -ENOMEM;
	return o->err ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
}

int walk__name_optimizer(struct walk *w, uint64_t obj)
{
	struct of_optimizer o = { .w = w, .obj = obj };
	int r;

	if (!walk__is_a(w, obj, WALK_OPTIMIZER))
		return 0;
	w->optimizers++;
	r = py__each_attr(w->py, obj, find_parts, &o);
	if (!r && o.groups)
		r = name_groups(&o);
	if (!r && o.state)
		r = py__each_item(w->py, o.state, name_state, &o);
	w->torn += r == -EAGAIN;
	w->state->has_torn_optimizer |= r || !o.groups;
	return o.err ? o.err : r == -EAGAIN ? 0 : r;
}

static uint64_t path_hash(const char *path)
{
	uint64_t hash = XXH3_64bits(path, strlen(path));

	return hash ? hash : 1;
}

/* Of a module, a part of a DTensor. */
static int is_inner_parameter(const struct py_name *n)
{
	return n->is_inner && n->kind == EV_TENSOR_PARAMETER;
}

static int is_held(const struct walk *w, const struct py_name *n)
{
	return walk__get(&w->state->held, n->obj) != 0;
}

/*
 * A copy of a model whose parameters are DTensors (an average of weights) asks for gradients as the model does, and calls on
 * its parts are not seen. The difference: an optimizer has the parameter of that path, and none has the copy's, which lies
 * there or below "module." (torch.optim.swa_utils.AveragedModel). Parameters whose optimizer has others in their place
 * (master copies), or was not found, are no copies.
 */
int walk__find_resting(struct walk *w)
{
	struct walk_state *s = w->state;
	int r = 0;

	for (size_t i = 0; i < w->names_cnt && !r; i++)
		if (is_inner_parameter(&w->names[i]) && is_held(w, &w->names[i]))
			r = walk__put(w, &s->held_paths, path_hash(walk__text(w, w->names[i].path)), 1);
	for (size_t i = 0; i < w->names_cnt && s->held_paths.cnt && !s->has_torn_optimizer && !r; i++) {
		struct py_name *n = &w->names[i];
		const char *path = walk__text(w, n->path), *below = !strncmp(path, "module.", 7) ? path + 7 : path;

		n->rests |= is_inner_parameter(n) && !is_held(w, n) && (walk__get(&s->held_paths, path_hash(path)) ||
									 walk__get(&s->held_paths, path_hash(below)));
	}
	return r;
}
