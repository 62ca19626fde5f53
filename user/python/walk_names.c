/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The second turn of a walk: down from the roots, in the order of named_modules(). Called by walk.c; walk_optimizers.c adds its
 * tensors by the same functions.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "python/walk_state.h"

#define STACK_MAX 1024 /* levels below WALK_DEPTH_MAX that are walked without names */

/*
 * The first name of a storage stays, unless it is a buffer's: torch.compile makes of an optimizer's step a module that has the
 * optimizer's state, and parameters, as its buffers.
 */
static int is_better(const struct py_name *n, const struct py_name *had)
{
	return had->kind == EV_TENSOR_BUFFER && (n->kind == EV_TENSOR_STATE || n->kind == EV_TENSOR_PARAMETER);
}

int walk__add_name(struct walk *w, const struct py_name *n)
{
	struct map *data = n->kind == EV_TENSOR_GRADIENT ? &w->state->grads : &w->state->data;
	uint32_t had = walk__get(&w->state->data, n->at.data);
	int r;

	if (had && is_better(n, &w->names[had - 1])) {
		w->names[had - 1] = *n;
		return 0;
	}

	if (w->names_cnt >= WALK_NAMES_MAX) {
		w->full++;
		return 0;
	}
	if (had || walk__get(&w->state->grads, n->at.data))
		return 0;
	r = walk__keep(w, WALK_REPORTED_BYTES);
	r = r ? r : walk__has_room(w, &w->names, w->names_cnt, &w->names_cap, sizeof(*n));
	if (r)
		return r;
	w->names[w->names_cnt] = *n;
	return walk__put(w, data, n->at.data, (uint32_t)++w->names_cnt);
}

int walk__name_parts(struct walk *w, const struct py_name *n, const struct walk_parts *parts)
{
	char text[WALK_PATH_MAX + PY_TEXT_MAX + WALK_PART_TEXT];
	int r = 0;

	for (unsigned i = 0; i < parts->cnt && !r; i++) {
		struct py_name part = *n;
		uint32_t *of = n->kind == EV_TENSOR_STATE ? &part.key : &part.path;

		part.at = parts->v[i].at;
		part.is_inner = 1;
		part.rests = n->kind == EV_TENSOR_PARAMETER && !py_torch__may_train(w->torch, w->py, n->at.impl);
		if (parts->v[i].path[0]) {
			snprintf(text, sizeof(text), "%s.%s", walk__text(w, *of), parts->v[i].path);
			r = walk__add_text(w, text, of);
		}
		r = r ? r : walk__add_name(w, &part);
	}
	return r;
}

/* A tensor without memory of its own may be made of others that have some. */
static int name_wrapper(struct walk *w, struct py_name *n)
{
	struct walk_parts parts;

	n->at = (struct py_storage){ .impl = py_torch__impl(w->torch, w->py, n->obj) };
	walk__parts(w, n->obj, &parts);
	return walk__name_parts(w, n, &parts);
}

int walk__name_tensor(struct walk *w, struct py_name *n)
{
	struct walk_state *s = w->state;
	int r = py_torch__of_object(w->torch, w->py, n->obj, &n->at);

	w->torn += r == -EAGAIN;
	if (r == -EAGAIN)
		return 0;
	r = r ? name_wrapper(w, n) : walk__add_name(w, n);
	if (r || n->kind != EV_TENSOR_PARAMETER)
		return r;
	r = walk__has_room(w, &s->parameters, s->parameters_cnt, &s->parameters_cap, sizeof(*s->parameters));
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

		n.kind = i < m->first[BUFFERS] ? EV_TENSOR_PARAMETER : EV_TENSOR_BUFFER;
		if (!path || name == NAMELESS || strlen(walk__text(w, name)) >= room) {
			w->full += path && name != NAMELESS;
			r = n.kind == EV_TENSOR_PARAMETER ? walk__put(w, &s->objects, n.obj, NAMELESS) : 0;
			continue;
		}
		strcpy(path + len, walk__text(w, name));
		r = walk__add_text(w, path, &n.path);
		if (!r && n.kind == EV_TENSOR_PARAMETER)
			r = walk__put(w, &s->objects, n.obj, n.path + 1);
		if (!r && n.kind == EV_TENSOR_PARAMETER)
			r = walk__put(w, &s->of, n.obj, root + 1);
		r = r ? r : walk__name_tensor(w, &n);
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
	r = walk__add_text(w, path, &m.path);
	path[len ? len - 1 : 0] = end;
	r = r ? r : walk__keep(w, WALK_REPORTED_BYTES);
	r = r ? r : walk__has_room(w, &w->paths, w->paths_cnt, &w->paths_cap, sizeof(m));
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
		const struct module_member *m;
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

int walk__name_modules(struct walk *w)
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
