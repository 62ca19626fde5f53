/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A model that reads what another one knew (model_memory.c): blocks that are live from now on, and no allocations. */
#include "event/packed.h"
#include "model/flow/flow.h"
#include "model/segments/gpu.h"
#include "model/segments/segments.h"
#include "model/model_blocks.h"
#include "model/model_compiles.h"
#include "model/model_learned.h"
#include "model/model_modules.h"
#include "model/model_tensors.h"
#include "model/state.h"

_Static_assert(NAMES_MAX <= EV_REGION_BITS + 1, "aux of EV_WAS");

static void model__was_flow(struct model *m, const struct event *ev)
{
	struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	struct graph *g = b && !dev_is_host((uint8_t)b->dev) ? model__graph_for(m, ev) : NULL;

	if (g)
		graph__was(g, b, ev);
}

/* Live from now on, with its operator and region, and no allocation. */
static void model__carried(struct model *m, struct block *b, struct device *d, struct proc *p, uint32_t stack)
{
	if (stack && !stackset__late(&m->stacks, b->id, stack, d->idx, b->size, d->epoch)) {
		m->lost[MT_LOSS_STACKS]++;
		stack = 0;
	}
	model__counts_late(m, b, d, p);
	d->carried++;
	d->carried_bytes += b->size;
	b->unwatched = !model__sees_growth(m, b->pid, false);
	if (!b->late && !b->unlisted && !b->unwatched)
		growth__allocated(&m->growth, b, stack, &p->clock, m->now_ns);
	if (m->caught.waiting_cnt)
		caught__allocated(&m->caught, b);
	if (m->gpu && !dev_is_host(d->dev))
		segments__allocated(m->gpu->segs, b);
	model__tell_block(m, TL_PREEXISTING, b, 0, b->tid, 0, stack);
}

/* The stack reported just before an EV_WAS; 0: none. */
static uint32_t model__stack_of_was(struct model *m, const struct event *ev)
{
	struct thread *t = m->stacks.defs_cnt ? model__thread(m, ev) : NULL;

	return t ? thread__stack(t, ev->addr) : 0;
}

static void model__was_block(struct model *m, const struct event *ev)
{
	struct device *d = ev->addr ? model__device(m, ev->dev) : NULL;
	struct proc *p = d ? model__proc_of(m, ev) : NULL;
	name_id region = { event_region(ev) };
	/* only at the beginning: a block reported later cannot be older than that */
	uint64_t age_ns = m->now_ns == m->start_ts_ns ? (uint64_t)ev->seq * 1000000 : 0;
	uint32_t stack = p ? model__stack_of_was(m, ev) : 0;
	struct block *b;
	bool live;

	if (!p || !model__plausible(m, d, ev))
		return;
	b = blocks__put(m->blocks, ev->pid, ev->dev, ev->addr, &live);
	if (live || !b) {
		m->lost[live ? MT_LOSS_DECODE : MT_LOSS_BLOCKS]++;
		return;
	}
	b->size = ev->size;
	b->allocated_ts_ns = age_ns < m->now_ns ? m->now_ns - age_ns : 0;
	b->id = ++m->last_id;
	b->tid = ev->tid;
	b->op = tally__ready(&m->ops, d->idx, tally__row(&m->ops, ev->name, false));
	b->region = tally__ready(&m->regions, d->idx, tally__row(&m->regions, region, ev->flags & EV_WAS_NODE));
	b->late = !!(ev->flags & EV_WAS_LATE) && !dev_is_host(ev->dev);
	b->from = ev->dev >= MT_DEV_CUDA0 ? event_from(ev) : FROM_ALLOCATOR;
	b->unlisted = !p->listed;
	model__carried(m, b, d, p, stack);
}

void model__was(struct model *m, const struct event *ev)
{
	const struct block *b = ev->kind == EV_WAS_MODULE ? blocks__find(m->blocks, ev->pid, ev->dev, ev->addr) : NULL;

	if (b && b->named)
		model__not_held(m, b);
	if (ev->kind == EV_WAS_MODULE)
		model__module_was(m, ev);
	else if (ev->kind == EV_WAS)
		model__was_block(m, ev);
	else
		model__was_flow(m, ev);
}
