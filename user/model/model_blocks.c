/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The ledger: every way in which a block begins and ends, and what else has to know. A block is reported to the graph and to
 * the segments before the timeline; it ends for the graph before it is counted as freed.
 */
#include "model/flow/flow.h"
#include "model/segments/gpu.h"
#include "model/segments/segments.h"
#include "model/model_blocks.h"
#include "model/model_compiles.h"
#include "model/model_learned.h"
#include "model/model_modules.h"
#include "model/model_saved.h"
#include "model/model_tensors.h"
#include "model/state.h"

/* --- ends ----------------------------------------------------------------------------------------- */

/* `stack`: where it was allocated. */
static void model__tell_destroy(struct model *m, const struct block *b, uint32_t stack, uint32_t tid, uint8_t depth)
{
	model__tell_block(m, TL_DESTROY, b, b->tracked ? graph__version(m->graph, b->id) : 0, tid, depth, stack);
}

/* What lives until a process's last boundary is a growing place's even if the process frees it before it exits. */
static void model__caught_freed(struct model *m, const struct block *b, const struct proc *p)
{
	const struct growth_row *row = p && p->listed && b->id < p->clock.young_id ? growth__row_of(&m->growth, b, 0) : NULL;

	caught__freed(&m->caught, b->id, row ? &row->key : NULL, row ? p->clock.tick : 0);
}

/* A block ended; b is a copy, already out of the table. `p`: its process, if listed. Where it was allocated; 0: not known. */
static uint32_t model__block_ended(struct model *m, const struct block *b, struct proc *p)
{
	struct device *d = m->devs[m->dev_idx[b->dev] - 1];
	name_id key = NAME_NONE, path = NAME_NONE;
	uint32_t stack;

	if (b->id <= m->marked_id)
		model__tell_was_freed(m, b);
	if (b->named)
		model__unname(m, b, &key, &path);
	if (b->gradient)
		modules__unnamed(&m->modules, b->module, EV_TENSOR_GRADIENT, b->size);
	if (!dev_is_host(d->dev))
		modules__freed(&m->modules, b);
	tally__freed(&m->modules.tally, d->idx, b->module, b->size, d->epoch);
	tally__freed(&m->ops, d->idx, (uint32_t)b->op, b->size, d->epoch);
	tally__freed(&m->regions, d->idx, (uint32_t)b->region, b->size, d->epoch);
	stack = stackset__freed(&m->stacks, b->id, d->idx, b->size, d->epoch);
	if (m->caught.blocks.cnt)
		model__caught_freed(m, b, p);
	device__freed(d, b, m->now_ns);
	if (path.v)
		peak__name(&d->peak_blocks, b->id, key, path);
	if (m->learned)
		model__learned_freed(m, b, b->unlisted ? NULL : p);
	if (b->unlisted)
		p = &m->procs.other;
	else if (b->late && b->dev == MT_DEV_CPU)
		lateset__remove(&p->late, b->ptr);
	if (!b->late && !b->unlisted && !b->unwatched)
		growth__freed(&m->growth, b, stack, &p->clock, m->last_id, m->now_ns);
	if (!dev_is_host((uint8_t)b->dev))
		model__lately_until(m, p);
	proc__freed(p, (uint8_t)b->dev, b->size);
	p->live_cnt--;
	return stack;
}

static void model__untrack(struct model *m, struct block *b, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);

	if (ev->kind == MT_EV_MUNMAP) { /* reported without its depth */
		graph__unmapped(m->graph, b, t, ev);
		return;
	}
	if (t)
		thread__settle(t, ev->depth, ev->seq);
	graph__freed(m->graph, b, t, ev);
}

/* Its free was seen, or must have happened unseen. */
static void model__freed(struct model *m, struct block *b, struct proc *p, const struct event *ev)
{
	struct device *d = m->devs[m->dev_idx[b->dev] - 1];
	struct proc *owner = b->unlisted ? &m->procs.other : p;
	uint32_t stack;

	if (b->tracked && m->levels.cnt && model__is_blind(m, b->pid))
		graph__freed(m->graph, b, NULL, NULL);
	else if (b->tracked)
		model__untrack(m, b, ev);
	if (p->saved && p->saved->now)
		model__saved_freed(m, model__thread(m, ev), ev, b);
	stack = model__block_ended(m, b, p);
	d->frees++;
	d->free_bytes += b->size;
	if (dev_is_host(d->dev))
		owner->host_frees++;
	else
		owner->frees++;
	model__tell_destroy(m, b, stack, ev->tid, ev->depth);
}

void model__drop(struct model *m, const struct block *b, struct proc *p)
{
	struct block copy;
	struct device *d;
	uint32_t stack;

	blocks__take(m->blocks, b->pid, (uint8_t)b->dev, b->ptr, &copy);
	d = m->devs[m->dev_idx[copy.dev] - 1];
	d->dropped++;
	d->dropped_bytes += copy.size;
	if (copy.tracked)
		graph__freed(m->graph, &copy, NULL, NULL);
	stack = model__block_ended(m, &copy, p);
	model__tell_destroy(m, &copy, stack, copy.tid, 0);
}

/* The end of a block that was seen late at ptr, if it has so many bytes. */
static void model__end_late(struct model *m, struct proc *p, const struct event *ev, uint64_t ptr, uint64_t min, uint64_t max)
{
	const struct block *late = blocks__find(m->blocks, ev->pid, MT_DEV_CPU, ptr);
	struct block b;

	if (late && late->late && late->size >= min && late->size <= max &&
	    blocks__take(m->blocks, ev->pid, MT_DEV_CPU, ptr, &b))
		model__freed(m, &b, p, ev);
}

/* Where a block is allocated nothing else can lie: the end of a storage made by others (NumPy's, say) is never reported. */
static void model__end_overlapped(struct model *m, struct proc *p, const struct event *ev)
{
	uint64_t ptr;

	if (!p->late.cnt || ev->dev != MT_DEV_CPU || ev->addr + ev->size < ev->addr)
		return;
	if (lateset__before(&p->late, ev->addr, &ptr))
		model__end_late(m, p, ev, ptr, ev->addr - ptr + 1, UINT64_MAX);
	for (ptr = ev->addr; lateset__next(&p->late, ptr, ev->addr + ev->size, &ptr); ptr++)
		model__end_late(m, p, ev, ptr, 0, UINT64_MAX);
}

void model__unmapped(struct model *m, const struct event *ev, struct proc *p)
{
	uint64_t end = ev->addr + ev->size, ptr;

	if (end < ev->addr)
		return;
	for (ptr = ev->addr; lateset__next(&p->late, ptr, end, &ptr); ptr++)
		model__end_late(m, p, ev, ptr, 0, end - ptr);
}

/* --- carried blocks: not seen since a gap began -------------------------------------------------------- */

void model__ended_unseen(struct model *m, const struct block *b, struct proc *p)
{
	struct device *d = m->devs[m->dev_idx[b->dev] - 1];

	d->unseen++;
	d->unseen_bytes += b->size;
	model__drop(m, b, p);
}

/* Where a block is allocated no carried one can lie any more. */
static void model__end_carried(struct model *m, struct proc *p, const struct event *ev)
{
	size_t i = carried__from(&m->carried, ev->pid, ev->dev, ev->addr);
	const struct carried_at *at = m->carried.v;

	if (i && at[i - 1].pid == ev->pid && at[i - 1].dev == ev->dev)
		i--; /* it may reach into it */
	for (; i < m->carried.cnt && at[i].pid == ev->pid && at[i].dev == ev->dev; i++) {
		const struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, at[i].ptr);

		if (at[i].ptr > ev->addr && at[i].ptr - ev->addr >= ev->size)
			return;
		if (b && b->carried && (b->ptr >= ev->addr || ev->addr - b->ptr < b->size))
			model__ended_unseen(m, b, p);
	}
}

/* A storage of so many bytes is where a carried block was. True: it is that block; else the block has ended. */
static bool model__confirm(struct model *m, struct block *b, struct proc *p, uint64_t bytes)
{
	if (model__name_fits(b, bytes)) {
		b->carried = 0;
		return true;
	}
	model__ended_unseen(m, b, p);
	return false;
}

/* --- allocations --------------------------------------------------------------------------------------- */

/* Counted at all that it is of. Its stack; 0: there is no room for it. */
static uint32_t model__allocated(struct model *m, struct block *b, struct device *d, struct proc *p, uint32_t stack)
{
	bool is_peak;

	if (stack && !stackset__allocated(&m->stacks, b->id, stack, d->idx, b->size, d->epoch)) {
		m->lost[MT_LOSS_STACKS]++;
		stack = 0;
	}
	tally__allocated(&m->modules.tally, d->idx, b->module, b->size, d->epoch);
	tally__allocated(&m->ops, d->idx, (uint32_t)b->op, b->size, d->epoch);
	tally__allocated(&m->regions, d->idx, (uint32_t)b->region, b->size, d->epoch);
	is_peak = device__allocated(d, b, tally__nobodys(&m->modules.tally, d->idx), m->now_ns);
	if (dev_is_host(d->dev)) {
		proc__allocated(p, d->dev, b->size, is_peak, m->now_ns, !gaps__is_open(&m->gaps));
		p->host_allocs++;
	} else {
		model__lately_until(m, p);
		proc__allocated(p, d->dev, b->size, is_peak, m->now_ns, !gaps__is_open(&m->gaps));
		model__lately_now(p);
		p->allocs++;
	}
	p->live_cnt++;
	if (!dev_is_host(d->dev)) {
		modules__allocated(&m->modules, b, gaps__is_open(&m->gaps) ? 0 : p->fw.live);
		op_modules__allocated(&m->op_modules, (uint32_t)b->op, (uint32_t)b->module, b->phase, b->size);
	}
	b->unwatched = m->levels.cnt && !model__sees_growth(m, b->pid, false);
	if (b->unlisted)
		m->growth.not_watched++;
	else if (!b->unwatched)
		growth__allocated(&m->growth, b, stack, &p->clock, m->now_ns);
	return stack;
}

/* No operator was open: one may stand for the line of Python at which it was allocated. */
static uint32_t model__op_of_place(struct model *m, const struct attribution *a, const struct event *ev, uint8_t *ret_made)
{
	uint32_t row;

	*ret_made = 0;
	if (a->op || a->lost || ev->kind != MT_EV_ALLOC || !ev->name.v)
		return a->op;
	row = places__row(&m->places, &m->ops, ev->name, ev->size);
	m->ops.rows[row].count += row != 0;
	*ret_made = places__made(&m->places, ev->name);
	return row;
}

struct block *model__give(struct model *m, const struct event *ev, enum block_from from)
{
	struct attribution a;
	struct device *d;
	struct thread *t;
	struct block *b, old;
	uint32_t stack;
	bool live, is_blind;
	uint8_t made;

	/* torch reports its empty tensors with no address and drops them itself; malloc(0) is a block */
	if (!ev->addr || (!ev->size && !dev_is_host(ev->dev)))
		return NULL;
	d = model__device(m, ev->dev);
	t = d ? model__thread(m, ev) : NULL;
	if (!t || !model__plausible(m, d, ev))
		return NULL;
	a = thread__attribute(t, ev);
	is_blind = m->levels.cnt && model__is_blind(m, ev->pid);
	m->lost[MT_LOSS_FRAME] += a.lost && !is_blind;
	a.op = model__op_of_place(m, &a, ev, &made);
	stack = thread__stack(t, ev->addr);
	model__end_overlapped(m, t->proc, ev);
	if (m->carried.cnt)
		model__end_carried(m, t->proc, ev);
	b = blocks__put(m->blocks, ev->pid, ev->dev, ev->addr, &live);
	if (live) {
		m->lost[MT_LOSS_REUSE]++;
		blocks__take(m->blocks, ev->pid, ev->dev, ev->addr, &old);
		model__freed(m, &old, t->proc, ev);
		b = blocks__put(m->blocks, ev->pid, ev->dev, ev->addr, &live);
	}
	if (!b) {
		m->lost[MT_LOSS_BLOCKS]++;
		return NULL;
	}
	b->size = ev->size;
	b->allocated_ts_ns = m->now_ns;
	b->id = ++m->last_id;
	b->tid = ev->tid;
	b->op = tally__ready(&m->ops, d->idx, a.op);
	b->region = tally__ready(&m->regions, d->idx, a.region);
	b->cat = CAT_UNKNOWN;
	b->from = from;
	b->unlisted = !t->proc->listed;
	if (!dev_is_host(d->dev))
		model__module_alloc(m, t, ev, b, made ? places__graph(&m->places, ev->name) : 0);
	b->module = tally__ready(&m->modules.tally, d->idx, b->module) & UINT16_MAX;
	if (m->tensors.cnt)
		tensors__remove(&m->tensors, ev->pid, ev->addr);
	stack = model__allocated(m, b, d, t->proc, stack);
	if (m->caught.waiting_cnt)
		caught__allocated(&m->caught, b);
	if (!dev_is_host(ev->dev) && !is_blind && (m->graph || (m->flow_covered && model__has_graph(m, t, ev))))
		graph__allocated(m->graph, b, t, ev, made);
	if (m->gpu && !dev_is_host(ev->dev))
		segments__allocated(m->gpu->segs, b);
	if (m->learned)
		model__learned_allocated(m, b, t->proc, is_blind);
	model__tell_block(m, TL_CREATE, b, 0, ev->tid, ev->depth, stack);
	return b;
}

/* --- frees ---------------------------------------------------------------------------------------- */

/* Allocated before the attach, or its allocation was lost: never part of live, so that nothing goes below zero. */
static void model__preexisting(struct model *m, struct device *d, const struct event *ev)
{
	struct block b = {
		.ptr = ev->addr, .size = TL_SIZE_UNKNOWN, .id = ++m->last_id, .pid = ev->pid,
		.tid = ev->tid, .dev = ev->dev,
	};

	d->preexisting_frees++;
	if (m->tensors.cnt)
		tensors__remove(&m->tensors, ev->pid, ev->addr);
	model__tell_block(m, TL_PREEXISTING, &b, 0, ev->tid, ev->depth, 0);
	model__tell_block(m, TL_DESTROY, &b, 0, ev->tid, ev->depth, 0);
}

/*
 * Device of the block at an address when the event does not have it (pytorch:free has no such
 * argument): the one device that has a live block there; addresses are unique across devices.
 */
static uint8_t model__whose(const struct model *m, const struct event *ev)
{
	for (size_t i = 0; i < m->devs_cnt; i++) {
		uint8_t dev = m->devs[i]->dev;

		if (dev != MT_DEV_HOST && blocks__find(m->blocks, ev->pid, dev, ev->addr))
			return dev;
	}
	return MT_DEV_CUDA0;
}

void model__take(struct model *m, const struct event *in)
{
	struct event reported = *in;
	const struct event *ev = &reported;
	struct device *d;
	struct thread *t;
	struct block b;

	if (!ev->addr)
		return;
	freed__note(&m->freed, ev->pid, ev->addr, m->now_ns);
	if (ev->dev == MT_DEV_NONE)
		reported.dev = model__whose(m, ev);
	d = model__device(m, ev->dev);
	t = d ? model__thread(m, ev) : NULL;
	if (!t)
		return;
	if (blocks__take(m->blocks, ev->pid, ev->dev, ev->addr, &b)) {
		if (b.cat == CAT_GRADIENT && t->proc->has_graphs && !thread__in_node(t, ev))
			model__phase_cleared(m, t);
		model__freed(m, &b, t->proc, ev);
	} else if (!(ev->flags & MT_F_FREE_AGAIN))
		model__preexisting(m, d, ev);
}

/* --- tensors of unknown allocation --------------------------------------------------------------------- */

/* Another storage lies where a preexisting one did, whose end is never reported (shared memory). */
static bool model__replaced(struct model *m, struct block *b, struct proc *p, const struct event *ev)
{
	struct block old;

	if (!b->late || b->size == ev->size)
		return false;
	blocks__take(m->blocks, b->pid, (uint8_t)b->dev, b->ptr, &old);
	model__freed(m, &old, p, ev);
	return true;
}

/*
 * A pointer without an allocation may lie in the middle of a block. Searched for once a pointer, in all
 * blocks; with very many of them the search is left out rather than slow the trace down. `behind`: bytes from it on in
 * which no block may begin.
 */
static bool model__inside_other(struct model *m, const struct event *ev, uint64_t behind)
{
	const struct block *b;
	size_t pos = 0;

	if (blocks__count(m->blocks) > m->scans)
		return false;
	m->scans -= blocks__count(m->blocks);
	while ((b = blocks__next(m->blocks, &pos)))
		if (b->pid == ev->pid && !dev_is_host((uint8_t)b->dev) &&
		    (ev->addr > b->ptr ? ev->addr - b->ptr < b->size : b->ptr - ev->addr < behind))
			return true;
	return false;
}

void model__counts_late(struct model *m, struct block *b, struct device *d, struct proc *p)
{
	bool is_peak;

	tally__late(&m->modules.tally, d->idx, 0, b->size, d->epoch);
	if (!dev_is_host(d->dev))
		modules__late(&m->modules, b->size);
	tally__late(&m->ops, d->idx, (uint32_t)b->op, b->size, d->epoch);
	tally__late(&m->regions, d->idx, (uint32_t)b->region, b->size, d->epoch);
	is_peak = device__add(d, b, tally__nobodys(&m->modules.tally, d->idx), m->now_ns);
	d->late++;
	d->late_bytes += b->size;
	model__lately_until(m, p);
	proc__allocated(p, d->dev, b->size, is_peak, m->now_ns, !gaps__is_open(&m->gaps));
	model__lately_now(p);
	p->live_cnt++;
	if (m->learned)
		model__learned_live(m, d);
	if (b->late && b->dev == MT_DEV_CPU && !b->unlisted && !lateset__add(&p->late, b->ptr))
		m->lost[MT_LOSS_BLOCKS]++; /* its munmap will not be seen */
}

/* Live from now on, without an operator, and not counted as an allocation. NULL: no memory (counted). */
static struct block *model__late(struct model *m, struct proc *p, struct device *d, const struct event *ev, uint32_t tid)
{
	bool live;
	struct block *b = blocks__put(m->blocks, ev->pid, d->dev, ev->addr, &live);

	if (!b) {
		m->lost[MT_LOSS_BLOCKS]++;
		return NULL;
	}
	b->size = ev->size;
	b->allocated_ts_ns = m->now_ns;
	b->id = ++m->last_id;
	b->tid = tid;
	b->late = 1;
	b->unlisted = !p->listed;
	model__counts_late(m, b, d, p);
	return b;
}

struct block *model__begin_late(struct model *m, const struct event *ev)
{
	struct block *b = model__block_at(m, ev);
	struct thread *t = model__thread(m, ev);
	struct device *d;

	if (b && t && m->modules.cnt > 1)
		model__module_used(m, t, ev, b);
	if (!t)
		return NULL;
	for (; b; b = model__block_at(m, ev)) /* of another device, too */
		if (b->carried ? model__confirm(m, b, t->proc, ev->size) : !model__replaced(m, b, t->proc, ev))
			return b;
	d = dev_is_host(ev->dev) ? NULL : model__device(m, ev->dev ? ev->dev : MT_DEV_CPU);
	if (!d || !model__plausible(m, d, ev) || model__inside_other(m, ev, 0))
		return NULL;
	b = model__late(m, t->proc, d, ev, ev->tid);
	if (!b)
		return NULL;
	model__tell_block(m, TL_PREEXISTING, b, 0, ev->tid, ev->depth, 0);
	model__tensor_late(m, b);
	return b;
}

struct block *model__late_by_name(struct model *m, struct proc *p, const struct event *ev)
{
	struct device *d = dev_is_host(ev->dev) ? NULL : model__device(m, ev->dev);
	struct block *b;

	if (!d || !ev->size || !model__plausible(m, d, ev) || model__inside_other(m, ev, ev->size))
		return NULL;
	b = model__late(m, p, d, ev, ev->pid);
	if (b)
		model__tell_block(m, TL_PREEXISTING, b, 0, ev->pid, 0, 0);
	return b;
}
