/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Three turns: every module's three dicts, which also give parents and children; down from the roots, in
 * the order of named_modules(); the optimizers, whose parameters are known by the object's address by then.
 *
 * All memory is counted as it is kept (walk__keep). When there is no room for more the walk ends: the names found are valid; if
 * modules are missing, the roots are unknown, so there are no names.
 */
#include "python/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/walk_state.h"

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
		map__done(&w->state->held);
		map__done(&w->state->held_paths);
		map__done(&w->state->former);
		map__done(&w->state->data);
		map__done(&w->state->grads);
		free(w->state->former_text);
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
	return map__bytes(&s->by_addr) + map__bytes(&s->objects) + map__bytes(&s->of) + map__bytes(&s->held) +
	       map__bytes(&s->held_paths) + map__bytes(&s->data) + map__bytes(&s->grads) + walk__formers_bytes(s);
}

/* Room kept by tables of earlier walks: another one may have been large in each. */
static size_t has_room_for(const struct walk *w)
{
	const struct walk_state *s = w->state;

	if (!s)
		return 0;
	return maps_bytes(s) + s->modules_cap * sizeof(*s->modules) + s->members_cap * sizeof(*s->members) +
	       s->parameters_cap * sizeof(*s->parameters) + w->names_cap * (sizeof(*w->names) + WALK_REPORTED_BYTES) +
	       w->paths_cap * (sizeof(*w->paths) + WALK_REPORTED_BYTES) + w->text_cap;
}

static struct walk_state *state__new(void)
{
	struct walk_state *s = calloc(1, sizeof(*s));

	if (s) {
		s->by_addr = s->objects = s->of = s->held = s->held_paths = s->data = s->grads = MAP_OF(struct about);
		s->former = MAP_OF(struct former);
	}
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
	map__clear(&w->state->held);
	map__clear(&w->state->held_paths);
	map__clear(&w->state->data);
	map__clear(&w->state->grads);
	w->state->modules_cnt = w->state->members_cnt = w->state->parameters_cnt = 0;
	w->state->wrappers_cnt = 0;
	w->state->has_torn_optimizer = 0;
	w->names_cnt = w->paths_cnt = w->text_len = 0;
	w->kept = maps_bytes(w->state);
	w->modules = w->roots = w->optimizers = w->circles = w->torn = w->full = w->nameless = w->torn_modules = 0;
	return walk__add_text(w, "", &empty); /* at 0 */
}

/* The place of the sizes, from the first parameters that there are. */
static void calibrate(struct walk *w)
{
	struct walk_parts parts;
	uint64_t impls[256];
	size_t cnt = 0;

	for (size_t i = 0; i < w->state->members_cnt && cnt < 256 && !w->torch->sizes; i++) {
		struct py_storage s;

		int r = walk__is_a(w, w->state->members[i].obj, WALK_MODULE) ? -EAGAIN :
			py_torch__of_object(w->torch, w->py, w->state->members[i].obj, &s);

		if (!r)
			impls[cnt++] = s.impl;
		if (r != -ENOENT)
			continue;
		walk__parts(w, w->state->members[i].obj, &parts);
		for (unsigned k = 0; k < parts.cnt && cnt < 256; k++)
			impls[cnt++] = parts.v[k].at.impl;
	}
	py_torch__calibrate(w->torch, w->py, impls, cnt);
}

int walk__names(struct walk *w, const uint64_t *modules, size_t modules_cnt, const uint64_t *optimizers, size_t optimizers_cnt)
{
	int r = walk__keep_formers(w);

	r = r ? r : begin(w);
	py_snap__trace(w->py->snap, !w->is_untraced);
	py__forget_types(w->py); /* the words that they were read from belong to the trace */
	r = r ? r : walk__read_modules(w, modules, modules_cnt);
	if (!r)
		calibrate(w);
	r = r ? r : walk__name_modules(w);
	for (size_t i = 0; i < optimizers_cnt && !r; i++)
		r = walk__name_optimizer(w, optimizers[i]);
	r = r ? r : walk__find_resting(w);
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
	struct walk_parts parts;
	int r = 0;

	w->names_cnt = w->gradients_at;
	w->full = s->full;
	w->kept = s->names_bytes + map__bytes(&s->grads);
	map__clear(&s->grads);
	for (size_t i = 0; i < s->parameters_cnt && !r; i++) {
		const struct parameter *p = &s->parameters[i];
		struct py_name n = { .obj = p->obj, .root = p->root, .path = p->path, .of = (uint32_t)i,
				     .kind = EV_TENSOR_GRADIENT };
		uint64_t grad = py_torch__grad(w->torch, w->py, p->at.impl);
		int at = grad ? py_torch__of_impl(w->torch, w->py, grad, &n.at) : -EAGAIN;

		if (!at)
			r = walk__add_name(w, &n);
		if (at != -ENOENT)
			continue;
		walk__parts_of_impl(w, grad, &parts);
		r = walk__name_parts(w, &n, &parts);
	}
	return r == -ENOSPC ? 0 : r;
}

static int is_part(struct walk *w, uint64_t impl, const struct py_storage *at)
{
	struct walk_parts parts;

	walk__parts_of_impl(w, impl, &parts);
	for (unsigned i = 0; i < parts.cnt; i++)
		if (parts.v[i].at.impl == at->impl && parts.v[i].at.storage == at->storage && parts.v[i].at.data == at->data &&
		    parts.v[i].at.bytes == at->bytes)
			return 1;
	return 0;
}

int walk__is_gradient(struct walk *w, const struct py_name *n)
{
	const struct parameter *p = &w->state->parameters[n->of];
	struct py_storage grad;

	if (n->is_inner)
		return py_torch__impl(w->torch, w->py, p->obj) == p->at.impl &&
		       is_part(w, py_torch__grad(w->torch, w->py, p->at.impl), &n->at);
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
