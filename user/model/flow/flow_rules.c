/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The rules: torch.profiler's categories (torch/profiler/_memory_profiler.py, 2.13) as far as data flow
 * decides them, one pass, a node at a time, when it is closed. What that profiler reads from Python
 * objects follows here from frames: AccumulateGrad names parameters and gradients, blocks that an
 * optimizer's region makes or writes and leaves live are its state, an argument named weight is a
 * (frozen) parameter.
 *
 * "Flows" = depends on a parameter or gradient. A block that does not flow is an input once a node uses
 * it together with one that does; the blocks it was made from are inputs then, too. Nodes of the last
 * two steps are kept: when parameters were found in a step, its nodes are labelled again, from the
 * first one, at its end. "Flows" only ever grows, so nothing of it has to be undone.
 *
 * What it cannot know: parameters before their first backward pass or weight argument; frozen ones
 * that are never such an argument; blocks used only by calls past at::_ops (they stay unknown).
 * Optimizer arithmetic is PARAMETER and ACTIVATION as in torch.profiler, though it is temporary.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/flow/flow_state.h"

#define BIT(cat) (1u << (cat))
#define ROOTS (BIT(CAT_INPUT) | BIT(CAT_ACTIVATION))
#define FORWARD (ROOTS | BIT(CAT_PARAMETER) | BIT(CAT_TEMPORARY))
#define SOURCES_DEEP 64

/* Without optimizer state: that is found last and does not affect the other labels. */
static uint8_t label_of(struct fblock *f, uint32_t ver)
{
	uint8_t cat;

	if (f->flags & (FB_PARAM | FB_WEAK))
		return CAT_PARAMETER;
	if (f->flags & FB_GRAD)
		return CAT_GRADIENT;
	if (f->flags & FB_TEMP)
		return CAT_TEMPORARY;
	cat = fblock__span(f, ver)->cat;
	return cat ? cat : fblock__made_rule(f);
}

/* A node's properties, before any decision. */
struct sum {
	bool flows_in; /* an input flows */
	bool flows;    /* an input or output does */
	bool grads;    /* an input or output is a gradient */
};

static struct sum node__sum(struct graph *g, const struct fnode *n, const struct edge *e)
{
	struct sum s = { 0 };

	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		const struct fblock *f = graph__find(g, e[i].id);

		if (!f)
			continue;
		if (!(e[i].flags & EDGE_ALLOC))
			s.flows_in |= (f->flags & (FB_STRONG | FB_FLOWS)) != 0;
		s.flows |= (f->flags & (FB_STRONG | FB_FLOWS)) != 0;
		s.grads |= (f->flags & (FB_GRAD | FB_PARAM)) == FB_GRAD;
	}
	return s;
}

/* --- inputs ------------------------------------------------------------------------------------------- */

static void fblock__drop_sources(struct fblock *f)
{
	free(f->sources);
	f->sources = NULL;
	f->sources_cnt = 0;
}

/* This version and those before are inputs, and so are the blocks they were made from. */
static void graph__label_input(struct graph *g, struct fblock *f, uint32_t ver, int deep)
{
	bool changed = false;

	for (unsigned i = 0; i < f->spans_cnt && f->spans[i].ver <= ver; i++) {
		struct label_span *s = &f->spans[i];

		/* an activation that does not flow is an input's copy, which is an input if it is used */
		if (s->bwd || (s->cat && s->cat != CAT_ACTIVATION))
			continue;
		changed = true;
		s->cat = CAT_INPUT;
	}
	if (!changed)
		return;
	fblock__refresh(g, f);
	for (unsigned i = 0; i < f->sources_cnt && deep < SOURCES_DEEP; i++) {
		struct fblock *from = graph__find(g, f->sources[i].id);

		if (from && from != f && !(from->flags & (FB_STRONG | FB_FLOWS)))
			graph__label_input(g, from, f->sources[i].ver, deep + 1);
	}
	fblock__drop_sources(f);
}

static void fblock__add_source(struct fblock *f, const struct edge *e)
{
	if (f->id == e->id || f->sources_cnt == SOURCES_MAX)
		return;
	for (unsigned i = 0; i < f->sources_cnt; i++) {
		if (f->sources[i].id == e->id) {
			f->sources[i].ver = e->ver;
			return;
		}
	}
	if (!f->sources)
		f->sources = malloc(SOURCES_MAX * sizeof(*f->sources));
	if (f->sources)
		f->sources[f->sources_cnt++] = (struct tensor_source){ e->id, e->ver };
}

static bool is_out(const struct edge *e)
{
	return (e->flags & EDGE_BUMPED) || (e->flags & (EDGE_ALLOC | EDGE_DEL)) == EDGE_ALLOC;
}

/* Nothing in it flows: records the blocks that its outputs were made from. */
static void node__add_sources(struct graph *g, const struct fnode *n, const struct edge *e)
{
	uint32_t ins[SOURCES_MAX], cnt = 0;

	for (uint32_t i = 0; i < n->edges_cnt && cnt < SOURCES_MAX; i++)
		if (!(e[i].flags & EDGE_ALLOC))
			ins[cnt++] = i;
	for (uint32_t i = 0; cnt && i < n->edges_cnt; i++) {
		struct fblock *f = is_out(&e[i]) ? graph__find(g, e[i].id) : NULL;

		for (uint32_t k = 0; f && k < cnt; k++)
			fblock__add_source(f, &e[ins[k]]);
	}
}

static void node__inputs(struct graph *g, const struct fnode *n, const struct edge *e, struct sum s)
{
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct fblock *f = graph__find(g, e[i].id);

		if (!f)
			continue;
		if (s.flows_in && !(f->flags & FB_FLOWS) && (is_out(&e[i]) || (f->flags & FB_STRONG))) {
			f->flags |= FB_FLOWS;
			fblock__refresh(g, f);
		}
		if (s.flows && !(e[i].flags & EDGE_ALLOC) && !(f->flags & (FB_STRONG | FB_FLOWS)))
			graph__label_input(g, f, e[i].ver, 0);
	}
	if (!s.flows && !n->bwd)
		node__add_sources(g, n, e);
}

/* --- the other rules, in torch.profiler's order --------------------------------------------------------- */

/* Categories of its inputs as a set; none = bit 0. */
static uint32_t node__ins(struct graph *g, const struct fnode *n, const struct edge *e, bool guess)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct fblock *f = e[i].flags & EDGE_ALLOC ? NULL : graph__find(g, e[i].id);

		if (f && guess && !(f->flags & (FB_STRONG | FB_FLOWS)))
			set |= BIT(CAT_INPUT);
		else if (f)
			set |= BIT(label_of(f, e[i].ver));
	}
	return set;
}

/*
 * A block that flows and has no other label is a parameter for torch.profiler if a gradient is made from it. Without
 * gradients it is memory to be filled with results (a cache of keys and values): empty it was an input.
 */
static void node__weak_params(struct graph *g, const struct fproc *p, const struct fnode *n, const struct edge *e)
{
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct fblock *f = e[i].flags & EDGE_ALLOC ? NULL : graph__find(g, e[i].id);

		if (!f || !(f->flags & FB_FLOWS) || label_of(f, e[i].ver))
			continue;
		if (p->trains || n->in_region)
			f->flags |= FB_WEAK;
		else if (e[i].flags & EDGE_BUMPED)
			fblock__span(f, e[i].ver)->cat = CAT_INPUT;
		fblock__refresh(g, f);
	}
}

static uint64_t fproc__end_ns(const struct fproc *p, uint32_t steps) /* when that many were over */
{
	return steps ? p->ends_ns[steps % STEPS_LOOKED_BACK] : 0;
}

/* Allocated in the step of that node. */
static bool is_fresh(const struct fproc *p, const struct fblock *f, const struct fnode *n)
{
	return !(f->flags & (FB_STRONG | FB_LATE)) && f->spans[0].ts_ns >= fproc__end_ns(p, n->step);
}

static bool node__is_of_parts(const struct graph *g, const struct fproc *p, const struct fnode *n, struct sum s)
{
	return fproc__computes_on_parts(g, p) && s.flows_in && !s.grads && !n->in_region && n->kind == MT_EV_OP;
}

static void node__forward(struct graph *g, const struct fproc *p, const struct fnode *n, const struct edge *e, struct sum s)
{
	uint32_t set = node__ins(g, n, e, false);
	bool active, of_parts = node__is_of_parts(g, p, n, s);

	if (!(set & ROOTS) && !of_parts)
		return;
	if (!s.grads && !of_parts) {
		node__weak_params(g, p, n, e);
		set = node__ins(g, n, e, false);
	}
	active = of_parts || ((set & ROOTS) && !(set & ~FORWARD));
	for (uint32_t i = 0; active && i < n->edges_cnt; i++) {
		struct fblock *f = is_out(&e[i]) ? graph__find(g, e[i].id) : NULL;
		struct label_span *sp = f ? fblock__span(f, e[i].ver + !!(e[i].flags & EDGE_BUMPED)) : NULL;

		if (sp && !sp->cat && !(f->flags & FB_STATE) && (!of_parts || is_fresh(p, f, n))) {
			if (fproc__computes_on_parts(g, p)) /* its users may be such calls, too */
				f->flags |= FB_TOUCHED;
			sp->cat = CAT_ACTIVATION;
			fblock__refresh(g, f);
		}
	}
}

static void node__backward(struct graph *g, const struct fnode *n, const struct edge *e)
{
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct fblock *f = is_out(&e[i]) ? graph__find(g, e[i].id) : NULL;
		bool bumped = e[i].flags & EDGE_BUMPED;
		uint8_t was;
		struct label_span *s;

		if (!f)
			continue;
		was = bumped ? label_of(f, e[i].ver) : CAT_UNKNOWN;
		s = fblock__span(f, e[i].ver + bumped);
		if (!s->cat && (was == CAT_UNKNOWN || was == CAT_AUTOGRAD_DETAIL)) {
			s->cat = CAT_AUTOGRAD_DETAIL;
			fblock__refresh(g, f);
		}
	}
}

static bool node__writes_as_large(struct graph *g, const struct fnode *n, const struct edge *e, uint64_t size)
{
	const struct fblock *f;

	for (uint32_t i = 0; i < n->edges_cnt; i++)
		if (e[i].flags & EDGE_BUMPED && (f = graph__find(g, e[i].id)) && f->size == size)
			return true;
	return false;
}

/*
 * Buckets of DistributedDataParallel: written in backward, read by an optimizer. So are blocks that a compiled autograd
 * returned. And gradients of a step whose backward was not seen, as probes were set during it: an optimizer did not make them,
 * and reads them to write a block of the same size, a parameter or its state.
 */
static void node__read_gradients(struct graph *g, const struct fnode *n, const struct edge *e)
{
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct fblock *f = e[i].flags & (EDGE_ALLOC | EDGE_BUMPED) ? NULL : graph__find(g, e[i].id);

		if (!f || f->flags & (FB_STRONG | FB_TEMP))
			continue;
		if (!(f->flags & FB_BWD_WRITTEN) && f->made != (EV_PLACE_INFERENCE | EV_PLACE_OUTPUT) &&
		    !(f->flags & FB_UNSEEN && node__writes_as_large(g, n, e, f->size)))
			continue;
		if (f->place)
			g->env.is_backward(g->env.ctx, (name_id){ f->place });
		graph__set_grad(g, f);
	}
}

/* Undecided versions that flow show no guess: no rule will ever label them. */
static void node__outs(struct graph *g, const struct fnode *n, const struct edge *e)
{
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct fblock *f = is_out(&e[i]) ? graph__find(g, e[i].id) : NULL;
		struct label_span *s;

		if (!f)
			continue;
		if (n->under_eval)
			f->flags |= FB_BWD_WRITTEN;
		s = fblock__span(f, e[i].ver + !!(e[i].flags & EDGE_BUMPED));
		if (s->cat || s->guess == CAT_OPTIMIZER_STATE)
			continue;
		s->guess = (f->flags & FB_FLOWS) || n->bwd ? CAT_UNKNOWN : CAT_INPUT;
		fblock__refresh(g, f);
	}
}

void graph__label(struct graph *g, struct fproc *p, const struct fnode *n, const struct edge *e)
{
	struct sum s;

	if (n->in_region && !n->under_eval && n->kind == MT_EV_OP)
		node__read_gradients(g, n, e);
	s = node__sum(g, n, e);
	node__inputs(g, n, e, s);
	if (n->bwd)
		node__backward(g, n, e);
	else
		node__forward(g, p, n, e, s);
	if (g->env.classes == CLASSES_EXTENDED)
		fproc__class_node(g, p, n, e);
	else if (p->blind && !n->under_eval)
		fproc__state_by_hand(g, p, n, e);
	node__outs(g, n, e);
}

uint8_t graph__guess(struct graph *g, const struct fnode *n, const struct edge *e)
{
	struct sum s;
	uint32_t set;

	if (n->bwd)
		return CAT_AUTOGRAD_DETAIL;
	s = node__sum(g, n, e);
	if (!s.flows)
		return CAT_INPUT;
	set = node__ins(g, n, e, true);
	return (set & ROOTS) && !(set & ~FORWARD) ? CAT_ACTIVATION : CAT_UNKNOWN;
}

/* --- labels of whole blocks ------------------------------------------------------------------------------ */

/* Being written in an optimizer is weaker evidence than AccumulateGrad. */
static void fblock__unstate(struct fblock *f)
{
	if (f->flags & FB_STATE_MUT)
		f->flags &= ~(uint32_t)(FB_STATE | FB_STATE_MUT);
}

void graph__set_param(struct graph *g, struct fproc *p, struct fblock *f)
{
	if (f->flags & FB_PARAM)
		return;
	fblock__unstate(f);
	f->flags |= FB_PARAM | FB_FLOWS;
	p->news = true;
	fblock__refresh(g, f);
}

void graph__set_grad(struct graph *g, struct fblock *f)
{
	if (f->flags & FB_GRAD)
		return;
	fblock__unstate(f);
	f->flags |= FB_GRAD | FB_FLOWS;
	fblock__refresh(g, f);
}

bool fproc__has_as_input(const struct fproc *p, const struct fblock *f)
{
	return !(f->flags & FB_STRONG) && f->spans[0].cat == CAT_INPUT &&
	       (f->flags & FB_LATE || f->spans[0].ts_ns < fproc__end_ns(p, p->steps - !!p->steps));
}

/* No other label depends on it: they are the batch, too. */
void graph__set_indices(struct graph *g, const struct fproc *p, struct fblock *f)
{
	if (f->indices || f->flags & (FB_STRONG | FB_LATE) || fproc__has_as_input(p, f))
		return;
	f->indices = true;
	fblock__refresh(g, f);
}

static void graph__set_state(struct graph *g, struct fthread *t, struct fblock *f, bool by_write)
{
	/* a closure's gradients are allocated in the region, too */
	if (!f->blk || (f->flags & FB_GRAD) || (by_write && (f->flags & FB_PARAM)))
		return;
	if (by_write && !(f->flags & FB_STATE))
		f->flags |= FB_STATE_MUT;
	/* it looked like one while gradients were not known; node__forward relies on it that state is none */
	for (unsigned i = 0; by_write && !(f->flags & FB_STATE) && i < f->spans_cnt; i++)
		if (BIT(f->spans[i].cat) & ROOTS)
			f->spans[i].cat = CAT_UNKNOWN;
	f->state_cnt += f->state_cnt < 2;
	f->region = t->proc->regions_ended;
	f->flags |= FB_STATE | FB_FLOWS;
	fblock__refresh(g, f);
}

/* A tensor has another block now, which takes over the old one's label. */
void graph__take_over(struct graph *g, uint64_t from, uint64_t to)
{
	const struct fblock *a = graph__find(g, from);
	struct fblock *b = graph__find(g, to);

	if (!a || !b || a == b)
		return;
	g->counts.moved++;
	if ((a->flags & FB_PARAM) && !(b->flags & FB_PARAM)) {
		fblock__unstate(b); /* not counted as news: its earlier label follows from the old block's uses */
		b->flags |= FB_PARAM | FB_FLOWS;
		fblock__refresh(g, b);
	}
	if ((a->flags & (FB_GRAD | FB_PARAM)) == FB_GRAD)
		graph__set_grad(g, b);
	if ((a->flags & FB_STATE) && !(b->flags & (FB_PARAM | FB_GRAD))) {
		b->state_cnt = a->state_cnt;
		b->region = a->region;
		b->flags |= (a->flags & FB_STATE_MUT) | FB_STATE | FB_FLOWS;
		fblock__refresh(g, b);
	}
	if (a->flags & FB_ACC) {
		b->acc_step = a->acc_step;
		b->acc_forward = a->acc_forward;
		b->flags |= FB_ACC;
	}
}

void graph__end_region(struct graph *g, struct fthread *t)
{
	struct fblock *f;

	t->proc->regions_ended += !t->region_in_backward;
	for (uint32_t i = 0; i < t->region_allocated.cnt; i++)
		if ((f = graph__find(g, t->region_allocated.v[i])))
			graph__set_state(g, t, f, false);
	for (uint32_t i = 0; i < t->region_mut.cnt; i++)
		if ((f = graph__find(g, t->region_mut.v[i])))
			graph__set_state(g, t, f, true);
	t->region_allocated.cnt = t->region_mut.cnt = 0;
	if (g->env.classes == CLASSES_EXTENDED)
		fproc__class_region_end(g, t->proc);
	if (t->region_in_backward)
		t->proc->steps_in_hooks = true; /* the step is over when the backward pass is */
	else
		graph__end_step(g, t->proc);
}

/* --- the window ------------------------------------------------------------------------------------------- */

static void fproc__trim(struct fproc *p)
{
	uint32_t cut = 0, edges;

	while (cut < p->nodes_cnt && p->nodes[cut].step + STEPS_KEPT <= p->steps)
		cut++;
	if (!cut)
		return;
	edges = cut < p->nodes_cnt ? p->nodes[cut].edges_at : p->edges.cnt;
	memmove(p->nodes, p->nodes + cut, (p->nodes_cnt - cut) * sizeof(*p->nodes));
	p->nodes_cnt -= cut;
	if (edges)
		memmove(p->edges.e, p->edges.e + edges, (p->edges.cnt - edges) * sizeof(*p->edges.e));
	p->edges.cnt -= edges;
	for (uint32_t i = 0; i < p->nodes_cnt; i++)
		p->nodes[i].edges_at -= edges;
}

void graph__make_room(struct graph *g, struct fproc *p, uint32_t edges)
{
	if (fproc__waits(g, p) && (p->nodes_cnt == WINDOW_NODES || p->edges.cnt + edges > WINDOW_EDGES)) {
		p->waits_until = 0;
		fproc__trim(p);
		p->cut_ns = fproc__end_ns(p, p->steps);
	}
	if (p->nodes_cnt == WINDOW_NODES || p->edges.cnt + edges > WINDOW_EDGES)
		graph__end_step(g, p); /* a job without steps, or with very long ones */
	if (p->nodes_cnt == WINDOW_NODES || p->edges.cnt + edges > WINDOW_EDGES) {
		p->nodes_cnt = p->edges.cnt = 0;
		p->cut_ns = *g->env.now_ns;
	}
}

void graph__keep(struct fproc *p, const struct fnode *n, const struct edge *e)
{
	struct fnode *kept;

	if (!array_has_room(p->nodes, p->nodes_cnt, p->nodes_cap, 256))
		return;
	kept = &p->nodes[p->nodes_cnt];
	*kept = *n;
	kept->edges_at = p->edges.cnt;
	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		struct edge *to = edges__push(&p->edges, WINDOW_EDGES);

		if (!to) {
			p->edges.cnt = kept->edges_at;
			return;
		}
		*to = e[i];
	}
	p->nodes_cnt++;
}

/*
 * The label it had when seen late: later versions may depend on a parameter (an average of weights is written from them), this
 * one did not.
 */
static bool is_first_input(const struct fblock *f, const struct label_span *s)
{
	return s->ver == 0 && s->cat == CAT_INPUT && (f->flags & (FB_LATE | FB_FLOWS)) == (FB_LATE | FB_FLOWS);
}

/* Removes the labels of versions made in the window. */
static void graph__unlabel(struct graph *g, const struct edge *e, uint64_t since_ns)
{
	struct fblock *f = graph__find(g, e->id);

	if (!f || f->replay == g->replays)
		return;
	f->replay = g->replays;
	f->flags &= ~(uint32_t)FB_WEAK;
	fblock__drop_sources(f);
	for (unsigned i = 0; i < f->spans_cnt; i++)
		if (f->spans[i].ts_ns >= since_ns && !is_first_input(f, &f->spans[i]))
			f->spans[i].cat = CAT_UNKNOWN;
}

static void graph__replay(struct graph *g, struct fproc *p)
{
	/* a node that was open for long may have begun before others that are out of the window by now */
	uint64_t since_ns = p->nodes_cnt && p->nodes[0].ts_ns > p->cut_ns ? p->nodes[0].ts_ns : p->cut_ns;

	p->news = false;
	g->replays++;
	for (uint32_t i = 0; i < p->edges.cnt; i++)
		graph__unlabel(g, &p->edges.e[i], since_ns);
	for (uint32_t i = 0; i < p->nodes_cnt; i++)
		graph__label(g, p, &p->nodes[i], p->edges.e + p->nodes[i].edges_at);
	for (uint32_t i = 0; i < p->edges.cnt; i++) {
		struct fblock *f = graph__find(g, p->edges.e[i].id);

		if (f)
			fblock__refresh(g, f);
	}
}

void graph__apply_news(struct graph *g, struct fproc *p)
{
	if (p->news)
		graph__replay(g, p);
}

static void fblock__end_guesses(struct graph *g, struct fblock *f)
{
	for (unsigned i = 0; i < f->spans_cnt; i++)
		f->spans[i].guess = CAT_UNKNOWN;
	fblock__refresh(g, f);
}

/* Of a process that is left: what would have decided them is not seen any more. If it ended they are settled anyway. */
void graph__end_dead_guesses(struct graph *g, struct fproc *p)
{
	for (uint32_t i = p->dead_at; i < p->dead.cnt; i++) {
		struct fblock *f = graph__find(g, p->dead.v[i]);

		if (f)
			fblock__end_guesses(g, f);
	}
}

void graph__settle(struct graph *g, struct fblock *f, uint32_t pid)
{
	fblock__end_guesses(g, f);
	graph__tell_final(g, f, pid);
	graph__remove(g, f);
}

static void graph__settle_oldest(struct graph *g, struct fproc *p)
{
	struct fblock *f = graph__find(g, p->dead.v[p->dead_at++]);

	if (f)
		graph__settle(g, f, p->pid);
	if (p->dead_at * 2 < p->dead.cnt && p->dead_at < p->dead.cnt)
		return;
	memmove(p->dead.v, p->dead.v + p->dead_at, (p->dead.cnt - p->dead_at) * sizeof(*p->dead.v));
	p->dead.cnt -= p->dead_at;
	p->dead_at = 0;
}

void graph__keep_freed(struct graph *g, struct fproc *p, struct fblock *f)
{
	f->end_step = p->steps;
	f->used_node = g->serial;
	while (p->dead.cnt - p->dead_at >= WINDOW_DEAD) {
		const struct fblock *oldest = graph__find(g, p->dead.v[p->dead_at]);

		if (oldest)
			graph__tell_until(g, p, oldest->used_node);
		graph__settle_oldest(g, p);
	}
	if (!ids__push(&p->dead, f->id, 4 * WINDOW_DEAD))
		graph__settle(g, f, p->pid);
}

/* Serial of the node that has been open for the longest time. */
static uint64_t graph__oldest_open(const struct graph *g, const struct fproc *p)
{
	uint64_t serial = UINT64_MAX;

	for (size_t i = 0; p->open_nodes && i < g->threads_cnt; i++) {
		const struct fthread *t = g->threads[i];

		if (t->proc == p && t->leaf >= 0 && t->node.serial < serial)
			serial = t->node.serial;
	}
	return serial;
}

static bool graph__is_open(const struct graph *g, const struct fproc *p, uint64_t serial)
{
	for (size_t i = 0; i < g->threads_cnt; i++)
		if (g->threads[i]->proc == p && g->threads[i]->leaf >= 0 && g->threads[i]->node.serial == serial)
			return true;
	return false;
}

/* Ends the guesses about the step's blocks, except those whose node is still open, or was after it. */
static void graph__end_guesses(struct graph *g, struct fproc *p, uint64_t last_node)
{
	uint64_t oldest = graph__oldest_open(g, p);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->allocated.cnt; i++) {
		struct fblock *f = graph__find(g, p->allocated.v[i]);

		if (!f || !f->blk)
			continue;
		if (f->allocated_node > last_node || (f->allocated_node >= oldest && graph__is_open(g, p, f->allocated_node))) {
			p->allocated.v[kept++] = f->id;
			continue;
		}
		if (!(f->flags & FB_TOUCHED)) {
			f->flags |= FB_STALE;
			fblock__made_kept(f);
		}
		f->expected = 0;
		fblock__end_guesses(g, f);
	}
	p->allocated.cnt = kept;
	p->given_at = 0;
}

void graph__end_step(struct graph *g, struct fproc *p)
{
	graph__end_step_at(g, p, UINT64_MAX);
}

void graph__end_step_at(struct graph *g, struct fproc *p, uint64_t last_node)
{
	struct proc *of = procs__find(g->env.procs, p->pid);

	p->blind = of && of->has_flow && !of->has_regions;
	p->steps++;
	graph__apply_news(g, p);
	graph__end_guesses(g, p, last_node);
	if (g->env.classes == CLASSES_EXTENDED)
		fproc__class_step(g, p);
	if (!fproc__waits(g, p)) {
		fproc__trim(p);
		p->cut_ns = fproc__end_ns(p, p->steps - 1);
	}
	p->ends_ns[p->steps % STEPS_LOOKED_BACK] = *g->env.now_ns;
	graph__tell_old(g, p);
	while (p->dead.cnt > p->dead_at) {
		const struct fblock *f = graph__find(g, p->dead.v[p->dead_at]);

		if (f && (f->end_step + STEPS_KEPT > p->steps || fproc__waits(g, p)))
			break;
		graph__settle_oldest(g, p);
	}
}
