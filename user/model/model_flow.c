/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* When the data-flow graph is created, what it receives, and what it reports. */
#include "model/flow/flow.h"
#include "model/state.h"

static void tell(void *ctx, const struct tl_event *tl)
{
	model__tell(ctx, tl);
}

static void tell_block(void *ctx, uint8_t kind, const struct block *b, uint32_t ver)
{
	model__tell_block(ctx, kind, b, ver, b->tid, 0, 0);
}

/* What the event's thread had open when the first tensor was reported. */
static void model__catch_up(struct model *m, struct thread *t, const struct event *ev)
{
	for (uint8_t i = 0; i < t->regions_cnt; i++)
		graph__region(m->graph, t, &(struct event){
			.kind = MT_EV_REGION_BEGIN, .pid = ev->pid, .tid = ev->tid, .aux = i,
			.name = m->regions.rows[t->regions[i].row].name });
	for (uint8_t i = 0; i < t->depth && i < ev->depth; i++) {
		const struct frame *f = &t->frames[i];
		const struct tally *tally = f->kind == MT_EV_NODE ? &m->regions : &m->ops;

		graph__frame(m->graph, t, &(struct event){
			.kind = f->kind, .pid = ev->pid, .tid = ev->tid, .depth = i, .seq = f->seq,
			.name = tally->rows[f->row].name });
	}
}

static void is_backward(void *ctx, name_id place)
{
	places__is_backward(&((struct model *)ctx)->places, place);
}

static struct graph *model__new_graph(struct model *m)
{
	const struct flow_env env = {
		.names = m->names, .blocks = m->blocks, .devs = m->devs, .dev_idx = m->dev_idx, .modules = &m->modules,
		.procs = &m->procs, .regions = &m->regions, .start_ts_ns = &m->start_ts_ns, .now_ns = &m->now_ns,
		.gaps = &m->gaps, .sampled = &m->steps_made, .lost = m->lost, .classes = m->classes, .nodes = m->timeline_nodes,
		.ctx = m, .tell = tell, .tell_block = tell_block, .is_backward = is_backward,
	};

	return graph__new(&env);
}

/* Passes on names that were reported before. */
static void model__say_names(struct model *m)
{
	const struct tensor *t;
	size_t pos = 0;

	while ((t = tensors__next(&m->tensors, &pos))) {
		const struct block *at = t->block;
		struct block *b = at ? blocks__find(m->blocks, at->pid, (uint8_t)at->dev, at->ptr) : NULL;

		if (b)
			graph__named(m->graph, b, t->kind, t->bits);
	}
}

bool model__has_graph(struct model *m, struct thread *t, const struct event *ev)
{
	if (m->graph)
		return true;
	m->graph = model__new_graph(m);
	if (m->graph) {
		model__say_names(m);
		model__catch_up(m, t, ev);
	}
	return m->graph != NULL;
}

struct graph *model__graph_for(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);

	return t && model__has_graph(m, t, ev) ? m->graph : NULL;
}
