/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A recording that begins in the middle: what this model knows, as events (model_was.c: a model that reads them), with what
 * the graph knows of a block, so that later blocks made from it get the same labels.
 */
#include "event/packed.h"
#include "model/flow/flow.h"
#include "model/model_blocks.h"
#include "model/model_modules.h"
#include "model/model_tensors.h"
#include "model/state.h"

static void model_was__fill(struct model_was *w, const struct model *m, const struct block *b)
{
	const struct tally_row *region = &m->regions.rows[b->region];

	*w = (struct model_was){ .id = b->id, .cnt = 1, .stack = stackset__of(&m->stacks, b->id),
				    .caught = caught__of(&m->caught, b->id) };
	w->ev[0] = (struct event){
		.ts_ns = b->allocated_ts_ns, .kind = EV_WAS, .pid = b->pid, .tid = b->tid, .dev = (uint8_t)b->dev,
		.addr = b->ptr,
		.size = b->size, .name = m->ops.rows[b->op].name, .aux = event_was_aux(region->name.v, b->from),
		.flags = (uint8_t)((b->late ? EV_WAS_LATE : 0) | (region->is_node ? EV_WAS_NODE : 0)),
	};
	if (b->tracked) {
		w->ev[1] = w->ev[0];
		w->ev[1].kind = EV_WAS_FLOW;
		w->ev[1].flags = 0;
		w->ev[1].name = NAME_NONE;
		w->cnt += graph__memory(m->graph, b->id, &w->ev[1]);
	}
	w->cnt += model__module_memory(m, b, &w->ev[w->cnt]);
	w->cnt += model__tensor_memory(m, b, &w->ev[w->cnt]);
}

uint64_t model__mark(struct model *m)
{
	if (m->was_freed)
		m->marked_id = m->last_id;
	return m->last_id;
}

void model__tell_was_freed(struct model *m, const struct block *b)
{
	struct model_was w;

	model_was__fill(&w, m, b);
	m->was_freed(m->was_freed_ctx, &w);
}

int model__each_was(const struct model *m, uint64_t id_max, int (*fn)(void *ctx, const struct model_was *was), void *ctx)
{
	const struct block *b;
	struct model_was w;
	size_t pos = 0;
	int r = 0;

	while (!r && (b = blocks__next(m->blocks, &pos))) {
		if (b->id > id_max)
			continue;
		model_was__fill(&w, m, b);
		r = fn(ctx, &w);
	}
	return r;
}

/* The modules of its forward and backward, with the innermost frame, which shows whether that is inside of a node. */
static int thread__tell_module(const struct thread *t, const struct model *m, event_fn fn, void *ctx)
{
	struct event ev = { .ts_ns = m->now_ns, .kind = EV_MODULE_AT, .pid = t->pid, .tid = t->tid, .depth = t->depth,
			    .seq = t->depth ? t->frames[t->depth - 1].seq : 0 };
	int r = 0;

	if (t->node_module) {
		ev.addr = m->modules.rows[t->node_module].addr;
		ev.flags = EV_MODULE_BACKWARD;
		r = fn(ctx, &ev);
	}
	if (!r && (t->module || t->no_grad)) {
		ev.addr = m->modules.rows[t->module].addr;
		ev.flags = t->no_grad ? MT_MODULE_NO_GRAD : 0;
		r = fn(ctx, &ev);
	}
	return r;
}

/* Regions and nodes in the order of their entries: the innermost is whichever came last. */
static int thread__tell(const struct thread *t, const struct model *m, event_fn fn, void *ctx)
{
	uint8_t region = 0, frame = 0;
	int r = 0;

	while (!r && (region < t->regions_cnt || frame < t->depth)) {
		const struct frame *f = frame < t->depth ? &t->frames[frame] : NULL;
		struct event ev = { .ts_ns = m->now_ns, .pid = t->pid, .tid = t->tid };
		bool is_frame = false;

		if (region < t->regions_cnt && (!f || f->kind != MT_EV_NODE || t->regions[region].entry < f->node_entry)) {
			ev.kind = MT_EV_REGION_BEGIN;
			ev.name = m->regions.rows[t->regions[region].row].name;
			ev.depth = frame;
			ev.aux = region++;
		} else {
			ev.kind = f->reported ? f->reported : f->kind ? f->kind : MT_EV_OP;
			ev.name = (f->kind == MT_EV_NODE ? &m->regions : &m->ops)->rows[f->kind ? f->row : 0].name;
			ev.seq = f->seq;
			ev.flags = frame && f[-1].unsure ? 0 : EV_FRAME_OPEN;
			ev.depth = frame++;
			is_frame = m->graph != NULL;
		}
		r = is_frame ? graph__each_of_frame(m->graph, t, ev.depth, ev, fn, ctx) : fn(ctx, &ev);
	}
	if (!r && t->stack) {
		struct event ev = { .ts_ns = m->now_ns, .kind = EV_STACK_AT, .pid = t->pid, .tid = t->tid, .addr = t->stack_ptr,
				    .size = t->stack };

		r = fn(ctx, &ev);
	}
	return r ? r : thread__tell_module(t, m, fn, ctx);
}

int model__each_module(const struct model *m, event_fn fn, void *ctx)
{
	int r = 0;

	for (uint32_t i = 1; i < m->modules.cnt && !r; i++) {
		const struct module_row *row = &m->modules.rows[i];
		struct event ev = { .ts_ns = m->now_ns, .kind = EV_MODULE, .pid = row->pid, .addr = row->addr,
				    .size = m->modules.rows[row->parent].addr, .name = row->path, .tid = row->root.v,
				    .seq = row->class.v };

		if (row->reported)
			r = fn(ctx, &ev);
	}
	return r;
}

int model__each_stack(const struct model *m, event_fn fn, void *ctx)
{
	int r = 0;

	for (uint32_t i = 0; i < m->stacks.defs_cnt && !r; i++) {
		const struct stack_def *d = &m->stacks.defs[i];
		struct event ev = { .ts_ns = m->now_ns, .kind = EV_STACK, .seq = i + 1, .size = d->parent, .name = d->function,
				    .addr = d->file.v, .aux = d->line, .flags = d->kind };

		r = fn(ctx, &ev);
	}
	return r;
}

int model__each_open(const struct model *m, event_fn fn, void *ctx)
{
	const struct thread *t;
	uint32_t pos = 0;
	int r = 0;

	while (!r && (t = threads__next(m->threads, &pos)))
		r = thread__tell(t, m, fn, ctx);
	return r;
}
