/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Tensors that have no memory of their own (DTensor), and their parts, which have. Until Python was read a part is not known to
 * be a parameter, so nothing flows, and forward makes inputs. So from the first AccumulateGrad that is given such a tensor
 * nodes are kept for longer than two steps, until Python's word has come: then they are labelled again.
 *
 * Their gradients: no AccumulateGrad names them, as the engine is done with the parts by then; and the optimizer's arithmetic
 * on the parts is not probed. Python's word names those that a look finds. Others are found when an optimizer's step begins:
 * a live block that backward made, of the size of a parameter in such a tensor that has no gradient yet.
 *
 * Size alone could be wrong where the job keeps another block of that size until the step. So of each size no more blocks
 * become gradients than parameters lack one. If there are more blocks, only those count that were allocated where one that
 * Python named as such a gradient was allocated (struct fblock.habit): by the same operator in the same node.
 */
#include "model/flow/flow_state.h"

#define WRAPPED_MAX 65536

static void wrapped__put(struct map *m, uint64_t key) /* all there is room for */
{
	struct wrapped_key {
		uint64_t key;
	};

	if (!m->size)
		*m = MAP_OF(struct wrapped_key);
	if (m->cnt < WRAPPED_MAX || map__find(m, key))
		(void)map__put(m, key);
}

/* --- Python's word ------------------------------------------------------------------------------------------------- */

static void fblock__of_parts(struct fblock *f)
{
	f->made |= MADE_OF_PARTS;
	f->flags |= FB_FLOWS;
}

/* Blocks that existed when Python's first word on a part came. */
static void fproc__bare_made(struct graph *g, const struct fproc *p, const struct ids *ids, uint32_t first)
{
	for (uint32_t i = first; i < ids->cnt && fproc__computes_on_parts(g, p); i++) {
		struct fblock *f = graph__find(g, ids->v[i]);

		if (!f || !f->bare)
			continue;
		fblock__of_parts(f);
		fblock__refresh(g, f);
	}
}

/* Once. FSDP puts whole parameters together before forward, in regions of its own (flow_classes.c). */
void fproc__wrapped_seen(struct fproc *p)
{
	if (p->has_waited || p->has_fsdp)
		return;
	p->has_waited = true;
	p->waits_until = p->steps + STEPS_WAITED;
}

void fproc__wrapped_named(struct graph *g, struct fproc *p, const struct fblock *f)
{
	if (!f->py_inner || (f->py_kind != EV_TENSOR_PARAMETER && f->py_kind != EV_TENSOR_GRADIENT))
		return;
	if (f->py_kind == EV_TENSOR_PARAMETER && !p->has_parts) {
		p->has_parts = true;
		fproc__bare_made(g, p, &p->allocated, 0);
		fproc__bare_made(g, p, &p->dead, p->dead_at);
	}
	if (f->py_rests)
		return;
	if (f->py_kind == EV_TENSOR_PARAMETER)
		p->named_ns = *g->env.now_ns;
	wrapped__put(&p->wrapped, f->id);
	if (f->py_kind == EV_TENSOR_GRADIENT && f->habit)
		wrapped__put(&p->grad_places, f->habit);
}

/* --- what AccumulateGrad takes --------------------------------------------------------------------------------------- */

/* AccumulateGrad that neither detached nor added: the block that it made and left is the gradient. */
void fthread__acc_made(struct graph *g, struct fthread *t)
{
	for (uint32_t i = 0; i < t->edges.cnt; i++) {
		struct fblock *f = graph__find(g, t->edges.e[i].id);

		if ((t->edges.e[i].flags & EDGE_ALLOC) && f && f->blk && (f->flags & FB_TOUCHED))
			graph__set_grad(g, f);
	}
}

/* This is the operator that AccumulateGrad runs first. */
bool fthread__is_first_of_acc(const struct fthread *t, const struct frame *fr)
{
	return fr->reported == MT_EV_OP && t->acc >= 0 && t->acc_first && t->th->frames[t->acc].reported == MT_EV_ACC &&
	       t->acc + 1 == t->th->depth - 1;
}

/* The gradient is the argument of AccumulateGrad's first operator: whole, or its indices and its values. */
void fthread__acc_takes(struct graph *g, struct fthread *t, struct fblock *f, const struct frame *fr, uint8_t index)
{
	if (fr->class == OPC_SPARSE && index == 0)
		graph__set_indices(g, t->proc, f);
	else if ((fr->class == OPC_SPARSE && index == 1) || (fr->class == OPC_DETACH_ADD && t->acc_taken && !index))
		graph__set_grad(g, f);
	else
		return;
	if (index || fr->class == OPC_DETACH_ADD)
		t->acc = -1;
}

/* --- gradients ------------------------------------------------------------------------------------------------------ */

struct as_large {
	uint64_t size;
	int64_t lack; /* parameters without a gradient that is known */
	uint64_t found;
};

static bool is_param(const struct fblock *f)
{
	return f->py_inner && !f->py_rests && f->py_kind == EV_TENSOR_PARAMETER;
}

/* Of each size, how many parameters lack one. Removes entries that are no parameter or gradient any more, until named again. */
static bool count_params(struct graph *g, struct fproc *p, struct map *sizes)
{
	for (uint32_t i = 0; i < p->wrapped.cnt;) {
		const struct fblock *f = graph__find(g, map__key(&p->wrapped, i));
		struct as_large *s;

		if (!f || !f->blk || !(is_param(f) || f->py_kind == EV_TENSOR_GRADIENT || (f->flags & FB_GRAD))) {
			map__remove(&p->wrapped, map__at(&p->wrapped, i));
			continue;
		}
		s = map__put(sizes, f->size);
		if (!s)
			return false;
		s->lack += is_param(f) ? 1 : -1;
		i++;
	}
	return true;
}

static struct as_large *looks_like_one(const struct map *sizes, const struct fblock *f)
{
	if (!f || !f->blk || f->py_kind || !(f->flags & FB_BWD_WRITTEN) || f->flags & (FB_STRONG | FB_TEMP) ||
	    f->marks & FM_FSDP)
		return NULL;
	return map__find(sizes, f->size);
}

void graph__wrapped_grads(struct graph *g, struct fproc *p)
{
	struct map sizes = MAP_OF(struct as_large);
	struct as_large *s;

	if (p->wrapped.cnt && count_params(g, p, &sizes)) {
		for (uint32_t i = 0; i < p->allocated.cnt; i++)
			if ((s = looks_like_one(&sizes, graph__find(g, p->allocated.v[i]))))
				s->found++;
		for (uint32_t i = 0; i < p->allocated.cnt; i++) {
			struct fblock *f = graph__find(g, p->allocated.v[i]);

			s = looks_like_one(&sizes, f);
			if (!s || s->lack <= 0)
				continue;
			if ((int64_t)s->found > s->lack && (!f->habit || !map__find(&p->grad_places, f->habit)))
				continue;
			s->lack--;
			s->found--;
			wrapped__put(&p->wrapped, f->id); /* it has its gradient, as long as that lives */
			f->flags |= FB_TOUCHED;
			graph__set_grad(g, f);
		}
	}
	map__done(&sizes);
}

/*
 * Calls on parts (fproc__computes_on_parts) of which no piece is given a tensor with memory, as a product without a bias, are
 * no nodes; only their allocations are seen, and the module's forward (once Python's modules are known).
 */
void fthread__bare(const struct graph *g, const struct fthread *t, struct fblock *f)
{
	const struct thread *th = t->th;

	f->bare = (th->module || !th->proc->has_module) && t->region < 0 && !t->fsdp_cnt && th->depth &&
		  th->frames[th->depth - 1].reported == MT_EV_OP && !fthread__in_backward(t, th->depth);
	if (f->bare && fproc__computes_on_parts(g, t->proc))
		fblock__of_parts(f);
}
