/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Processes and threads of the graph, and what a thread's open frames say of where it is. */
#include <stdlib.h>
#include <string.h>

#include "model/flow/flow_state.h"

void fthread__free(struct fthread *t)
{
	free(t->edges.e);
	free(t->region_born.v);
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
	free(p->born.v);
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

/* Threads come and go unseen: one that has nothing open gives its place up, oldest first. */
static void graph__drop_idle(struct graph *g)
{
	size_t i = 0;

	while (i < g->threads_cnt && (g->threads[i]->leaf >= 0 || g->threads[i]->region >= 0))
		i++;
	if (i == g->threads_cnt)
		return;
	if (g->last == g->threads[i])
		g->last = NULL;
	fthread__free(g->threads[i]);
	g->threads_cnt--;
	memmove(&g->threads[i], &g->threads[i + 1], (g->threads_cnt - i) * sizeof(g->threads[0]));
}

struct fthread *graph__thread(struct graph *g, const struct event *ev)
{
	struct fthread *t = g->last;
	struct fproc *p;

	if (t && t->tid == ev->tid && t->pid == ev->pid)
		return t;
	for (size_t i = 0; i < g->threads_cnt; i++)
		if (g->threads[i]->tid == ev->tid && g->threads[i]->pid == ev->pid)
			return g->last = g->threads[i];
	p = graph__proc(g, ev->pid);
	if (p && g->threads_cnt == FLOW_THREADS_MAX)
		graph__drop_idle(g);
	t = p && g->threads_cnt < FLOW_THREADS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (!t) {
		g->env.lost[MT_LOSS_THREADS] += p != NULL;
		return NULL;
	}
	t->pid = ev->pid;
	t->tid = ev->tid;
	t->proc = p;
	t->leaf = t->acc = t->region = t->guess = t->loader = -1;
	g->threads[g->threads_cnt++] = t;
	return g->last = t;
}

/* An optimizer that steps in a hook of a backward node is no backward pass: in its region only what it calls is. */
bool fthread__in_backward(const struct fthread *t, int depth)
{
	for (int i = t->region >= 0 ? t->region_depth : 0; i < depth; i++)
		if (t->frames[i].kind == MT_EV_NODE || t->frames[i].kind == MT_EV_APPLY ||
		    t->frames[i].kind == MT_EV_ACC)
			return true;
	return false;
}

bool fthread__in_hook(const struct fthread *t)
{
	bool hook = false;

	for (int i = 0; i < t->depth - 1; i++) {
		if (t->frames[i].kind == MT_EV_ACC)
			return false;
		hook |= t->frames[i].kind == MT_EV_NODE && t->frames[i].op == OPC_ACC_NODE;
	}
	return hook;
}

/* Innermost region or node of a frame that was just entered, or of another event. */
name_id graph__region_of(const struct graph *g, const struct thread *th, const struct event *ev)
{
	bool is_frame = ev->kind != MT_EV_ALLOC && ev->kind != MT_EV_FREE && ev->kind != MT_EV_MUNMAP;

	return th ? g->env.regions->rows[thread__region(th, ev->depth + is_frame, ev->seq)].name : NAME_NONE;
}
