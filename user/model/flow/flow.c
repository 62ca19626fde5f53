/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Frames into nodes. A thread's open node is that of its topmost frame that can be one; frames under it
 * add their tensors to it. Frames have no end events: the node is over when the thread's next event
 * names a frame stack in which it is not (depth and seq, memtrace/event.h).
 *
 * An operator one of whose required tensors has no storage (sparse, undefined, quantized) matches no
 * schema for torch.profiler: it is transparent, and what it calls become the nodes.
 *
 * Versions are counted when the first event after a writing frame's own arrives, so that a frame found
 * to be transparent has written nothing. Writes inferred from a backward node's inputs (an input of a
 * node that no operator in it was given counts as written) are known when it is closed.
 */
#include "model/flow/flow.h"

#include <stdlib.h>
#include "event/packed.h"
#include "model/flow/flow_state.h"

#define NODE_EDGES_MAX 65536

struct graph *graph__new(const struct flow_env *env)
{
	struct graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->env = *env;
	g->procs = calloc(FLOW_PROCS_MAX, sizeof(*g->procs));
	if (!g->procs) {
		graph__free(g);
		return NULL;
	}
	return g;
}

void graph__free(struct graph *g)
{
	if (!g)
		return;
	for (uint64_t i = 0; g->slots && i <= g->mask; i++) {
		struct fblock *f;

		if (!g->slots[i])
			continue;
		f = &g->chunks[(g->slots[i] - 1) >> 10][(g->slots[i] - 1) & 1023];
		free(f->spans == &f->one ? NULL : f->spans);
		free(f->sources);
	}
	for (uint32_t i = 0; i < g->chunks_cnt; i++)
		free(g->chunks[i]);
	for (size_t i = 0; i < g->threads_cnt; i++)
		fthread__free(g->threads[i]);
	for (size_t i = 0; i < g->procs_cnt; i++)
		fproc__free(g->procs[i]);
	free(g->threads);
	free(g->procs);
	free(g->chunks);
	free(g->slots);
	free(g->classes);
	free(g->tl_edges);
	free(g->unplaced);
	free(g);
}

/* --- the open node ------------------------------------------------------------------------------------ */

static void fthread__open(struct graph *g, struct fthread *t, int at, const struct event *ev)
{
	t->leaf = at;
	t->leaf_seq = ev->seq;
	t->dirty = false;
	t->guess = -1;
	t->edges.cnt = 0;
	t->node = (struct fnode){
		.serial = ++g->serial, .ts_ns = *g->env.now_ns, .kind = ev->kind, .bwd = ev->kind != MT_EV_OP,
		.under_eval = fthread__in_backward(t, at) || ev->kind != MT_EV_OP, .in_region = t->region >= 0,
		.in_hook = ev->kind == MT_EV_ACC || (ev->kind == MT_EV_OP && fthread__in_hook(t)),
	};
	if (++t->proc->open_nodes > 1)
		t->proc->overlap = t->node.serial;
	if (g->env.nodes)
		t->reported = (struct out_node){
			.serial = t->node.serial, .ts_ns = t->node.ts_ns, .op = ev->name, .tid = ev->tid,
			.region = graph__region_of(g, t, ev), .depth = (uint8_t)at,
		};
}

static void fthread__abandon(struct fthread *t)
{
	t->leaf = -1;
	t->guess = -1;
	t->edges.cnt = 0;
	t->proc->open_nodes--;
}

/* By the optimizer, or outside of backward: also when an optimizer in a hook is inside of the hook's node. */
static bool fthread__writes_forward(const struct fthread *t)
{
	return !t->node.under_eval || (t->region >= 0 && t->leaf < t->region_depth);
}

static void fthread__bump(struct graph *g, struct fthread *t, struct edge *e, struct fblock *f)
{
	if (e->ver != f->ver) { /* another thread's node wrote it meanwhile */
		g->counts.output_twice++;
		e->ver = f->ver;
	}
	e->flags |= EDGE_BUMPED;
	g->counts.versions++;
	fblock__bump(g, f, t->node.ts_ns, t->node.bwd);
	if ((f->flags & FB_ACC) && (t->node.in_hook || fthread__writes_forward(t))) {
		graph__set_param(g, t->proc, f); /* a leaf that only asks for its gradient is not written */
		fproc__class_updated(t->proc, f);
		if (t->node.in_hook && t->region < 0)
			t->proc->steps_in_hooks = t->proc->hooks_update = true;
	}
	if (t->region >= 0 && fthread__writes_forward(t))
		ids__push(&t->region_mut, f->id, REGION_BLOCKS);
}

static void fthread__write(struct graph *g, struct fthread *t)
{
	t->dirty = false;
	for (uint32_t i = 0; i < t->edges.cnt; i++) {
		struct edge *e = &t->edges.e[i];
		struct fblock *f;

		if (!(e->flags & EDGE_TRUE) || (e->flags & (EDGE_ALLOC | EDGE_BUMPED)))
			continue;
		f = graph__find(g, e->id);
		if (f)
			fthread__bump(g, t, e, f);
	}
}

/* An input has been written by another thread's node since. */
static void fthread__count_stale(struct graph *g, const struct fthread *t)
{
	for (uint32_t i = 0; i < t->edges.cnt; i++) {
		const struct edge *e = &t->edges.e[i];
		const struct fblock *f = e->flags & (EDGE_ALLOC | EDGE_BUMPED) ? NULL : graph__find(g, e->id);

		g->counts.input_stale += f && f->ver != e->ver;
	}
}

static void fthread__close(struct graph *g, struct fthread *t)
{
	if (t->dirty)
		fthread__write(g, t);
	for (uint32_t i = 0; i < t->edges.cnt; i++) {
		struct edge *e = &t->edges.e[i];
		struct fblock *f;

		if (!(e->flags & EDGE_NONE) || (e->flags & (EDGE_FALSE | EDGE_ALLOC | EDGE_BUMPED)))
			continue;
		f = graph__find(g, e->id);
		if (f)
			fthread__bump(g, t, e, f);
	}
	if (t->node.kind == MT_EV_ACC && t->acc_first && !t->acc_taken)
		fthread__acc_made(g, t);
	if (t->node.serial <= t->proc->overlap)
		fthread__count_stale(g, t);
	t->node.edges_cnt = t->edges.cnt;
	t->leaf = -1;
	t->guess = -1;
	t->proc->open_nodes--;
	if (!t->edges.cnt)
		return;
	g->counts.nodes++;
	g->counts.edges += t->edges.cnt;
	graph__make_room(g, t->proc, t->edges.cnt);
	t->node.step = t->proc->steps;
	graph__label(g, t->proc, &t->node, t->edges.e);
	fproc__made_node(g, t->proc, &t->node, t->edges.e);
	graph__queue(g, t->proc, &t->reported, t->edges.e, t->edges.cnt);
	graph__keep(t->proc, &t->node, t->edges.e);
	t->edges.cnt = 0;
}

static bool fthread__is_open(const struct fthread *t, int frame, uint32_t seq, int depth)
{
	return frame >= 0 && frame < depth && t->th->frames[frame].seq == seq;
}

/* The thread's first `depth` frames are still open, as far as they are the same ones. */
static void fthread__leave(struct graph *g, struct fthread *t, int depth)
{
	if (t->leaf >= 0 && !fthread__is_open(t, t->leaf, t->leaf_seq, depth))
		fthread__close(g, t);
	if (!fthread__is_open(t, t->acc, t->acc_seq, depth))
		t->acc = -1;
	if (t->dirty)
		fthread__write(g, t);
}

/* The thread that had this place before has nothing open any more. */
static struct fthread *graph__take_place(struct graph *g, struct thread *th, struct fthread *before)
{
	if (before && before->leaf >= 0)
		fthread__close(g, before);
	if (before)
		graph__drop_thread(g, before);
	return graph__add_thread(g, th);
}

/* The graph's part of a thread. NULL: no memory. */
static inline struct fthread *graph__thread(struct graph *g, struct thread *th)
{
	struct fthread *t = graph__thread_at(g, th);

	return t && t->tid == th->tid && t->pid == th->pid ? t : graph__take_place(g, th, t);
}

/* The edge of a block in the open node, added if need be. NULL: too many, or no memory (counted). */
static struct edge *fthread__edge(struct graph *g, struct fthread *t, struct fblock *f)
{
	struct edge *e;

	if (f->mark_node == t->node.serial)
		return &t->edges.e[f->mark_edge];
	for (uint32_t i = 0; t->node.serial <= t->proc->overlap && i < t->edges.cnt; i++)
		if (t->edges.e[i].id == f->id)
			return &t->edges.e[i];
	e = edges__push(&t->edges, NODE_EDGES_MAX);
	if (!e) {
		g->env.lost[MT_LOSS_ARGS]++;
		return NULL;
	}
	*e = (struct edge){ .id = f->id, .ver = f->ver };
	f->mark_node = t->node.serial;
	f->mark_edge = t->edges.cnt - 1;
	t->guess = -1;
	return e;
}

void graph__frame(struct graph *g, struct thread *th, const struct event *ev)
{
	struct fthread *t = graph__thread(g, th);
	bool is_python = ev->kind == MT_EV_NODE && (ev->flags & MT_NODE_PYTHON); /* with any type's name */
	uint8_t op = is_python ? OPC_PY_NODE : graph__class(g, ev->name);
	int at = ev->depth;
	struct fproc *p;

	if (!t)
		return;
	fthread__leave(g, t, at);
	if (at >= MT_FRAMES_MAX)
		return;
	p = t->proc;
	th->frames[at].class = op;
	if (ev->kind == MT_EV_ACC) {
		t->acc = at;
		t->acc_seq = ev->seq;
		t->acc_first = t->acc_taken = false;
	} else if (ev->kind == MT_EV_OP && t->acc >= 0 && at > t->acc && !t->acc_first) {
		t->acc_first = true;
		t->acc_taken = op == OPC_DETACH_ADD;
	}
	if (t->leaf >= 0)
		return;
	if (ev->kind == MT_EV_OP && t->region < 0 && !fthread__in_backward(t, at)) {
		p->forwards += !p->forward;
		p->forward = true;
		p->forward_node = g->serial + 1; /* opened below */
	}
	if (ev->kind == MT_EV_OP || ev->kind == MT_EV_APPLY || ev->kind == MT_EV_ACC ||
	    (ev->kind == MT_EV_NODE && op == OPC_PY_NODE))
		fthread__open(g, t, at, ev);
}

/* --- arguments ---------------------------------------------------------------------------------------- */

/* Used as a weight where nothing is trained: a parameter if it is there to stay. */
static void graph__weight(struct graph *g, struct fthread *t, struct fblock *f)
{
	struct fproc *p = t->proc;
	uint64_t node = t->leaf >= 0 ? t->node.serial : g->serial;
	bool again;

	if (t->region >= 0 || (f->flags & FB_STRONG) || fthread__in_backward(t, t->th->depth))
		return;
	again = (f->flags & FB_USED) && (p->steps ? f->used_step != p->steps : f->used_node != node);
	f->flags |= FB_USED;
	f->used_step = p->steps;
	f->used_node = node;
	if (again || (f->flags & FB_LATE)) {
		graph__set_param(g, p, f);
		fproc__class_weight(p, f);
	}
}

/*
 * In a process without an optimizer's regions between its backward passes: does another pass begin? A pass reaches a variable
 * once, or again for what one of its own nodes ran: so it does if operators outside of all nodes ran since.
 */
static void fproc__next_backward(struct graph *g, struct fproc *p, const struct fblock *variable)
{
	bool again = (variable->flags & FB_ACC) && variable->acc_step == p->steps && variable->acc_forward != p->forwards;

	if (!p->regions_ended && (again || (p->forward && p->steps_in_hooks)))
		graph__end_step_at(g, p, p->forward_node);
	p->forward = false;
}

static void graph__variable(struct graph *g, struct fthread *t, struct fblock *f)
{
	fproc__next_backward(g, t->proc, f);
	if ((f->flags & FB_LATE) || ((f->flags & FB_ACC) && f->acc_step != t->proc->steps))
		graph__set_param(g, t->proc, f);
	f->flags |= FB_ACC;
	t->variable = f->id;
	fproc__class_variable(g, t->proc, f);
	f->acc_step = t->proc->steps;
	f->acc_forward = t->proc->forwards;
}

/* Tensors that get another block: the new one takes over the old one's label. */
static void fthread__identity(struct graph *g, struct fthread *t, const struct event *ev, const struct fblock *f,
			      uint8_t index, uint8_t op)
{
	if (!index && (event_arg_flags(ev) & MT_FLOW_F_WRITTEN))
		t->own = (struct own){ .seq = ev->seq, .self = f->id };
	if (op != OPC_TAKEOVER)
		return;
	if (!index) {
		t->taken_from = f->id;
		t->taken_seq = ev->seq;
	} else if (t->taken_seq == ev->seq) {
		graph__take_over(g, t->taken_from, f->id);
	}
}

static void fthread__own_allocated(struct graph *g, struct fthread *t, const struct event *ev, uint64_t id)
{
	if (!ev->seq || t->own.seq != ev->seq || t->own.allocated)
		return;
	t->own.allocated = id;
	if (t->own.died)
		graph__take_over(g, t->own.self, id);
}

static void fthread__own_freed(struct graph *g, struct fthread *t, const struct event *ev, uint64_t id)
{
	if (!ev->seq || t->own.seq != ev->seq || t->own.self != id)
		return;
	t->own.died = true;
	if (t->own.allocated)
		graph__take_over(g, id, t->own.allocated);
}

static void fthread__arg(struct graph *g, struct fthread *t, const struct event *ev, struct fblock *f)
{
	const struct frame *fr = &t->th->frames[t->th->depth - 1];
	uint8_t index = event_arg_index(ev), flags = event_arg_flags(ev);
	bool written = flags & MT_FLOW_F_WRITTEN, is_read;
	struct edge *e;

	if (fr->reported == MT_EV_ACC && index == 0) {
		graph__variable(g, t, f);
		return;
	}
	if (fr->reported == MT_EV_ACC && index == 1) {
		graph__set_grad(g, f);
		fthread__class_grad(g, t, f);
		return;
	}
	if (fr->reported == MT_EV_OP && g->env.classes == CLASSES_EXTENDED)
		fthread__class_arg(g, t, ev, f);
	if (fr->reported == MT_EV_OP && (flags & MT_FLOW_F_WEIGHT))
		graph__weight(g, t, f);
	if (t->leaf < 0)
		return;
	e = fthread__edge(g, t, f);
	if (!e)
		return;
	is_read = fr->reported == MT_EV_OP || fr->class == OPC_VIEW_NODE || index == EV_ARG_INSIDE;
	e->flags |= written ? EDGE_TRUE : is_read ? EDGE_FALSE : EDGE_NONE;
	if (fr->reported == MT_EV_OP && index < 2)
		fthread__identity(g, t, ev, f, index, fr->class);
	t->dirty |= written;
	if (fthread__is_first_of_acc(t, fr))
		fthread__acc_takes(g, t, f, fr, index);
}

bool graph__takes(struct graph *g, struct thread *th, const struct event *ev)
{
	struct fthread *t = graph__thread(g, th);
	uint8_t flags = event_arg_flags(ev);

	if (!t)
		return false;
	if (ev->addr && ev->size && !(flags & MT_FLOW_F_NO_STORAGE))
		return true;
	g->counts.by_class[ev->flags < MT_CLASS_MAX ? ev->flags : MT_CLASS_UNKNOWN]++;
	if (th->depth && th->frames[th->depth - 1].reported == MT_EV_ACC && !event_arg_index(ev))
		fproc__wrapped_seen(t->proc);
	if (ev->flags == MT_CLASS_SPARSE && th->depth && fthread__is_first_of_acc(t, &th->frames[th->depth - 1]))
		t->acc_taken = false; /* indices and values are made anew where sparse gradients are added up */
	/* after its frame and before anything else: nothing of it was used yet */
	if ((flags & MT_FLOW_F_REQUIRED) && !graph__class_is_node(g, ev) && t->leaf >= 0 && t->leaf == th->depth - 1 &&
	    th->frames[t->leaf].reported == MT_EV_OP && th->frames[t->leaf].seq == ev->seq)
		fthread__abandon(t);
	return false;
}

void graph__arg(struct graph *g, struct thread *th, const struct event *ev, struct block *b)
{
	bool is_unseen = b && !b->tracked && !b->late && b->phase != PHASE_OPTIMIZER;
	struct fblock *f = !b ? NULL : b->tracked ? graph__find(g, b->id) : graph__add(g, b);
	struct fthread *t = f ? graph__thread(g, th) : NULL;

	if (!t)
		return;
	f->flags |= is_unseen ? FB_UNSEEN : 0;
	if (!(f->flags & FB_TOUCHED)) {
		f->flags |= FB_TOUCHED;
		if (f->expected == CAT_UNKNOWN + 1)
			f->expected = 0; /* not this time */
		fblock__refresh(g, f);
	}
	if (th->depth && th->frames[th->depth - 1].seq == ev->seq && ev->depth == th->depth)
		fthread__arg(g, t, ev, f);
}

/* --- blocks and regions -------------------------------------------------------------------------------- */

void graph__allocated(struct graph *g, struct block *b, struct thread *th, const struct event *ev, uint8_t made)
{
	struct fthread *t = graph__thread(g, th);
	struct fblock *f;
	struct edge *e;

	if (!t)
		return;
	fthread__leave(g, t, ev->depth);
	f = graph__add(g, b);
	if (!f)
		return;
	if (f->marks)
		fthread__class_allocated(t, f);
	ids__push(&t->proc->allocated, f->id, WINDOW_EDGES);
	if (t->region >= 0)
		ids__push(&t->region_allocated, f->id, REGION_BLOCKS);
	f->record_comes = true;
	f->one.guess = CAT_INPUT;
	graph__made(g, t->proc, f, made, ev->name);
	if (t->leaf >= 0) {
		t->node.edges_cnt = t->edges.cnt;
		if (t->guess < 0)
			t->guess = graph__guess(g, &t->node, t->edges.e);
		f->one.guess = (uint8_t)t->guess;
		f->one.bwd = t->node.bwd;
		f->allocated_node = t->node.serial;
		e = fthread__edge(g, t, f);
		if (e)
			e->flags |= EDGE_ALLOC;
		graph__expect(g, f, t->edges.cnt);
		if (t->guess < 0)
			t->guess = f->one.guess;
		fthread__own_allocated(g, t, ev, f->id);
	} else {
		fthread__bare(g, t, f);
		graph__queue_memory(g, t, ev, f, EDGE_ALLOC);
	}
	if (t->region >= 0 && th->depth && th->frames[th->depth - 1].class == OPC_FACTORY)
		f->one.guess = CAT_OPTIMIZER_STATE;
	fblock__refresh(g, f);
	f->record_comes = false;
}

/* `_fused_` operators write gradients, which may have been taken for state. A block used without a gradient is none. */
static bool was_gradient(const struct fblock *f, const struct fproc *p)
{
	return (f->flags & (FB_STATE_MUT | FB_WEAK)) == FB_STATE_MUT && f->state_cnt == 1 && f->region == p->regions_ended;
}

/* Its block has ended; t: the thread that ended it, if it is known. */
static void graph__ended(struct graph *g, const struct fthread *t, struct fblock *f, uint32_t pid)
{
	fblock__end(g, f);
	if (t)
		graph__keep_freed(g, t->proc, f);
	else
		graph__settle(g, f, pid);
}

/* Until fblock__end() b is its block: the copy that is reported. */
static void fblock__goes(struct fblock *f, struct block *b)
{
	f->blk = b;
	f->record_comes = true;
}

void graph__freed(struct graph *g, struct block *b, struct thread *th, const struct event *ev)
{
	struct fblock *f = graph__find(g, b->id);
	struct fthread *t = th ? graph__thread(g, th) : NULL;
	struct edge *e = NULL;

	if (!f)
		return;
	fblock__goes(f, b);
	if (t) {
		fthread__leave(g, t, ev->depth);
		if (t->leaf >= 0)
			e = fthread__edge(g, t, f);
		else
			graph__queue_memory(g, t, ev, f, EDGE_DEL);
		fthread__own_freed(g, t, ev, f->id);
		if (e) {
			e->flags |= EDGE_DEL;
			if ((e->flags & EDGE_ALLOC) && f->allocated_node == t->node.serial) {
				f->flags |= FB_TEMP;
				fblock__refresh(g, f);
			}
		}
		fblock__made_freed(g, f, t);
		if (was_gradient(f, t->proc)) {
			f->flags &= ~(uint32_t)(FB_STATE | FB_STATE_MUT);
			graph__set_grad(g, f);
		}
	}
	graph__ended(g, t, f, b->pid);
}

void graph__unmapped(struct graph *g, struct block *b, struct thread *th, const struct event *ev)
{
	struct fblock *f = graph__find(g, b->id);
	struct fthread *t = th ? graph__thread(g, th) : NULL;

	g->counts.unmapped++;
	if (!f)
		return;
	fblock__goes(f, b);
	if (t)
		graph__queue_memory(g, t, ev, f, EDGE_DEL);
	graph__ended(g, t, f, b->pid);
}

void graph__region(struct graph *g, struct thread *th, const struct event *ev)
{
	struct fthread *t = graph__thread(g, th);
	int idx = ev->aux < MT_REGIONS_MAX ? (int)ev->aux : MT_REGIONS_MAX;

	if (!t)
		return;
	fthread__leave(g, t, ev->depth);
	fthread__class_region(g, t, ev, ev->kind == MT_EV_REGION_BEGIN ? graph__class(g, ev->name) : OPC_OTHER);
	if (t->region >= idx) {
		t->region = -1;
		graph__end_region(g, t);
	}
	if (ev->kind == MT_EV_REGION_BEGIN && t->region < 0 && graph__class(g, ev->name) == OPC_STEP_REGION) {
		t->region_depth = ev->depth < MT_FRAMES_MAX ? ev->depth : MT_FRAMES_MAX;
		t->region_in_backward = fthread__in_backward(t, t->region_depth);
		t->region = idx;
		graph__wrapped_grads(g, t->proc);
	}
}

void graph__step(struct graph *g, uint32_t pid)
{
	struct fproc *p = graph__proc(g, pid);

	if (p && !p->regions_ended)
		graph__end_step(g, p);
}

void graph__close_pid(struct graph *g, uint32_t pid)
{
	for (size_t i = 0; i < g->threads_cnt; i++)
		if (g->threads[i]->pid == pid && g->threads[i]->leaf >= 0)
			fthread__close(g, g->threads[i]);
	for (size_t i = 0; i < g->procs_cnt; i++)
		if (g->procs[i]->pid == pid) {
			graph__apply_news(g, g->procs[i]);
			graph__tell_all(g, g->procs[i]);
		}
}

void graph__cut(struct graph *g, uint32_t pid)
{
	graph__close_pid(g, pid);
	for (size_t i = 0; i < g->procs_cnt; i++) {
		struct fproc *p = g->procs[i];

		if (p->pid != pid)
			continue;
		graph__end_step(g, p);
		p->nodes_cnt = p->edges.cnt = p->waits_until = 0;
		p->cut_ns = *g->env.now_ns;
	}
}

void graph__finish(struct graph *g)
{
	for (size_t i = 0; i < g->procs_cnt; i++) {
		graph__apply_news(g, g->procs[i]);
		graph__end_dead_guesses(g, g->procs[i]);
	}
}

void graph__drop_pid(struct graph *g, uint32_t pid)
{
	for (size_t i = g->threads_cnt; i-- > 0;)
		if (g->threads[i]->pid == pid)
			graph__drop_thread(g, g->threads[i]);
	g->last_proc = NULL;
	for (size_t i = 0; i < g->procs_cnt; i++) {
		struct fproc *p = g->procs[i];

		if (p->pid != pid)
			continue;
		for (uint32_t k = p->dead_at; k < p->dead.cnt; k++) {
			struct fblock *f = graph__find(g, p->dead.v[k]);

			if (f)
				graph__settle(g, f, pid);
		}
		fproc__free(p);
		g->procs[i] = g->procs[--g->procs_cnt];
		return;
	}
}

uint32_t graph__version(const struct graph *g, uint64_t id)
{
	const struct fblock *f = graph__find(g, id);

	return f ? f->ver : 0;
}

void graph__report(const struct graph *g, struct report_flow *ret)
{
	*ret = g->counts;
	ret->replays = g->replays;
}

size_t graph__bytes(const struct graph *g)
{
	size_t sum = sizeof(*g) + g->chunks_cnt * 1024ul * sizeof(struct fblock) +
		     (g->slots ? (g->mask + 1) * sizeof(*g->slots) : 0) + g->classes_cnt +
		     g->tl_edges_cap * sizeof(*g->tl_edges) + (g->unplaced ? UNPLACED_MAX * sizeof(*g->unplaced) : 0);

	for (size_t i = 0; i < g->procs_cnt; i++) {
		const struct fproc *p = g->procs[i];

		sum += sizeof(*p) + p->nodes_cap * sizeof(*p->nodes) + p->edges.cap * sizeof(struct edge) +
		       (p->allocated.cap + p->dead.cap + p->weights.cap) * sizeof(uint64_t) + map__bytes(&p->wrapped) +
		       map__bytes(&p->grad_places) +
		       p->out.cap * sizeof(*p->out.nodes) + p->out.edges.cap * sizeof(struct edge);
	}
	for (size_t i = 0; i < g->threads_cnt; i++)
		sum += sizeof(struct fthread) + g->threads[i]->edges.cap * sizeof(struct edge) +
		       (g->threads[i]->region_allocated.cap + g->threads[i]->region_mut.cap + g->threads[i]->reduced.cap) *
			       sizeof(uint64_t);
	return sum;
}

/* Python's word. A parameter without gradients is frozen, like one that is known by an argument's name. */
void graph__named(struct graph *g, struct block *b, uint8_t kind, uint8_t bits)
{
	bool inner = bits & EV_TENSOR_INNER, rests = bits & EV_TENSOR_RESTS;
	struct fblock *f = b->tracked ? graph__find(g, b->id) : graph__add(g, b);
	struct fproc *p = f ? graph__proc(g, b->pid) : NULL;

	if (!p || (f->py_kind == kind && f->py_inner == inner && f->py_rests == rests))
		return;
	if (kind == EV_TENSOR_GRADIENT && inner && fproc__has_as_input(p, f))
		return; /* a .grad's indices, in a block that the job keeps and reads in each step */
	if (!f->py_kind)
		f->py_step = p->steps;
	f->py_kind = kind;
	f->py_inner = inner;
	f->py_rests = rests;
	p->has_named |= kind == EV_TENSOR_PARAMETER;
	fproc__wrapped_named(g, p, f);
	if (kind == EV_TENSOR_PARAMETER && inner) { /* autograd sees the wrapper, data flow only this */
		graph__set_param(g, p, f);
		g->counts.has_parts = 1;
	}
	if (kind == EV_TENSOR_PARAMETER && (!inner || rests))
		fproc__class_weight(p, f);
	fblock__refresh(g, f);
}
