/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Names of blocks, from when one gets its name (model_named.c) until it ends. Its kind of tensor goes to the data flow as
 * evidence (graph__named). Where the category contradicts it all the same, the report counts it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "model/flow/flow.h"
#include "model/model_learned.h"
#include "model/model_modules.h"
#include "model/model_tensors.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

static bool is_gpu(uint8_t dev)
{
	return dev >= MT_DEV_CUDA0;
}

bool model__name_fits(const struct block *b, uint64_t bytes)
{
	return is_gpu((uint8_t)b->dev) ? bytes <= b->size : bytes == b->size;
}

/* Names of gradients come and go with the looks: not counted. */
static uint64_t lasting(const struct tensor *t, const struct block *b)
{
	return t->kind == EV_TENSOR_GRADIENT ? 0 : b->size;
}

static void model__uncount(struct model *m, struct tensor *t, const struct block *b, bool is_dead)
{
	if (t->held)
		modules__let_go(&m->modules, t->module, b, model__device(m, (uint8_t)b->dev), is_dead);
	t->held = false;
	modules__unnamed(&m->modules, t->module, t->kind, b->size);
	model__device(m, (uint8_t)b->dev)->named -= lasting(t, b);
}

void model__name_block(struct model *m, struct block *b, const struct tensor *name)
{
	struct tensor *t = tensors__put(&m->tensors, 0, b->id);

	if (!t) {
		m->lost[MT_LOSS_NAMES]++;
		return;
	}
	if (b->named)
		model__uncount(m, t, b, false);
	t->block = b;
	t->size = b->size;
	t->path = name->path;
	t->root = name->root;
	t->type = name->type;
	t->key = name->key;
	t->of = name->of;
	t->kind = name->kind;
	t->bits = name->bits;
	b->named = 1;
	if (!b->tracked)
		model__learned_measured(m, b, procs__find(&m->procs, b->pid));
	if (m->graph)
		graph__named(m->graph, b, t->kind, t->bits);
	modules__gradient(&m->modules, b);
	t->module = (uint16_t)model__module_of_name(m, b->pid, t);
	modules__named(&m->modules, t->module, t->kind, b->size);
	t->held = t->module && !b->module && modules__hold(&m->modules, t->module, b, model__device(m, (uint8_t)b->dev));
	model__device(m, (uint8_t)b->dev)->named += lasting(t, b);
	model__tell_name(m, b, t);
}

void model__unname(struct model *m, const struct block *b, name_id *ret_key, name_id *ret_path)
{
	struct tensor *t = tensors__find(&m->tensors, 0, b->id);

	if (t) {
		model__uncount(m, t, b, true);
		*ret_key = t->key;
		*ret_path = t->path;
	}
	tensors__remove(&m->tensors, 0, b->id);
}

void model__not_held(struct model *m, const struct block *b)
{
	struct tensor *t = tensors__find(&m->tensors, 0, b->id);

	if (t && t->held)
		modules__let_go(&m->modules, t->module, b, model__device(m, (uint8_t)b->dev), false);
	if (t)
		t->held = false;
}

void model__tensor_late(struct model *m, struct block *b)
{
	const struct tensor *t = m->tensors.cnt ? tensors__find(&m->tensors, b->pid, b->ptr) : NULL;
	struct tensor name;

	if (!t)
		return;
	name = *t;
	tensors__remove(&m->tensors, b->pid, b->ptr);
	if (model__name_fits(b, name.size))
		model__name_block(m, b, &name);
}

unsigned model__tensor_memory(const struct model *m, const struct block *b, struct event ret[2])
{
	const struct tensor *t = b->named ? tensors__find(&m->tensors, 0, b->id) : NULL;
	unsigned n = 0;

	if (!t)
		return 0;
	if (t->of.v)
		ret[n++] = (struct event){ .ts_ns = b->allocated_ts_ns, .kind = EV_TENSOR_OF, .pid = b->pid, .addr = b->ptr,
					   .name = t->of };
	ret[n++] = (struct event){ .ts_ns = b->allocated_ts_ns, .kind = EV_TENSOR, .pid = b->pid, .dev = (uint8_t)b->dev,
			       .addr = b->ptr, .size = b->size, .name = t->path, .root = t->root,
			       .type = t->type, .key = t->key, .flags = t->kind | t->bits };
	return n;
}

struct peak_freed model__with_name(const struct model *m, const struct block *b)
{
	const struct tensor *t = b->named ? tensors__find(&m->tensors, 0, b->id) : NULL;

	return (struct peak_freed){ .block = *b, .key = t ? t->key : NAME_NONE, .path = t ? t->path : NAME_NONE };
}

/* --- report ------------------------------------------------------------------------------------------------ */

/* The category that a kind must have; unknown: it may have any. */
static enum category category_of(uint8_t kind)
{
	switch (kind) {
	case EV_TENSOR_PARAMETER:
		return CAT_PARAMETER;
	case EV_TENSOR_GRADIENT:
		return CAT_GRADIENT;
	case EV_TENSOR_STATE:
		return CAT_OPTIMIZER_STATE;
	default:
		return CAT_UNKNOWN;
	}
}

static bool differs(uint8_t kind, enum category cat)
{
	if (cat == CAT_UNKNOWN || category_of(kind) == CAT_UNKNOWN || cat == category_of(kind))
		return false;
	/* BUFFER: averaged weights */
	return !(kind == EV_TENSOR_PARAMETER && (cat == CAT_FROZEN || cat == CAT_BUFFER));
}

static int larger(const void *pa, const void *pb)
{
	const struct tensor *a = *(const struct tensor *const *)pa, *b = *(const struct tensor *const *)pb;

	return cmp_down(a->block->size, b->block->size) ?: cmp_up(a->b, b->b); /* ids */
}

static int fill(const struct model *m, const struct tensor *t, struct report_tensor *ret)
{
	*ret = (struct report_tensor){
		.id = t->block->id, .ptr = t->block->ptr, .size = t->block->size, .pid = t->block->pid,
		.dev = (uint8_t)t->block->dev, .cat = (uint8_t)t->block->cat, .kind = t->kind,
		.path = strdup(names__get(m->names, t->path)), .root = strdup(names__get(m->names, t->root)),
		.type = strdup(names__get(m->names, t->type)), .key = strdup(names__get(m->names, t->key)),
	};
	return ret->path && ret->root && ret->type && ret->key ? 0 : -ENOMEM;
}

int model__report_tensors(const struct model *m, size_t top, struct report_names *r)
{
	const struct tensor *t, **sorted = calloc(m->tensors.cnt + 1, sizeof(t));
	size_t pos = 0;
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	while ((t = tensors__next(&m->tensors, &pos))) {
		struct report_named *n = &r->by_kind[t->kind];

		if (!t->block)
			continue;
		sorted[r->total++] = t;
		n->cnt++;
		n->bytes += t->block->size;
		if (differs(t->kind, t->block->cat)) {
			n->differ_cnt++;
			n->differ_bytes += t->block->size;
		}
	}
	qsort(sorted, r->total, sizeof(t), larger);
	top = top < r->total ? top : r->total;
	r->rows = calloc(top ? top : 1, sizeof(*r->rows));
	err = r->rows ? 0 : -ENOMEM;
	for (; !err && r->cnt < top; r->cnt++)
		err = fill(m, sorted[r->cnt], &r->rows[r->cnt]);
	free(sorted);
	return err;
}
