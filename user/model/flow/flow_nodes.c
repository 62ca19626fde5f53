/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The graph's own reports: its nodes (TL_NODE) and final labels (TL_FINAL), if timeline_nodes is set.
 * Labels come late, so a closed node waits in its process's outbox, in order of closing, until its step
 * has left the window; its blocks wait at least as long. Nodes are reported with labels without guesses.
 * That of a live block may change once more (a parameter found by a later backward pass): its TL_FINAL
 * has the final one, as the report.
 *
 * Memory that comes or goes outside of any node is a node without an operator: torch.profiler's
 * "[memory]" rows. Blocks that no operator was given are no tensors, and no edges.
 *
 * The outbox is apart from the window of flow_rules.c, so that reporting nodes changes no label.
 * Bounds: OUTBOX_NODES and OUTBOX_EDGES; of more the oldest are reported early, with labels as they are,
 * as are the nodes of a freed block that has to leave its window.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/flow/flow_state.h"

/* --- reporting ------------------------------------------------------------------------------------------- */

static struct tl_edge tl_edge_of(const struct edge *e, const struct fblock *f)
{
	struct tl_edge t = { .id = e->id, .version = e->ver, .out_version = e->ver };

	t.flags = (uint8_t)((e->flags & EDGE_ALLOC ? TL_EDGE_ALLOCATED : TL_EDGE_IN) |
			    (e->flags & EDGE_DEL ? TL_EDGE_FREED : 0) |
			    (e->flags & (EDGE_TRUE | EDGE_FALSE | EDGE_NONE) ? TL_EDGE_GIVEN : 0));
	if (e->flags & EDGE_BUMPED) {
		t.flags |= TL_EDGE_WRITTEN;
		t.out_version++;
	}
	if (!f)
		return t;
	t.dev = f->dev->dev;
	t.cat = fblock__settled(f, fblock__span((struct fblock *)f, t.version));
	t.out_cat = fblock__settled(f, fblock__span((struct fblock *)f, t.out_version));
	return t;
}

static bool graph__edge_room(struct graph *g, uint32_t cnt)
{
	struct tl_edge *edges;

	if (cnt <= g->tl_edges_cap)
		return true;
	edges = realloc(g->tl_edges, cnt * sizeof(*edges));
	if (!edges) {
		g->env.lost[MT_LOSS_BLOCKS]++;
		return false;
	}
	g->tl_edges = edges;
	g->tl_edges_cap = cnt;
	return true;
}

static void graph__tell_node(struct graph *g, const struct fproc *p, const struct out_node *n, const struct edge *e)
{
	struct tl_event tl = {
		.kind = TL_NODE, .ts_ns = n->ts_ns, .pid = p->pid, .tid = n->tid, .op = n->op, .region = n->region,
		.depth = n->depth,
	};

	if (!graph__edge_room(g, n->edges_cnt))
		return;
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		const struct fblock *f = graph__find(g, e[i].id);

		if (!f || (f->flags & FB_TOUCHED))
			g->tl_edges[tl.edges_cnt++] = tl_edge_of(&e[i], f);
	}
	tl.edges = g->tl_edges;
	if (tl.edges_cnt)
		g->env.tell(g->env.ctx, &tl);
}

/* The oldest one. */
static void graph__tell_next(struct graph *g, struct fproc *p)
{
	struct outbox *o = &p->out;
	const struct out_node *n = &o->nodes[o->at++];

	graph__tell_node(g, p, n, n->edges_cnt ? o->edges.e + o->edges_at : NULL);
	o->edges_at += n->edges_cnt;
	if (o->at * 2 < o->cnt && o->at < o->cnt)
		return;
	memmove(o->nodes, o->nodes + o->at, (o->cnt - o->at) * sizeof(*o->nodes));
	o->cnt -= o->at;
	o->at = 0;
	if (o->edges_at)
		memmove(o->edges.e, o->edges.e + o->edges_at, (o->edges.cnt - o->edges_at) * sizeof(struct edge));
	o->edges.cnt -= o->edges_at;
	o->edges_at = 0;
}

void graph__tell_old(struct graph *g, struct fproc *p)
{
	while (p->out.at < p->out.cnt && !fproc__waits(g, p) && p->out.nodes[p->out.at].step + STEPS_KEPT <= p->steps)
		graph__tell_next(g, p);
}

void graph__tell_until(struct graph *g, struct fproc *p, uint64_t serial)
{
	while (p->out.at < p->out.cnt && p->out.nodes[p->out.at].serial <= serial)
		graph__tell_next(g, p);
}

void graph__tell_all(struct graph *g, struct fproc *p)
{
	while (p->out.at < p->out.cnt)
		graph__tell_next(g, p);
}

void graph__tell_final(struct graph *g, const struct fblock *f, uint32_t pid)
{
	int last = -1;

	if (!g->env.nodes || (!(f->flags & FB_TOUCHED) && !f->spans[f->spans_cnt - 1].shown))
		return;
	for (unsigned i = 0; i < f->spans_cnt; i++) {
		uint8_t cat = f->spans[i].shown; /* where the report counts it: for blocks live at the end perhaps a guess */

		if (cat == last)
			continue;
		last = cat;
		g->env.tell(g->env.ctx, &(struct tl_event){
			.kind = TL_FINAL, .ts_ns = *g->env.now_ns, .id = f->id, .size = f->size, .pid = pid,
			.version = f->spans[i].ver, .cat = cat, .dev = f->dev->dev });
	}
}

/* --- the outbox ------------------------------------------------------------------------------------------- */

void graph__queue(struct graph *g, struct fproc *p, const struct out_node *n, const struct edge *e, uint32_t cnt)
{
	struct outbox *o = &p->out;

	if (!g->env.nodes || !cnt)
		return;
	while (o->at < o->cnt && (o->cnt == OUTBOX_NODES || o->edges.cnt + cnt > OUTBOX_EDGES))
		graph__tell_next(g, p);
	if (!array_has_room(o->nodes, o->cnt, o->cap, 256)) {
		g->env.lost[MT_LOSS_BLOCKS]++;
		return;
	}
	o->nodes[o->cnt] = *n;
	o->nodes[o->cnt].step = p->steps;
	o->nodes[o->cnt].edges_cnt = 0;
	for (uint32_t i = 0; i < cnt; i++) {
		struct edge *to = edges__push(&o->edges, OUTBOX_EDGES);

		if (!to) {
			g->env.lost[MT_LOSS_BLOCKS]++;
			break;
		}
		*to = e[i];
		o->nodes[o->cnt].edges_cnt++;
	}
	o->cnt++;
}

void graph__queue_memory(struct graph *g, struct fthread *t, const struct event *ev, const struct fblock *f,
			 uint32_t flags)
{
	struct edge e = { .id = f->id, .ver = f->ver, .flags = flags };
	struct out_node n;

	if (!g->env.nodes)
		return;
	n = (struct out_node){
		.serial = g->serial, .ts_ns = *g->env.now_ns, .tid = ev->tid, .depth = ev->depth,
		.region = graph__region_of(g, t, ev),
	};
	graph__queue(g, t->proc, &n, &e, 1);
}

/* Closes open nodes, with what they have made so far. */
static void graph__queue_open(struct graph *g, struct fproc *p)
{
	for (size_t i = 0; i < g->threads_cnt; i++) {
		struct fthread *t = g->threads[i];

		if (t->proc == p && t->leaf >= 0)
			graph__queue(g, p, &t->reported, t->edges.e, t->edges.cnt);
	}
}

void graph__end(struct graph *g)
{
	const struct fblock *f;
	uint32_t num = 0;

	for (size_t i = 0; i < g->procs_cnt; i++) {
		struct fproc *p = g->procs[i];

		graph__queue_open(g, p);
		graph__tell_all(g, p);
		for (uint32_t k = p->dead_at; k < p->dead.cnt; k++)
			if ((f = graph__find(g, p->dead.v[k])))
				graph__tell_final(g, f, p->pid);
	}
	while ((f = graph__each(g, &num)))
		if (f->blk)
			graph__tell_final(g, f, f->blk->pid);
}
