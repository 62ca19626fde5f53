/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Which block a name is of. A name was read some milliseconds before it is told, from memory that the job
 * changes meanwhile: it holds for the block at that address only if that one was born before the reading began
 * and has the size that was read. A storage from before the attach has no block until an operator is given
 * it: its name waits, and is forgotten as soon as anything is born or freed there.
 *
 * Names are beside the categories and change none of them: where both speak, the report counts how often they
 * do not agree.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "model/state.h"
#include "timeline/report.h"

static bool is_gpu(uint8_t dev)
{
	return dev >= MT_DEV_CUDA0;
}

/* The GPU's allocator rounds up. */
static bool fits(const struct block *b, uint64_t bytes)
{
	return is_gpu((uint8_t)b->dev) ? bytes <= b->size : bytes == b->size;
}

static void set(struct model *m, struct block *b, const struct tensor *name)
{
	struct tensor *t = tensors__put(&m->tensors, 0, b->id);

	if (!t) {
		m->lost[MT_LOSS_NAMES]++;
		return;
	}
	if (b->named)
		modules__unnamed(&m->modules, t->module, t->kind, b->size);
	t->block = b;
	t->size = b->size;
	t->path = name->path;
	t->root = name->root;
	t->type = name->type;
	t->key = name->key;
	t->of = name->of;
	t->kind = name->kind;
	b->named = 1;
	modules__gradient(&m->modules, b);
	t->module = (uint16_t)model__module_of_name(m, b->pid, t);
	modules__named(&m->modules, t->module, t->kind, b->size);
	model__tell_name(m, b, t);
}

void model__unname(struct model *m, const struct block *b)
{
	const struct tensor *t = tensors__find(&m->tensors, 0, b->id);

	if (t)
		modules__unnamed(&m->modules, t->module, t->kind, b->size);
	tensors__remove(&m->tensors, 0, b->id);
}

static name_id id_of(uint32_t v)
{
	return (name_id){ v < NAMES_MAX ? v : 0 };
}

static struct tensor name_of(const struct event *ev)
{
	return (struct tensor){ .path = id_of(ev->name.v), .root = id_of(ev->root.v), .type = id_of(ev->type.v),
				.key = id_of(ev->key.v), .kind = ev->flags, .size = ev->size };
}

void model__tensor_of(struct model *m, const struct event *ev)
{
	m->tensor_of = *ev;
}

void model__tensor(struct model *m, const struct event *ev)
{
	uint64_t age_ns = (uint64_t)ev->depth * EV_TENSOR_AGE_NS;
	const struct proc *p = procs__find(&m->procs, ev->pid);
	struct tensor name = name_of(ev), *t;
	struct block *b;

	if (m->tensor_of.pid == ev->pid && m->tensor_of.addr == ev->addr)
		name.of = id_of(m->tensor_of.name.v);
	m->tensor_of = (struct event){ 0 };
	if (!ev->pid || !ev->addr || !ev->flags || ev->flags >= EV_TENSOR_MAX || !name.path.v || (p && p->gone == 1))
		return;
	b = model__block_at(m, ev);
	if (b) {
		if (fits(b, ev->size) && (b->met || b->born_ts_ns + age_ns < m->now_ns))
			set(m, b, &name);
		return;
	}
	t = tensors__put(&m->tensors, ev->pid, ev->addr);
	if (!t) {
		m->lost[MT_LOSS_NAMES]++;
		return;
	}
	name.a = t->a;
	name.b = t->b;
	*t = name;
}

void model__tensor_met(struct model *m, struct block *b)
{
	const struct tensor *t = m->tensors.cnt ? tensors__find(&m->tensors, b->pid, b->ptr) : NULL;
	struct tensor name;

	if (!t)
		return;
	name = *t;
	tensors__remove(&m->tensors, b->pid, b->ptr);
	if (fits(b, name.size))
		set(m, b, &name);
}

int model__tensor_at(const struct model *m, uint32_t pid, uint64_t addr, uint64_t bytes, struct tensor *ret)
{
	const struct block *b = model__block_at(m, &(struct event){ .pid = pid, .addr = addr });
	const struct tensor *t = b ? tensors__find(&m->tensors, 0, b->id) : tensors__find(&m->tensors, pid, addr);

	if (b && !fits(b, bytes))
		return -ENOENT;
	if (!t)
		return 0;
	*ret = *t;
	return 1;
}

unsigned model__tensor_memory(const struct model *m, const struct block *b, struct event ret[2])
{
	const struct tensor *t = b->named ? tensors__find(&m->tensors, 0, b->id) : NULL;
	unsigned n = 0;

	if (!t)
		return 0;
	if (t->of.v)
		ret[n++] = (struct event){ .ts_ns = b->born_ts_ns, .kind = EV_TENSOR_OF, .pid = b->pid, .addr = b->ptr,
					   .name = t->of };
	ret[n++] = (struct event){ .ts_ns = b->born_ts_ns, .kind = EV_TENSOR, .pid = b->pid, .dev = (uint8_t)b->dev,
			       .addr = b->ptr, .size = b->size, .name = t->path, .root = t->root,
			       .type = t->type, .key = t->key, .flags = t->kind };
	return n;
}

char *model__name_of(const struct model *m, const struct block *b)
{
	const struct tensor *t = b->named ? tensors__find(&m->tensors, 0, b->id) : NULL;
	char *name = NULL;

	if (t && asprintf(&name, "%s%s%s", names__get(m->names, t->key), t->key.v ? " " : "",
			  names__get(m->names, t->path)) < 0)
		return NULL;
	return name;
}

/* --- report ------------------------------------------------------------------------------------------------ */

/* What a kind is as a category; unknown: there is none that it would have to be. */
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
	return !(kind == EV_TENSOR_PARAMETER && cat == CAT_FROZEN);
}

static int larger(const void *pa, const void *pb)
{
	const struct tensor *a = *(const struct tensor *const *)pa, *b = *(const struct tensor *const *)pb;

	if (a->block->size != b->block->size)
		return a->block->size > b->block->size ? -1 : 1;
	return a->b < b->b ? -1 : a->b > b->b; /* ids */
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

int model__report_tensors(const struct model *m, size_t top, struct report *r)
{
	const struct tensor *t, **sorted = calloc(m->tensors.cnt + 1, sizeof(t));
	size_t pos = 0;
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	while ((t = tensors__next(&m->tensors, &pos))) {
		struct report_named *n = &r->named[t->kind];

		if (!t->block)
			continue;
		sorted[r->tensors_total++] = t;
		n->cnt++;
		n->bytes += t->block->size;
		if (differs(t->kind, t->block->cat)) {
			n->differ_cnt++;
			n->differ_bytes += t->block->size;
		}
	}
	qsort(sorted, r->tensors_total, sizeof(t), larger);
	top = top < r->tensors_total ? top : r->tensors_total;
	r->tensors = calloc(top ? top : 1, sizeof(*r->tensors));
	err = r->tensors ? 0 : -ENOMEM;
	for (; !err && r->tensors_cnt < top; r->tensors_cnt++)
		err = fill(m, sorted[r->tensors_cnt], &r->tensors[r->tensors_cnt]);
	free(sorted);
	return err;
}
