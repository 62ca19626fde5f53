/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Processes and threads of the graph, and what follows from a thread's open frames. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/flow/flow_state.h"

void fthread__free(struct fthread *t)
{
	free(t->edges.e);
	free(t->region_allocated.v);
	free(t->reduced.v);
	free(t->region_mut.v);
	free(t);
}

static void outbox__done(struct outbox *o)
{
	free(o->nodes);
	free(o->edges.e);
}

void fproc__free(struct fproc *p)
{
	free(p->nodes);
	free(p->edges.e);
	free(p->allocated.v);
	map__done(&p->wrapped);
	map__done(&p->grad_places);
	free(p->dead.v);
	outbox__done(&p->out);
	free(p->weights.v);
	free(p);
}

struct fproc *graph__proc(struct graph *g, uint32_t pid)
{
	struct fproc *p = g->last_proc;

	if (p && p->pid == pid)
		return p;
	for (size_t i = 0; i < g->procs_cnt; i++)
		if (g->procs[i]->pid == pid)
			return g->last_proc = g->procs[i];
	p = g->procs_cnt < FLOW_PROCS_MAX ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		g->env.lost[MT_LOSS_THREADS]++;
		return NULL;
	}
	p->pid = pid;
	g->procs[g->procs_cnt++] = p;
	return g->last_proc = p;
}

struct fthread *graph__add_thread(struct graph *g, struct thread *th)
{
	struct fproc *p = graph__proc(g, th->pid);
	struct fthread *t = p && th->num < THREADS_MAX ? calloc(1, sizeof(*t)) : NULL;

	if (!t || !array_has_room(g->threads, g->threads_cnt, g->threads_cap, 64)) {
		g->env.lost[MT_LOSS_THREADS] += p != NULL;
		free(t);
		return NULL;
	}
	t->pid = th->pid;
	t->tid = th->tid;
	t->th = th;
	t->proc = p;
	t->leaf = t->acc = t->region = t->guess = t->loader = -1;
	g->threads[g->threads_cnt++] = t;
	return g->by_num[th->num] = t;
}

void graph__drop_thread(struct graph *g, struct fthread *t)
{
	size_t i = 0;

	while (g->threads[i] != t)
		i++;
	g->threads_cnt--;
	memmove(&g->threads[i], &g->threads[i + 1], (g->threads_cnt - i) * sizeof(g->threads[0]));
	g->by_num[t->th->num] = NULL;
	fthread__free(t);
}

static bool frame__is_backward(const struct frame *f)
{
	return f->reported == MT_EV_NODE || f->reported == MT_EV_APPLY || f->reported == MT_EV_ACC;
}

/* An optimizer that steps in a hook of a backward node is no backward pass: in its region only passes that it calls are. */
bool fthread__in_backward(const struct fthread *t, int depth)
{
	for (int i = t->region >= 0 ? t->region_depth : 0; i < depth; i++)
		if (frame__is_backward(&t->th->frames[i]))
			return true;
	return false;
}

bool fthread__in_hook(const struct fthread *t)
{
	bool hook = false;

	for (int i = 0; i < t->th->depth - 1; i++) {
		if (t->th->frames[i].reported == MT_EV_ACC)
			return false;
		hook |= t->th->frames[i].reported == MT_EV_NODE && t->th->frames[i].class == OPC_ACC_NODE;
	}
	return hook;
}

/* Innermost region or node of a frame that was just entered, or of another event. */
name_id graph__region_of(const struct graph *g, const struct fthread *t, const struct event *ev)
{
	bool is_frame = ev->kind != MT_EV_ALLOC && ev->kind != MT_EV_FREE && ev->kind != MT_EV_MUNMAP;

	return g->env.regions->rows[thread__region(t->th, ev->depth + is_frame, ev->seq)].name;
}
