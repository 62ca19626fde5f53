/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Extended classes: where torch.profiler has no category, or a wrong one. They lie over the labels of
 * flow_rules.c, which never depend on them: with CLASSES_COMPAT no mark is ever set.
 *
 * A round is a pass over the data: it is over when a parameter that was updated in it gets a gradient
 * again. Steps are not rounds: a job with two optimizers has two steps a round. Without training (no
 * AccumulateGrad) a step is a round. A tensor that is used in two rounds after the one where it was first
 * seen late is no batch and no activation, unless the job keeps it: then it is a buffer by its use.
 *
 * What it cannot know: whether a tensor that is only read and never named weight is a frozen parameter, a
 * buffer or data that the job keeps (BUFFER for all three); tensors that only calls past at::_ops use:
 * torch.distributed's collectives are such calls, so their memory is found by the region that makes it (FSDP's)
 * or by what DistributedDataParallel does after AccumulateGrad, never by the collective itself.
 *
 * FSDP (fully_shard) has a region for each of its phases; the operators in them show the rest. A block that is read in
 * "FSDP::all_gather" and was not made there is a shard of a parameter, one made there a buffer; a block made in
 * "FSDP::all_gather_copy_out" (or in the hook around it: a world of one copies without a collective) is the unsharded
 * parameter, which lives until its storage is resized to nothing. In "FSDP::post_backward_reduce" a block that an operator
 * reads, or _chunk_cat writes, is on its way to the collective; others made there that outlive the region are the shards'
 * gradients. A transport with threads of its own (gloo) fills a buffer there before it copies: a block that is copied into a
 * buffer of FSDP's outside of its regions is one, too. Gathered blocks are parameters for the rules below, new in every pass:
 * so blocks computed from them get their labels, which they do not with CLASSES_COMPAT.
 */
#include <string.h>

#include "event/packed.h"
#include "model/flow/flow_state.h"

#define ROUNDS_SURE 2
#define STEPS_SURE 8
#define WEIGHTS_MAX (1u << 20)
#define PAGE 4096u

static void fblock__mark(struct graph *g, struct fblock *f, unsigned mark)
{
	if (!f->marks || (f->marks & mark))
		return;
	f->marks |= mark;
	fblock__refresh(g, f);
}

/* --- FSDP --------------------------------------------------------------------------------------------- */

/* The innermost region of FSDP's; OPC_OTHER: none, or an optimizer steps in a hook inside of it. */
static uint8_t fthread__fsdp(const struct fthread *t)
{
	const struct fsdp_region *r = t->fsdp_cnt ? &t->fsdp[t->fsdp_cnt - 1] : NULL;

	return r && t->region < r->idx ? r->class : OPC_OTHER;
}

/* A reduce-scatter has ended. */
static void fthread__reduced(struct graph *g, struct fthread *t)
{
	for (uint32_t i = 0; i < t->reduced.cnt; i++) {
		struct fblock *f = graph__find(g, t->reduced.v[i]);

		if (f && f->blk && !(f->marks & FM_SENT))
			fblock__mark(g, f, FM_REDUCED);
	}
	t->reduced.cnt = 0;
}

static void fthread__fsdp_region(struct graph *g, struct fthread *t, int idx, uint8_t class)
{
	while (t->fsdp_cnt && t->fsdp[t->fsdp_cnt - 1].idx >= idx)
		if (t->fsdp[--t->fsdp_cnt].class == OPC_REDUCE_REGION)
			fthread__reduced(g, t);
	if (class < OPC_UNSHARD_REGION || class > OPC_REDUCE_REGION || t->fsdp_cnt == FSDP_DEPTH)
		return;
	t->proc->has_fsdp = true;
	t->fsdp[t->fsdp_cnt++] = (struct fsdp_region){ (uint8_t)idx, class };
}

static void fthread__fsdp_allocated(struct fthread *t, struct fblock *f)
{
	uint8_t class = fthread__fsdp(t);

	if (class == OPC_UNSHARD_REGION) {
		f->marks |= FM_UNSHARDED;
		f->flags |= FB_PARAM | FB_FLOWS; /* not counted as news: nothing has used it yet */
	} else if (class != OPC_OTHER)
		f->marks |= FM_GATHERED;
	if (class == OPC_REDUCE_REGION)
		ids__push(&t->reduced, f->id, FSDP_REDUCED_MAX);
}

/* The marks of the operator's other arguments, if it writes this one. */
static uint16_t fsdp_into(const struct fblock *f, uint8_t class)
{
	if (class == OPC_OTHER) /* a transport's own thread */
		return f->marks & FM_GATHERED && !(f->marks & (FM_UNSHARDED | FM_REDUCED)) ? FM_GATHERED : 0;
	return class == OPC_UNSHARD_REGION && f->marks & FM_UNSHARDED ? FM_SHARD : 0;
}

static void fthread__fsdp_arg(struct graph *g, struct fthread *t, const struct event *ev, struct fblock *f, bool written)
{
	uint8_t class = fthread__fsdp(t);

	if (written && f->marks & FM_FSDP && t->region < 0) {
		t->into_seq = ev->seq;
		t->into = fsdp_into(f, class);
	} else if (!written && t->into && t->into_seq == ev->seq && !(f->marks & FM_FSDP) && !(f->flags & KNOWN_BY_ROLE)) {
		fblock__mark(g, f, t->into);
	}
	if (class == OPC_GATHER_REGION && !written && !(f->marks & FM_FSDP))
		fblock__mark(g, f, FM_SHARD);
	if (class == OPC_REDUCE_REGION && (!written || t->th->frames[t->th->depth - 1].class == OPC_CHUNK_CAT))
		fblock__mark(g, f, FM_SENT);
}

void fthread__class_region(struct graph *g, struct fthread *t, const struct event *ev, uint8_t class)
{
	int idx = ev->aux < MT_REGIONS_MAX ? (int)ev->aux : MT_REGIONS_MAX;

	if (t->loader >= idx)
		t->loader = -1;
	fthread__fsdp_region(g, t, idx, ev->kind == MT_EV_REGION_BEGIN ? class : OPC_OTHER);
	if (ev->kind != MT_EV_REGION_BEGIN)
		return;
	if (t->loader < 0 && (class == OPC_LOADER_REGION || class == OPC_WORKERS_REGION))
		t->loader = idx;
	t->proc->has_workers |= class == OPC_WORKERS_REGION;
	t->proc->has_ddp |= class == OPC_DDP_REGION;
}

/* --- rounds ------------------------------------------------------------------------------------------- */

static uint32_t fproc__round(const struct fproc *p)
{
	return p->trains ? p->rounds : p->steps;
}

static void fproc__see(const struct fproc *p, struct fblock *f)
{
	if (f->marks & FM_SEEN)
		return;
	f->marks |= FM_SEEN;
	f->round_first = f->used.last = f->written.last = f->stepped_by_hand.last = fproc__round(p);
}

/* Once a round, and not in the first. True: often enough. */
static bool rounds__count(struct rounds *r, uint32_t now)
{
	if (r->last != now && r->cnt < ROUNDS_SURE) {
		r->last = now;
		r->cnt++;
	}
	return r->cnt == ROUNDS_SURE;
}

/* Asks for a gradient in two rounds, but has no name where parameters have names: it is not trained. */
static bool is_received(const struct fproc *p, const struct fblock *f)
{
	return p->has_named && !f->py_kind && !f->round_stepped && p->rounds >= f->round_first + ROUNDS_SURE;
}

void fproc__class_variable(struct graph *g, struct fproc *p, struct fblock *f)
{
	if (!p->trains) {
		p->trains = true; /* counted in steps until now: earlier rounds are not comparable */
		p->rounds = p->steps;
	}
	if (f->round_stepped == p->rounds + 1)
		p->rounds++;
	if (f->marks) {
		fproc__see(p, f);
		f->marks |= is_received(p, f) ? FM_RECEIVED : 0u;
	}
	fblock__refresh(g, f);
}

void fproc__class_updated(struct fproc *p, struct fblock *f)
{
	f->round_stepped = p->rounds + 1;
	p->has_updated = true;
}

/* --- allocations and uses ---------------------------------------------------------------------------------- */

void fthread__class_allocated(struct fthread *t, struct fblock *f)
{
	fproc__see(t->proc, f);
	if (t->loader >= 0)
		f->marks |= FM_LOADER;
	fthread__fsdp_allocated(t, f);
	if (t->region >= 0 && !fthread__in_backward(t, t->th->depth))
		f->marks |= FM_IN_STEP;
}

/* A product with a sparse matrix is one: its result depends on its other arguments. */
bool graph__class_is_node(const struct graph *g, const struct event *ev)
{
	return g->env.classes == CLASSES_EXTENDED && ev->flags == MT_CLASS_SPARSE;
}

/* Blocks that forward made and keeps for backward, also those made from parameters alone. */
static void fblock__saved(struct graph *g, struct fblock *f)
{
	if (f->flags & (FB_SAVED | FB_LATE) || f->spans[0].bwd)
		return;
	f->flags |= FB_SAVED;
	fblock__refresh(g, f);
}

/* Storages in shared memory are separate mappings, not an allocator's. */
static bool is_shared(const struct fproc *p, const struct fblock *f, uint8_t flags)
{
	return p->has_workers && (flags & MT_FLOW_F_FOREIGN) && (f->flags & FB_LATE) && f->blk && !(f->blk->ptr % PAGE);
}

void fthread__class_arg(struct graph *g, struct fthread *t, const struct event *ev, struct fblock *f)
{
	struct fproc *p = t->proc;
	uint32_t now = fproc__round(p);
	uint8_t flags = event_arg_flags(ev);
	bool written = flags & MT_FLOW_F_WRITTEN;

	fproc__see(p, f);
	fthread__fsdp_arg(g, t, ev, f, written);
	if (flags & MT_FLOW_F_RUNNING)
		fblock__mark(g, f, FM_RUNNING);
	if (is_shared(p, f, flags))
		fblock__mark(g, f, FM_LOADER);
	if (t->region >= 0)
		return;
	if (fthread__in_backward(t, t->th->depth)) {
		if (!written)
			fblock__saved(g, f);
		if (written && p->has_ddp && now != f->round_first && fthread__in_hook(t))
			fblock__mark(g, f, FM_BUCKET);
		return;
	}
	if (t->loader >= 0)
		return;
	if (rounds__count(&f->used, now))
		fblock__mark(g, f, FM_READ);
	if (written && rounds__count(&f->written, now))
		fblock__mark(g, f, FM_WRITTEN);
}

/* The .grad of a second variable in one block: views of a bucket. */
void fthread__class_grad(struct graph *g, struct fthread *t, struct fblock *grad)
{
	if (grad->variable && grad->variable != t->variable && t->proc->has_ddp)
		fblock__mark(g, grad, FM_BUCKET);
	grad->variable = t->variable;
}

/* --- nodes, steps ------------------------------------------------------------------------------------- */

/* The smallest of its inputs that is a gradient, or was made from one; 0: none. */
static uint64_t node__gradient_size(struct graph *g, const struct fnode *n, const struct edge *e)
{
	uint64_t least = 0;

	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		const struct fblock *f = e[i].flags & EDGE_ALLOC ? NULL : graph__find(g, e[i].id);

		if (f && (f->flags & FB_OF_GRAD || (f->flags & (FB_GRAD | FB_PARAM)) == FB_GRAD) && (!least || f->size < least))
			least = f->size;
	}
	return least;
}

static void fblock__stepped_by_hand(struct graph *g, struct fproc *p, struct fblock *f)
{
	if (f->marks)
		fproc__see(p, f);
	if (!rounds__count(&f->stepped_by_hand, fproc__round(p)))
		return;
	fblock__mark(g, f, FM_BY_HAND);
	if (p->blind && !(f->flags & FB_STATE)) {
		f->flags |= FB_STATE | FB_STATE_MUT | FB_FLOWS;
		fblock__refresh(g, f);
	}
}

/*
 * Adam without an Optimizer: gradients go in, and a lasting block is written. Without probes of regions
 * every optimizer is like that, for compat, too. Blocks made from gradients count as gradients, as L2 decay
 * comes first: buf.add_(grad + decay * weight). Not if they are smaller: a norm is kept for other reasons.
 */
void fproc__state_by_hand(struct graph *g, struct fproc *p, const struct fnode *n, const struct edge *e)
{
	uint64_t size = node__gradient_size(g, n, e);

	for (uint32_t i = 0; size && i < n->edges_cnt; i++) {
		struct fblock *f = graph__find(g, e[i].id);

		if (!f || (f->flags & (FB_ACC | FB_GRAD)))
			continue;
		if ((e[i].flags & (EDGE_ALLOC | EDGE_DEL)) == EDGE_ALLOC && f->size >= size)
			f->flags |= FB_OF_GRAD;
		if (e[i].flags & EDGE_BUMPED)
			fblock__stepped_by_hand(g, p, f);
	}
}

/* A closure's loss, which outlives the step, is no state. */
static bool is_state(const struct fblock *f)
{
	return f->flags & FB_STATE && (!(f->marks & FM_IN_STEP) || f->marks & FM_ARITH || f->state_cnt > 1);
}

/* An optimizer's arithmetic has a gradient, state or other arithmetic in it, or writes a parameter; a
 * closure's forward pass has not. */
static bool is_arithmetic(struct graph *g, const struct fnode *n, const struct edge *e)
{
	bool arith = false;

	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		const struct fblock *f = e[i].flags & EDGE_ALLOC ? NULL : graph__find(g, e[i].id);

		if (!f)
			continue;
		arith |= (f->flags & FB_GRAD) || is_state(f) || (f->marks & FM_ARITH) ||
			 ((f->flags & FB_PARAM) && (e[i].flags & EDGE_BUMPED));
	}
	return arith;
}

void fproc__class_node(struct graph *g, struct fproc *p, const struct fnode *n, const struct edge *e)
{
	bool arith;

	if (n->under_eval && !(n->in_hook && p->hooks_update))
		return;
	if (!n->in_region) {
		fproc__state_by_hand(g, p, n, e);
		return;
	}
	arith = is_arithmetic(g, n, e);
	for (uint32_t i = 0; arith && i < n->edges_cnt; i++) {
		struct fblock *f = graph__find(g, e[i].id);

		if (f && !(f->flags & FB_PARAM) && (f->marks & FM_IN_STEP || e[i].flags & EDGE_BUMPED))
			fblock__mark(g, f, FM_ARITH);
	}
}

/* State is known at a region's end, and so are blocks made from it. */
void fproc__class_region_end(struct graph *g, struct fproc *p)
{
	for (uint32_t i = 0; i < p->nodes_cnt; i++)
		if (p->nodes[i].in_region && p->nodes[i].step == p->steps)
			fproc__class_node(g, p, &p->nodes[i], p->edges.e + p->nodes[i].edges_at);
}

void fproc__class_weight(struct fproc *p, struct fblock *f)
{
	if (!f->marks)
		return;
	fproc__see(p, f);
	if (!(f->flags & FB_ACC))
		(void)ids__push(&p->weights, f->id, WEIGHTS_MAX);
}

/* Where an optimizer steps parts of tensors, writes of parameters are not seen, and no round ends; steps do. */
static bool is_passed_by(const struct fproc *p, const struct fblock *f)
{
	return f->py_kind == EV_TENSOR_PARAMETER && p->rounds == f->round_first && p->steps >= f->py_step + STEPS_SURE;
}

/* Frozen: in a process that trains, a whole round passed and no gradient came for it. */
void fproc__class_step(struct graph *g, struct fproc *p)
{
	uint32_t kept = 0;

	if (p->trains && !p->has_updated && !p->has_parts)
		p->rounds++; /* a compiled optimizer writes unseen: each of its steps is a round */
	for (uint32_t i = 0; p->trains && i < p->weights.cnt; i++) {
		struct fblock *f = graph__find(g, p->weights.v[i]);

		if (!f || !f->blk || (f->flags & FB_ACC))
			continue;
		if (p->rounds >= f->round_first + ROUNDS_SURE || is_passed_by(p, f))
			fblock__mark(g, f, FM_FROZEN);
		else
			p->weights.v[kept++] = f->id;
	}
	if (p->trains)
		p->weights.cnt = kept;
}
