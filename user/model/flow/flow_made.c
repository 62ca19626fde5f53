/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What is known of a block from the file of generated code: the graph that allocated it, and whether that returns it (enum
 * ev_place). Inductor's kernels get tensors past all operators, so data flow has holes there, which the file fills:
 *
 *	forward: a returned block is output or saved for backward, an activation; all others are temporary;
 *	backward: a returned block is a gradient on its way, and a gradient by AccumulateGrad or Python; others are temporary;
 *	inference: a returned block is an activation, and a gradient if an optimizer reads it (compiled autograd);
 *	so is one that operators in it make (a convolution's backward, which inductor leaves to ATen) and an optimizer reads.
 *
 * Among torch.profiler's categories it counts where data flow has none. The extended classes use it for all that is not
 * parameter, gradient or state, and the rules build on it: a block made from an activation is one, and not a parameter for want
 * of a better category, as half of what a compiled forward keeps is for torch.profiler.
 *
 * In a process that runs such code it also identifies other blocks: one that was there, filled and unused, when a generated
 * forward (or an inference, where nothing is trained) began, is its input; one that operators in it left (a convolution's
 * result, which only kernels are given) is an activation.
 */
#include <stdlib.h>

#include "model/flow/flow_state.h"

static void fblock__set_made(struct fblock *f, uint8_t made, name_id place)
{
	uint8_t graph = made & EV_PLACE_GRAPH;

	f->made |= made & EV_PLACE_ALL;
	f->place = f->made == (EV_PLACE_INFERENCE | EV_PLACE_OUTPUT) ? place.v : 0;
	if (!f->marks)
		return;
	if (graph == EV_PLACE_FORWARD || graph == EV_PLACE_BACKWARD) /* there is one because a parameter asks for a gradient */
		f->flags |= FB_FLOWS;
	if (graph)
		f->flags &= ~(uint32_t)FB_WEAK;
}

/* --- processes that run it ------------------------------------------------------------------------------ */

/* Operators filled it, nothing that depends on a parameter was used with it, and it is still unused: a batch. */
static bool is_given(const struct fblock *f)
{
	return f->blk && f->flags & FB_TOUCHED && !(f->flags & (FB_STRONG | FB_FLOWS | FB_TEMP)) && !f->spans[0].bwd &&
	       !f->made;
}

/* Where nothing is trained an inference is one, too; else it may be compiled autograd's backward. */
static bool is_forward(const struct fproc *p, uint8_t made)
{
	uint8_t graph = made & EV_PLACE_GRAPH;

	return graph == EV_PLACE_FORWARD || (graph == EV_PLACE_INFERENCE && !p->trains && !p->regions_ended);
}

/* A generated forward runs: looks at live blocks allocated since the last one. */
static void fproc__given(struct graph *g, struct fproc *p)
{
	for (; p->given_at < p->allocated.cnt; p->given_at++) {
		struct fblock *f = graph__find(g, p->allocated.v[p->given_at]);

		if (!f || !is_given(f))
			continue;
		f->made |= MADE_GIVEN;
		fblock__refresh(g, f);
	}
}

/* Written in backward for the rule below, and no gradient yet: no backward node made it. */
static bool is_passed_on(const struct fblock *f)
{
	return f->flags & FB_BWD_WRITTEN && !(f->flags & (FB_GRAD | FB_STRONG)) && !f->spans[0].bwd;
}

/* Bits 1 << enum ev_place: graphs that made what the node was given. */
static unsigned graphs_of(const struct graph *g, const struct fnode *n, const struct edge *e)
{
	unsigned graphs = 0;

	for (uint32_t i = 0; i < n->edges_cnt; i++) {
		const struct fblock *f = e[i].flags & EDGE_ALLOC ? NULL : graph__find(g, e[i].id);

		if (f)
			graphs |= 1u << (is_passed_on(f) ? EV_PLACE_INFERENCE : f->made & EV_PLACE_GRAPH);
	}
	return graphs;
}

/*
 * A block that operators in a forward leave goes to kernels alone, and no operator is given it: a convolution's result. One
 * left in an inference may be compiled autograd's, and so may those made from it, from convolution to convolution: for an
 * optimizer they count as written in backward.
 */
void fproc__made_node(struct graph *g, const struct fproc *p, const struct fnode *n, const struct edge *e)
{
	unsigned graphs = p->has_graphs && !n->bwd && !n->in_region ? graphs_of(g, n, e) : 0;
	uint32_t written = graphs & 1u << EV_PLACE_INFERENCE ? FB_BWD_WRITTEN : 0;

	for (uint32_t i = 0; graphs >> 1 && i < n->edges_cnt; i++) {
		struct fblock *f = (e[i].flags & (EDGE_ALLOC | EDGE_DEL)) == EDGE_ALLOC ? graph__find(g, e[i].id) : NULL;

		if (!f)
			continue;
		f->flags |= written;
		if (f->made || !(graphs & 1u << EV_PLACE_FORWARD))
			continue;
		f->made |= MADE_LEFT;
		fblock__refresh(g, f);
	}
}

/*
 * No operator was given it, forward left it and backward frees it: the state of a random generator; where calls are boxed, the
 * result of a part's product without a bias.
 */
void fblock__made_freed(const struct graph *g, struct fblock *f, const struct fthread *t)
{
	if ((t->proc->has_graphs || fproc__computes_on_parts(g, t->proc)) && !f->made &&
	    !(f->flags & (FB_TOUCHED | FB_LATE | FB_TEMP)) && !f->spans[0].bwd && !f->py_kind &&
	    fthread__in_backward(t, t->th->depth))
		f->made |= MADE_LEFT;
}

/* Its step is over, it lives, and no operator was given it. cuBLAS's workspaces: one a thread and stream, for good. */
void fblock__made_kept(struct fblock *f)
{
	if (f->blk->op && f->blk->dev >= MT_DEV_CUDA0 && !(f->made & EV_PLACE_ALL) && !(f->flags & FB_LATE) && !f->py_kind)
		f->made = MADE_KEPT;
}

/* --- allocations ----------------------------------------------------------------------------------------------- */

void graph__made(struct graph *g, struct fproc *p, struct fblock *f, uint8_t made, name_id place)
{
	p->has_graphs |= (made & EV_PLACE_GRAPH) && !(made & EV_PLACE_UNREPORTED);
	if ((made & EV_PLACE_GRAPH) == EV_PLACE_FORWARD)
		g->counts.has_compiled = 1;
	if (is_forward(p, made))
		fproc__given(g, p);
	if (!(made & EV_PLACE_UNREPORTED)) {
		fblock__set_made(f, made, place);
		return;
	}
	if (!g->unplaced)
		g->unplaced = calloc(UNPLACED_MAX, sizeof(*g->unplaced));
	if (g->unplaced)
		g->unplaced[g->unplaced_cnt++ % UNPLACED_MAX] = (struct unplaced){ f->id, place };
}

void graph__placed(struct graph *g, name_id place, uint8_t made)
{
	uint32_t cnt = g->unplaced_cnt < UNPLACED_MAX ? g->unplaced_cnt : UNPLACED_MAX;

	for (uint32_t i = 0; g->unplaced && i < cnt; i++) {
		struct fblock *f = g->unplaced[i].place.v == place.v ? graph__find(g, g->unplaced[i].id) : NULL;

		if (g->unplaced[i].place.v == place.v)
			g->unplaced[i] = (struct unplaced){ 0 };
		if (!f)
			continue;
		fblock__set_made(f, made, place);
		fblock__refresh(g, f);
	}
}
