/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What autograd keeps from forward to backward (docs/saved.md).
 *
 * A backward pass begins with the first backward node after an operator that ran outside of all nodes, and is over with the
 * next such operator: so each forward has its backward, several before an optimizer's step (gradients are accumulated) and two
 * over one graph (gradients of gradients) are several. Kept is a block that was there when the pass began, if an operator in a
 * node was given it (saved tensors go to operators), or if it was freed in a node (autograd frees what a node saved when
 * the node is over; arguments of compiled code and boxed calls are not seen), or if a node that Python defined has reported
 * it as saved. A node's own arguments are gradients.
 * Blocks given to AccumulateGrad and its hooks, or to an optimizer in such a hook, do not count. Parameters, their gradients
 * and state, and buffers are the model's, whether autograd keeps them too or not.
 */
#include <string.h>

#include "model/core/saved.h"
#include "model/model_saved.h"
#include "model/state.h"

bool model__is_the_models(const struct block *b, uint64_t before)
{
	switch (b->cat) {
	case CAT_PARAMETER:
	case CAT_GRADIENT:
	case CAT_OPTIMIZER_STATE:
		return b->named || b->id <= before;
	case CAT_FROZEN:
	case CAT_UNSHARDED:
	case CAT_COMMUNICATION:
		return true;
	default:
		return b->named;
	}
}

const struct block *model__saved_alive(const struct model *m, const struct proc *p, const struct saved_block *k)
{
	const struct block *b = blocks__find(m->blocks, p->pid, k->dev, k->ptr);

	return b && b->id == k->id ? b : NULL;
}

/* Updates live ones with what is known by now. */
static void sort_out(const struct model *m, const struct proc *p, struct saved_pass *pass)
{
	for (uint32_t i = 0; i < pass->blocks.cnt; i++) {
		struct saved_block *k = map__at(&pass->blocks, i);
		const struct block *b = model__saved_alive(m, p, k);

		k->is_other |= b && model__is_the_models(b, pass->before);
	}
}

/* An operator outside of all frames. Threads that only load data may work beside a backward that others run. */
void model__saved_outside(struct model *m, struct thread *t)
{
	struct proc *p = t->proc;

	if (p->has_node && !t->has_trained)
		return;
	p->is_outside = true;
	if (p->saved && p->saved->now) {
		sort_out(m, p, p->saved->now);
		saved__end(p->saved, m->last_id);
	}
}

void model__saved_node(struct model *m, struct thread *t)
{
	struct proc *p = t->proc;

	if (!p->is_outside)
		return;
	p->is_outside = false;
	if (!m->flow_covered || !p->listed)
		return;
	if (!p->saved)
		p->saved = saved__new(&m->saved_bytes);
	if (!p->saved)
		return;
	sort_out(m, p, saved__oldest(p->saved));
	saved__begin(p->saved, m->now_ns, m->last_id, p->fw.live);
}

/* A node of `row` has the block: it would not be kept if a module were computed again that has them both. */
static void has_it(const struct model *m, const struct thread *t, struct saved_block *k, uint32_t row)
{
	k->node = row;
	k->within = modules__around(&m->modules, k->within, t->node_module) & UINT16_MAX;
}

/* The node that is open at the event, as a row of the regions; 0: none that autograd keeps anything for. */
static uint32_t node_at(const struct model *m, const struct thread *t, const struct event *ev)
{
	uint32_t row = t->optimizers || !thread__in_node(t, ev) ? 0 : t->frames[ev->depth - 1].node_row;

	return row && !strstr(names__get(m->names, m->regions.rows[row].name), "AccumulateGrad") ? row : 0;
}

void model__saved_read(struct model *m, struct thread *t, const struct event *ev, const struct block *b)
{
	struct saved *s = t->proc->saved;
	uint32_t node = b->id <= s->now->until && !dev_is_host((uint8_t)b->dev) ? node_at(m, t, ev) : 0;
	struct saved_block *k;

	if (!node)
		return;
	k = saved__find(s, b->id);
	if (!k) {
		k = saved__add(s, b);
		if (!k)
			return;
		k->is_other = ev->kind == EV_ARG && t->frames[ev->depth - 1].reported != MT_EV_OP; /* a node's own argument */
	}
	has_it(m, t, k, node);
}

void model__saved_by_node(struct model *m, const struct event *ev, const struct block *b)
{
	struct thread *t = b ? model__thread(m, ev) : NULL;

	if (t && t->proc->saved && t->proc->saved->now)
		model__saved_read(m, t, ev, b);
}

void model__saved_freed(struct model *m, struct thread *t, const struct event *ev, const struct block *b)
{
	struct saved *s = t ? t->proc->saved : NULL;
	struct saved_block *k;
	uint32_t node;

	if (!s || b->id > s->now->until || dev_is_host((uint8_t)b->dev))
		return;
	node = node_at(m, t, ev);
	k = saved__find(s, b->id);
	if (!k && (!node || model__is_the_models(b, s->now->before)))
		return;
	if (!k)
		k = saved__add(s, b);
	if (!k) {
		s->now->rest_bytes += b->size;
		s->now->rest_cnt++;
		return;
	}
	k->is_other |= model__is_the_models(b, s->now->before);
	if (node)
		has_it(m, t, k, node);
}
