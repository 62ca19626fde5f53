/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Tensors without memory of their own: they wrap others, which have it. Called by walk_names.c and walk.c.
 *
 * Which others, the object's __tensor_flatten__ returns, which cannot be called. Known by name are the slots of
 * DTensor (torch/distributed/tensor/_api.py, 2.13: "_local_tensor") and AsyncCollectiveTensor
 * (torch/distributed/_functional_collectives.py: "elem"). A slot is a member descriptor in its class's dict, which has the
 * place in the object (CPython: PyMemberDescrObject, PyMemberDef). Of other classes that have a __tensor_flatten__ (quantised
 * weights and states: torchao) the attributes that are tensors are taken, except those named after a gradient. Of a sparse
 * gradient the parts are indices and values, in C++ (tensor.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "python/object_head.h"
#include "python/walk_state.h"

#define DEEP_MAX 3 /* wrappers in wrappers */
#define BASES_MAX 16
#define DESCR_TYPE 16 /* CPython: 3.10 to 3.13, as below */
#define DESCR_MEMBER 40
#define MEMBER_KIND 8
#define MEMBER_OFFSET 16
#define KIND_OBJECT 6 /* Py_T_OBJECT … */
#define KIND_OBJECT_EX 16
#define OFFSET_MAX 4096
#define PYOBJ_WORDS 6 /* between a TensorImpl's autograd_meta and its sizes: one is its Python object */

static const char *const slot_names[WALK_SLOTS] = { "_local_tensor", "elem" };

/* --- its class ------------------------------------------------------------------------------------------------ */

/* Where a slot is in objects of a class; 0: there is no such slot. */
static uint16_t slot_at(struct walk *w, uint64_t type, uint64_t dict, const char *name)
{
	struct py_snap *snap = w->py->snap;
	uint64_t descr = 0, member, kind, offset;

	if (py__get(w->py, dict, name, &descr) || !descr || py_snap__ptr(snap, descr + DESCR_TYPE) != type)
		return 0;
	member = py_snap__ptr(snap, descr + DESCR_MEMBER);
	kind = member ? py_snap__int(snap, member + MEMBER_KIND) : 0;
	offset = member ? py_snap__word(snap, member + MEMBER_OFFSET) : 0;
	if ((kind != KIND_OBJECT && kind != KIND_OBJECT_EX) || offset < 16 || offset > OFFSET_MAX || offset & 7)
		return 0;
	return (uint16_t)offset;
}

static void look_at_class(struct walk *w, struct wrapper *c)
{
	uint64_t mro = py_snap__ptr(w->py->snap, c->type + TYPE_MRO), cnt = mro ? py_snap__word(w->py->snap, mro + 16) : 0;

	for (uint64_t i = 0; i < cnt && i < BASES_MAX; i++) {
		uint64_t type = py_snap__ptr(w->py->snap, mro + 24 + 8 * i), flatten = 0;
		uint64_t dict = type ? py_snap__ptr(w->py->snap, type + TYPE_DICT) : 0;

		if (!dict || type == w->py->bases[WALK_TENSOR])
			return;
		for (unsigned k = 0; k < WALK_SLOTS; k++)
			if (!c->slots[k])
				c->slots[k] = slot_at(w, type, dict, slot_names[k]);
		c->is_flat |= !py__get(w->py, dict, "__tensor_flatten__", &flatten) && flatten;
	}
}

static struct wrapper class_of(struct walk *w, uint64_t obj)
{
	const struct py_type *t = py__type_of(w->py, obj);
	struct walk_state *s = w->state;
	struct wrapper c = { .type = t ? t->addr : 0 };

	for (uint32_t i = 0; i < s->wrappers_cnt; i++)
		if (s->wrappers[i].type == c.type)
			return s->wrappers[i];
	if (c.type)
		look_at_class(w, &c);
	if (s->wrappers_cnt < WALK_WRAPPERS_MAX)
		s->wrappers[s->wrappers_cnt++] = c;
	return c;
}

/* --- its parts ------------------------------------------------------------------------------------------------- */

struct children {
	struct walk *w;
	unsigned cnt;
	struct {
		uint64_t obj;
		char name[WALK_PART_TEXT];
	} v[WALK_PARTS_MAX];
};

static int add_attr(void *ctx, uint64_t key, uint64_t value)
{
	struct children *c = ctx;
	char text[PY_TEXT_MAX];

	if (!walk__is_a(c->w, value, WALK_TENSOR) || py__text(c->w->py, key, text) || strlen(text) >= WALK_PART_TEXT ||
	    strstr(text, "grad"))
		return PY_ITEM_NEXT;
	c->v[c->cnt].obj = value;
	strcpy(c->v[c->cnt].name, text);
	return ++c->cnt == WALK_PARTS_MAX ? PY_ITEM_ENOUGH : PY_ITEM_NEXT;
}

static void find_children(struct children *c, uint64_t obj)
{
	struct wrapper class = class_of(c->w, obj);

	for (unsigned i = 0; i < WALK_SLOTS; i++) {
		uint64_t at = class.slots[i] ? py_snap__ptr(c->w->py->snap, obj + class.slots[i]) : 0;

		if (!at || !walk__is_a(c->w, at, WALK_TENSOR))
			continue;
		c->v[c->cnt].obj = at;
		strcpy(c->v[c->cnt++].name, slot_names[i]);
	}
	if (!c->cnt && class.is_flat && py__each_attr(c->w->py, obj, add_attr, c))
		c->cnt = 0;
}

/* A single part has the wrapper's own name. */
static void add_parts(struct walk *w, uint64_t obj, const char *path, unsigned deep, struct walk_parts *ret)
{
	struct children c = { .w = w };

	find_children(&c, obj);
	for (unsigned i = 0; i < c.cnt && ret->cnt < WALK_PARTS_MAX; i++) {
		struct walk_part *part = &ret->v[ret->cnt];
		char name[WALK_PART_TEXT];
		int r, len = snprintf(name, sizeof(name), "%s%s%s", path, *path && c.cnt > 1 ? "." : "",
				      c.cnt > 1 ? c.v[i].name : "");

		r = len < (int)sizeof(name) ? py_torch__of_object(w->torch, w->py, c.v[i].obj, &part->at) : -EAGAIN;
		if (r == -ENOENT && deep < DEEP_MAX)
			add_parts(w, c.v[i].obj, name, deep + 1, ret);
		if (r)
			continue;
		strcpy(part->path, name);
		ret->cnt++;
	}
}

void walk__parts(struct walk *w, uint64_t obj, struct walk_parts *ret)
{
	ret->cnt = 0;
	add_parts(w, obj, "", 1, ret);
}

/* --- gradients --------------------------------------------------------------------------------------------------- */

/* The Python object of a TensorImpl: the word in it that points to a tensor that points back. 0: none. */
static uint64_t object_of(struct walk *w, uint64_t impl)
{
	for (unsigned i = 1; i <= PYOBJ_WORDS; i++) {
		uint64_t obj = py_snap__word(w->py->snap, impl + w->torch->at.impl_autograd_meta + 8 * i) & ~7ull;

		if (obj && walk__is_a(w, obj, WALK_TENSOR) && py_torch__impl(w->torch, w->py, obj) == impl)
			return obj;
	}
	return 0;
}

static void add_sparse(const struct py_storage parts[PY_SPARSE_PARTS], struct walk_parts *ret)
{
	static const char *const names[] = { [PY_INDICES] = "indices", [PY_VALUES] = "values" };

	for (unsigned i = 0; i < PY_SPARSE_PARTS; i++) {
		if (!parts[i].impl)
			continue;
		ret->v[ret->cnt].at = parts[i];
		strcpy(ret->v[ret->cnt++].path, names[i]);
	}
}

/* A sparse one may have no Python object: the engine made it. */
void walk__parts_of_impl(struct walk *w, uint64_t impl, struct walk_parts *ret)
{
	struct py_storage sparse[PY_SPARSE_PARTS];
	uint64_t obj;

	ret->cnt = 0;
	if (!py_torch__sparse(w->torch, w->py, impl, sparse)) {
		add_sparse(sparse, ret);
		return;
	}
	obj = object_of(w, impl);
	if (obj)
		walk__parts(w, obj, ret);
}
