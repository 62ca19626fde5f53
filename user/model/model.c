/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One switch over the kinds of events. The frequent ones (OP, ALLOC, FREE) touch: the thread (that of
 * the event before, nearly always), one record of the block table, one cell of each tally, the
 * device and the process; no allocation, no division, no search. Measured by tests/bench/bench_model.
 *
 * Nothing here fails on what an event says. What cannot be right (a device that does not exist) is
 * counted as a loss; what is merely odd (a second birth, a free without birth) has its own counter.
 * After a process exited its late events are not believed any more: its memory is gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/regions.h"
#include "model/flow.h"
#include "model/state.h"

struct model *model__new(const struct names *names, const struct model_opts *opts)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->names = names;
	m->timeline = opts ? opts->timeline : NULL;
	m->timeline_ctx = opts ? opts->timeline_ctx : NULL;
	m->timeline_ops = opts ? opts->timeline_ops : 0;
	m->timeline_nodes = opts && opts->timeline && opts->timeline_nodes;
	m->classes = opts ? opts->classes : CLASSES_COMPAT;
	m->buried = opts ? opts->buried : NULL;
	m->buried_ctx = opts ? opts->buried_ctx : NULL;
	procs__init(&m->procs, 0, 0);
	m->blocks = blocks__new(opts ? opts->blocks_max : 0);
	m->threads = threads__new(0);
	if (!m->blocks || !m->threads || tally__init(&m->ops) < 0 || tally__init(&m->regions) < 0 ||
	    stackset__init(&m->stacks) < 0 || modules__init(&m->modules) < 0) {
		model__free(m);
		return NULL;
	}
	return m;
}

void model__free(struct model *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < m->devs_cnt; i++)
		device__free(m->devs[i]);
	graph__free(m->graph);
	model__gpu_free(m);
	free(m->ooms);
	told__done(&m->told);
	growth__done(&m->growth);
	tensors__done(&m->tensors);
	tally__done(&m->ops);
	tally__done(&m->regions);
	stackset__done(&m->stacks);
	modules__done(&m->modules);
	op_modules__done(&m->op_modules);
	procs__done(&m->procs);
	threads__free(m->threads);
	blocks__free(m->blocks);
	free(m);
}

/* --- telling the timeline ------------------------------------------------------------------------ */

void model__tell(struct model *m, const struct tl_event *tl)
{
	if (m->timeline && !m->timeline_err)
		m->timeline_err = m->timeline(m->timeline_ctx, tl);
}

static void model__tell_block(struct model *m, uint8_t kind, const struct block *b, uint32_t ver,
			      uint32_t tid, uint8_t depth)
{
	struct tl_event tl;

	if (!m->timeline)
		return;
	tl = (struct tl_event){
		.ts_ns = m->now_ns, .kind = kind, .ptr = b->ptr, .size = b->size, .id = b->id,
		.pid = b->pid, .tid = tid, .op = m->ops.rows[b->op].name,
		.region = m->regions.rows[b->region].name, .dev = (uint8_t)b->dev,
		.version = ver, .cat = (uint8_t)b->cat, .depth = depth,
		.stack = kind == TL_LABEL || kind == TL_VERSION ? 0 : m->stack,
		.module = m->modules.rows[b->module].path, .root = m->modules.rows[b->module].root, .phase = b->phase,
	};
	tl.has_stream = model__gpu_stream(m, b, &tl.stream);
	model__tell(m, &tl);
}

void model__tell_destroy(struct model *m, const struct block *b, uint32_t tid, uint8_t depth)
{
	model__tell_block(m, TL_DESTROY, b, b->tracked ? graph__version(m->graph, b->id) : 0, tid, depth);
	m->stack = 0;
}

void model__tell_label(struct model *m, const struct block *b, uint32_t ver)
{
	if (b->id != m->quiet_id)
		model__tell_block(m, TL_LABEL, b, ver, b->tid, 0);
}

void model__tell_version(struct model *m, const struct block *b, uint32_t ver)
{
	if (b->id != m->quiet_id)
		model__tell_block(m, TL_VERSION, b, ver, b->tid, 0);
}

void model__tell_name(struct model *m, const struct block *b, const struct tensor *t)
{
	struct tl_event tl = { .ts_ns = m->now_ns, .kind = TL_NAME, .ptr = b->ptr, .size = b->size, .id = b->id, .pid = b->pid,
			       .tid = b->tid, .dev = (uint8_t)b->dev, .cat = (uint8_t)b->cat, .op = t->path, .region = t->root,
			       .type = t->type, .key = t->key, .depth = t->kind };

	if (m->timeline_nodes)
		model__tell(m, &tl);
}

static struct tl_event tl_of(const struct model *m, const struct event *ev, uint8_t kind)
{
	return (struct tl_event){
		.ts_ns = m->now_ns, .kind = kind, .pid = ev->pid, .tid = ev->tid, .dev = ev->dev,
		.depth = ev->depth,
	};
}

void model__tell_totals(struct model *m, const struct event *ev)
{
	struct tl_event tl = tl_of(m, ev, TL_TOTALS);

	tl.ptr = ev->addr;
	tl.size = ev->size;
	if (m->timeline_ops)
		model__tell(m, &tl);
}

/* --- finding what an event is about --------------------------------------------------------------- */

static bool dev_valid(uint8_t dev)
{
	return dev == MT_DEV_CPU || dev == MT_DEV_HOST ||
	       (dev >= MT_DEV_CUDA0 && dev < MT_DEV_CUDA0 + MT_DEV_CUDA_MAX);
}

static struct device *model__add_device(struct model *m, uint8_t dev)
{
	struct device *d;

	if (!dev_valid(dev)) {
		m->lost[MT_LOSS_DECODE]++;
		return NULL;
	}
	d = device__new(dev, m->devs_cnt, m->start_ts_ns);
	if (!d || tally__add_dev(&m->ops, m->devs_cnt) < 0 ||
	    tally__add_dev(&m->regions, m->devs_cnt) < 0 || tally__add_dev(&m->stacks.tally, m->devs_cnt) < 0 ||
	    tally__add_dev(&m->modules.tally, m->devs_cnt) < 0) {
		device__free(d);
		m->lost[MT_LOSS_BLOCKS]++;
		return NULL;
	}
	m->devs[m->devs_cnt++] = d;
	m->dev_idx[dev] = (uint8_t)m->devs_cnt;
	return d;
}

static inline struct device *model__device(struct model *m, uint8_t dev)
{
	uint8_t idx = m->dev_idx[dev];

	return idx ? m->devs[idx - 1] : model__add_device(m, dev);
}

struct device *model__device_row(struct model *m, uint8_t dev)
{
	return model__device(m, dev);
}

static struct thread *model__find_thread(struct model *m, const struct event *ev)
{
	bool lost = false, full = false;
	struct proc *p = procs__get(&m->procs, ev->pid, &full);
	struct thread *t;

	if (p->gone == 1)
		return NULL;
	t = threads__get(m->threads, ev->pid, ev->tid, &lost);
	if (!t) {
		lost = true;
		m->spare = (struct thread){ .pid = ev->pid, .tid = ev->tid };
		t = &m->spare;
	}
	m->lost[MT_LOSS_THREADS] += lost + full;
	t->proc = p;
	/* Without a row of its own the process may get one later: look again each time. */
	m->last = p->listed && t != &m->spare ? t : NULL;
	return t;
}

/* The event's thread, with its process; NULL if that has exited. */
static inline struct thread *model__thread(struct model *m, const struct event *ev)
{
	struct thread *t = m->last;

	if (__builtin_expect(t && t->tid == ev->tid && t->pid == ev->pid, 1)) {
		t->recent = true;
		return t;
	}
	return model__find_thread(m, ev);
}

struct thread *model__thread_of(struct model *m, const struct event *ev)
{
	return model__thread(m, ev);
}

name_id model__region_of(struct model *m, const struct event *ev)
{
	bool is_frame = ev->kind != MT_EV_ALLOC && ev->kind != MT_EV_FREE && ev->kind != MT_EV_MUNMAP;
	const struct thread *t = model__thread(m, ev);

	return t ? m->regions.rows[thread__region(t, ev->depth + is_frame, ev->seq)].name : NAME_NONE;
}

/* What the event's thread had open when the first tensor was told. */
struct proc *model__proc_of(struct model *m, const struct event *ev)
{
	struct proc *p = procs__get(&m->procs, ev->pid, NULL);

	return p->gone == 1 ? NULL : p;
}

static void model__catch_up(struct model *m, const struct thread *t, const struct event *ev)
{
	for (uint8_t i = 0; i < t->regions_cnt; i++)
		graph__region(m->graph, &(struct event){
			.kind = MT_EV_REGION_BEGIN, .pid = ev->pid, .tid = ev->tid, .aux = i,
			.name = m->regions.rows[t->regions[i].row].name });
	for (uint8_t i = 0; i < t->depth && i < ev->depth; i++) {
		const struct frame *f = &t->frames[i];
		const struct tally *tally = f->kind == MT_EV_NODE ? &m->regions : &m->ops;

		graph__frame(m->graph, &(struct event){
			.kind = f->kind, .pid = ev->pid, .tid = ev->tid, .depth = i, .seq = f->seq,
			.name = tally->rows[f->row].name });
	}
}

static bool model__has_graph(struct model *m, const struct thread *t, const struct event *ev)
{
	if (m->graph)
		return true;
	m->graph = graph__new(m);
	if (m->graph)
		model__catch_up(m, t, ev);
	return m->graph != NULL;
}

struct graph *model__graph_for(struct model *m, const struct event *ev)
{
	const struct thread *t = model__thread(m, ev);

	return t && model__has_graph(m, t, ev) ? m->graph : NULL;
}

/* --- blocks --------------------------------------------------------------------------------------- */

void model__bury(struct model *m, const struct block *b, struct proc *p)
{
	struct device *d = m->devs[m->dev_idx[b->dev] - 1];

	if (b->id <= m->marked_id)
		model__tell_buried(m, b);
	if (b->named)
		model__unname(m, b);
	if (b->gradient)
		modules__unnamed(&m->modules, b->module, EV_TENSOR_GRADIENT, b->size);
	if (!dev_is_host(d->dev))
		modules__died(&m->modules, b);
	tally__died(&m->modules.tally, d->idx, b->module, b->size, d->epoch);
	tally__died(&m->ops, d->idx, (uint32_t)b->op, b->size, d->epoch);
	tally__died(&m->regions, d->idx, (uint32_t)b->region, b->size, d->epoch);
	m->stack = stackset__died(&m->stacks, b->id, d->idx, b->size, d->epoch);
	device__died(d, b, m->now_ns);
	if (b->unlisted)
		p = &m->procs.other;
	else if (b->met && b->dev == MT_DEV_CPU)
		metset__remove(&p->met, b->ptr);
	if (!b->met && !b->unlisted)
		growth__died(&m->growth, b, m->stack, &p->clock, m->last_id, m->now_ns);
	(dev_is_host((uint8_t)b->dev) ? &p->host : &p->fw)->live -= b->size;
	p->live_cnt--;
}

/* Its free was seen, or must have happened unseen. */
static void model__freed(struct model *m, struct block *b, struct proc *p, const struct event *ev)
{
	struct device *d = m->devs[m->dev_idx[b->dev] - 1];
	struct proc *owner = b->unlisted ? &m->procs.other : p;

	if (b->tracked && ev->kind == MT_EV_MUNMAP)
		graph__unmapped(m->graph, b, ev);
	else if (b->tracked)
		graph__died(m->graph, b, ev);
	model__bury(m, b, p);
	d->frees++;
	d->free_bytes += b->size;
	if (dev_is_host(d->dev))
		owner->host_frees++;
	else
		owner->frees++;
	model__tell_destroy(m, b, ev->tid, ev->depth);
}

static void model__born(struct model *m, struct block *b, struct device *d, struct proc *p)
{
	if (m->stack && !stackset__born(&m->stacks, b->id, m->stack, d->idx, b->size, d->epoch)) {
		m->lost[MT_LOSS_STACKS]++;
		m->stack = 0;
	}
	tally__born(&m->modules.tally, d->idx, b->module, b->size, d->epoch);
	tally__born(&m->ops, d->idx, (uint32_t)b->op, b->size, d->epoch);
	tally__born(&m->regions, d->idx, (uint32_t)b->region, b->size, d->epoch);
	device__born(d, b, m->now_ns);
	if (dev_is_host(d->dev)) {
		proc_side__born(&p->host, b->size, m->now_ns);
		p->host_allocs++;
	} else {
		proc_side__born(&p->fw, b->size, m->now_ns);
		p->allocs++;
	}
	p->live_cnt++;
	if (!dev_is_host(d->dev)) {
		modules__born(&m->modules, b, p->fw.live);
		op_modules__born(&m->op_modules, (uint32_t)b->op, (uint32_t)b->module, b->phase, b->size);
	}
	if (b->unlisted)
		m->growth.not_watched++;
	else
		growth__born(&m->growth, b, m->stack, &p->clock, m->now_ns);
}

/* Sums of what is live must not wrap, whatever sizes a target makes up. */
bool model__plausible(struct model *m, const struct device *d, const struct event *ev)
{
	if (__builtin_expect(ev->size <= LIVE_MAX - d->live, 1))
		return true;
	m->lost[MT_LOSS_DECODE]++;
	return false;
}

/* The end of a block that was met at ptr, if it has so many bytes. */
static void model__end_met(struct model *m, struct proc *p, const struct event *ev, uint64_t ptr, uint64_t min, uint64_t max)
{
	const struct block *met = blocks__find(m->blocks, ev->pid, MT_DEV_CPU, ptr);
	struct block b;

	if (met && met->met && met->size >= min && met->size <= max && blocks__take(m->blocks, ev->pid, MT_DEV_CPU, ptr, &b))
		model__freed(m, &b, p, ev);
}

/* Where a block is born nothing else can lie: of a storage that others made (NumPy's, say) nobody tells the end. */
static void model__end_overlapped(struct model *m, struct proc *p, const struct event *ev)
{
	uint64_t ptr;

	if (!p->met.cnt || ev->dev != MT_DEV_CPU || ev->addr + ev->size < ev->addr)
		return;
	if (metset__before(&p->met, ev->addr, &ptr))
		model__end_met(m, p, ev, ptr, ev->addr - ptr + 1, UINT64_MAX);
	for (ptr = ev->addr; metset__next(&p->met, ptr, ev->addr + ev->size, &ptr); ptr++)
		model__end_met(m, p, ev, ptr, 0, UINT64_MAX);
}

struct block *model__give(struct model *m, const struct event *ev, enum block_from from)
{
	struct attribution a;
	struct device *d;
	struct thread *t;
	struct block *b, old;
	uint32_t stack;
	bool live;

	/* torch reports its empty tensors with no address and drops them itself; malloc(0) is a block */
	if (!ev->addr || (!ev->size && !dev_is_host(ev->dev)))
		return NULL;
	d = model__device(m, ev->dev);
	t = d ? model__thread(m, ev) : NULL;
	if (!t || !model__plausible(m, d, ev))
		return NULL;
	a = thread__attribute(t, ev);
	m->lost[MT_LOSS_FRAME] += a.lost;
	stack = thread__stack(t, ev->addr);
	model__end_overlapped(m, t->proc, ev);
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
	b->born_ts_ns = m->now_ns;
	b->id = ++m->last_id;
	b->tid = ev->tid;
	b->op = tally__ready(&m->ops, d->idx, a.op);
	b->region = tally__ready(&m->regions, d->idx, a.region);
	b->cat = CAT_UNKNOWN;
	b->from = from;
	b->unlisted = !t->proc->listed;
	if (!dev_is_host(d->dev))
		model__module_birth(m, t, ev, b);
	b->module = tally__ready(&m->modules.tally, d->idx, b->module) & UINT16_MAX;
	if (m->tensors.cnt)
		tensors__remove(&m->tensors, ev->pid, ev->addr);
	m->stack = stack;
	model__born(m, b, d, t->proc);
	if (!dev_is_host(ev->dev) && (m->graph || (m->flow_covered && model__has_graph(m, t, ev))))
		graph__born(m->graph, b, ev);
	if (m->gpu && !dev_is_host(ev->dev))
		model__gpu_born(m, b);
	model__tell_block(m, TL_CREATE, b, 0, ev->tid, ev->depth);
	m->stack = 0;
	return b;
}

/* Lived before the attach, or its birth was lost: never part of live, so nothing goes below zero. */
static void model__preexisting(struct model *m, struct device *d, const struct event *ev)
{
	struct block b = {
		.ptr = ev->addr, .size = TL_SIZE_UNKNOWN, .id = ++m->last_id, .pid = ev->pid,
		.tid = ev->tid, .dev = ev->dev,
	};

	d->preexisting_frees++;
	if (m->tensors.cnt)
		tensors__remove(&m->tensors, ev->pid, ev->addr);
	model__tell_block(m, TL_PREEXISTING, &b, 0, ev->tid, ev->depth);
	model__tell_block(m, TL_DESTROY, &b, 0, ev->tid, ev->depth);
}

/*
 * Device of the block at an address when the event does not say it (pytorch:free has no such
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
	struct event told = *in;
	const struct event *ev = &told;
	struct device *d;
	struct thread *t;
	struct block b;

	if (!ev->addr)
		return;
	if (ev->dev == MT_DEV_NONE)
		told.dev = model__whose(m, ev);
	d = model__device(m, ev->dev);
	t = d ? model__thread(m, ev) : NULL;
	if (!t)
		return;
	if (blocks__take(m->blocks, ev->pid, ev->dev, ev->addr, &b))
		model__freed(m, &b, t->proc, ev);
	else if (!(ev->flags & MT_F_FREE_AGAIN))
		model__preexisting(m, d, ev);
}

/* A framework block at an address, whatever its device. */
struct block *model__block_at(const struct model *m, const struct event *ev)
{
	for (size_t i = 0; i < m->devs_cnt; i++) {
		uint8_t dev = m->devs[i]->dev;
		struct block *b = dev_is_host(dev) ? NULL : blocks__find(m->blocks, ev->pid, dev, ev->addr);

		if (b)
			return b;
	}
	return NULL;
}

/* Another storage lies where a preexisting one did, whose end nobody tells (shared memory). */
static bool model__replaced(struct model *m, struct block *b, struct proc *p, const struct event *ev)
{
	struct block old;

	if (!b->met || b->size == ev->size)
		return false;
	blocks__take(m->blocks, b->pid, (uint8_t)b->dev, b->ptr, &old);
	model__freed(m, &old, p, ev);
	return true;
}

struct block *model__met(struct model *m, const struct event *ev)
{
	struct block *b = model__block_at(m, ev);
	struct thread *t = model__thread(m, ev);
	struct device *d;
	bool live;

	if (b && t && m->modules.cnt > 1)
		model__module_used(m, t, ev, b);
	if (!t)
		return NULL;
	for (; b; b = model__block_at(m, ev)) /* of another device, too */
		if (!model__replaced(m, b, t->proc, ev))
			return b;
	d = dev_is_host(ev->dev) ? NULL : model__device(m, ev->dev ? ev->dev : MT_DEV_CPU);
	if (!d || !model__plausible(m, d, ev) || graph__inside_other(m->graph, ev))
		return NULL;
	b = blocks__put(m->blocks, ev->pid, d->dev, ev->addr, &live);
	if (!b) {
		m->lost[MT_LOSS_BLOCKS]++;
		return NULL;
	}
	b->size = ev->size;
	b->born_ts_ns = m->now_ns;
	b->id = ++m->last_id;
	b->tid = ev->tid;
	b->met = 1;
	b->unlisted = !t->proc->listed;
	tally__met(&m->modules.tally, d->idx, 0, b->size, d->epoch);
	modules__met(&m->modules, b->size);
	tally__met(&m->ops, d->idx, 0, b->size, d->epoch);
	tally__met(&m->regions, d->idx, 0, b->size, d->epoch);
	device__add(d, b, m->now_ns);
	d->met++;
	d->met_bytes += b->size;
	proc_side__born(&t->proc->fw, b->size, m->now_ns);
	t->proc->live_cnt++;
	if (b->dev == MT_DEV_CPU && !b->unlisted && !metset__add(&t->proc->met, b->ptr))
		m->lost[MT_LOSS_BLOCKS]++; /* its munmap will not be seen */
	model__tell_block(m, TL_PREEXISTING, b, 0, ev->tid, ev->depth);
	model__tensor_met(m, b);
	return b;
}

void model__tell_preexisting(struct model *m, const struct block *b)
{
	model__tell_block(m, TL_PREEXISTING, b, 0, b->tid, 0);
}

void model__unmapped(struct model *m, const struct event *ev, struct proc *p)
{
	uint64_t end = ev->addr + ev->size, ptr;

	if (end < ev->addr)
		return;
	for (ptr = ev->addr; metset__next(&p->met, ptr, end, &ptr); ptr++)
		model__end_met(m, p, ev, ptr, 0, end - ptr);
}

static void model__oom(struct model *m, const struct event *ev)
{
	struct device *d = model__device(m, ev->dev);
	struct thread *t = d ? model__thread(m, ev) : NULL;
	struct attribution a;
	struct tl_event tl;

	if (!t)
		return;
	a = thread__attribute(t, ev);
	m->lost[MT_LOSS_FRAME] += a.lost;
	d->ooms++;
	d->oom_bytes_last = ev->size;
	model__oom_refused(m, ev, m->ops.rows[a.op].name, m->regions.rows[a.region].name);
	tl = tl_of(m, ev, TL_OOM);
	tl.size = ev->size;
	tl.op = m->ops.rows[a.op].name;
	tl.region = m->regions.rows[a.region].name;
	model__tell(m, &tl);
}

/* --- stacks ---------------------------------------------------------------------------------------- */

static void model__stack(struct model *m, const struct event *ev)
{
	struct tl_event tl = { .ts_ns = m->now_ns, .kind = TL_STACK, .id = ev->seq, .ptr = ev->size, .op = ev->name,
			       .region = { (uint32_t)ev->addr }, .version = ev->aux, .depth = ev->flags };

	if (ev->seq && ev->seq <= m->stacks.defs_cnt)
		return; /* told again to a recording that began later */
	if (stackset__define(&m->stacks, ev))
		model__tell(m, &tl);
	else
		m->lost[MT_LOSS_STACKS]++;
}

static void model__stack_at(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);

	if (!t)
		return;
	t->stack = stackset__has(&m->stacks, ev->size) ? (uint32_t)ev->size : 0;
	t->stack_ptr = ev->addr;
	m->lost[MT_LOSS_STACKS] += !t->stack;
}

uint32_t model__stack_of_was(struct model *m, const struct event *ev)
{
	struct thread *t = m->stacks.defs_cnt ? model__thread(m, ev) : NULL;

	return t ? thread__stack(t, ev->addr) : 0;
}

static void model__tag(struct model *m, const struct event *ev)
{
	const struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	struct tl_event tl = tl_of(m, ev, TL_TAG);

	tl.ptr = ev->addr;
	tl.size = b ? b->size : TL_SIZE_UNKNOWN;
	tl.id = b ? b->id : 0;
	tl.op = b ? m->ops.rows[b->op].name : NAME_NONE;
	tl.cat = b ? (uint8_t)b->cat : CAT_UNKNOWN;
	tl.region = ev->name;
	model__tell(m, &tl);
}

/* --- frames, regions, steps ------------------------------------------------------------------------ */

static void model__tell_frame(struct model *m, struct thread *t, const struct event *ev)
{
	struct event inside = *ev;
	struct tl_event tl = tl_of(m, ev, TL_OP);
	struct attribution a;

	inside.depth = ev->depth < UINT8_MAX ? (uint8_t)(ev->depth + 1) : UINT8_MAX;
	a = thread__attribute(t, &inside);
	tl.op = ev->name;
	tl.region = m->regions.rows[a.region].name;
	tl.phase = (uint8_t)model__phase_of_op(t, thread__in_node(t, &inside));
	model__tell(m, &tl);
}

/* evaluate_function and the apply() in it are one entry of one node. */
static bool model__counted(const struct thread *t, const struct event *ev, uint32_t row)
{
	const struct frame *under = ev->depth && ev->depth <= t->depth ? &t->frames[ev->depth - 1] : NULL;

	return ev->kind != MT_EV_NODE && under && under->kind == MT_EV_NODE && under->row == row;
}

static void model__told_cover(struct model *m, const struct event *ev)
{
	told__handle(&m->told, ev);
	m->flow_covered |= ev->size && !strcmp(names__get(m->names, ev->name), "flow");
}

/* APPLY and ACC: nodes for whoever asks what a block's operator and region are. */
static void model__apply(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);
	struct event node = *ev;
	uint32_t row;

	if (!t)
		return;
	row = tally__row(&m->regions, ev->name, true);
	m->regions.rows[row].count += !model__counted(t, ev, row);
	model__has_graph(m, t, ev);
	node.kind = MT_EV_NODE;
	thread__enter(t, &node, row);
	if (m->graph)
		graph__frame(m->graph, ev);
}

static inline void model__frame(struct model *m, const struct event *ev)
{
	bool is_node = ev->kind == MT_EV_NODE;
	struct tally *tally = is_node ? &m->regions : &m->ops;
	struct thread *t = model__thread(m, ev);
	uint32_t row;

	if (!t)
		return;
	row = tally__row(tally, ev->name, is_node);
	tally->rows[row].count++;
	thread__enter(t, ev, row);
	if (is_node)
		model__phase_node(m, t);
	if (m->graph || (m->flow_covered && model__has_graph(m, t, ev)))
		graph__frame(m->graph, ev);
	if (m->timeline && m->timeline_ops)
		model__tell_frame(m, t, ev);
}

static void model__arg(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);

	if (t && model__has_graph(m, t, ev))
		graph__arg(m->graph, ev);
}

static bool model__is_step(const struct model *m, name_id region)
{
	return region_is_step(names__get(m->names, region));
}

static void model__step_took(struct model *m, struct proc *p, uint64_t took_ns)
{
	standstill__step(&p->standstill, &m->attach, took_ns);
	if (!p->price)
		p->price = calloc(1, sizeof(*p->price));
	if (p->price)
		price__step(p->price, took_ns, m->now_ns);
}

static void model__boundary(struct model *m, struct proc *p, enum growth_kind kind)
{
	const struct growth_clock before = p->clock;

	growth_clock__step(&p->clock, kind, m->last_id, m->now_ns);
	if (p->clock.era == before.era && p->clock.kind == before.kind && p->clock.tick > before.tick && before.tick)
		model__step_took(m, p, m->now_ns - before.last_ns);
}

static void model__attach(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);

	if (!p)
		return;
	standstill__attach(&p->standstill, &m->attach, ev);
	if (p->price)
		price__attach(p->price, ev->flags & EV_ATTACH_BEGINS);
}

static void model__step(struct model *m, const struct event *ev)
{
	struct tl_event tl = tl_of(m, ev, TL_STEP);
	struct proc *p = procs__find(&m->procs, ev->pid);

	m->steps++;
	if (p) {
		model__boundary(m, p, GROWTH_BY_MARK);
		model__phase_step(m, ev, p);
	}
	if (m->graph)
		graph__step(m->graph, ev->pid);
	tl.ptr = ev->addr;
	model__tell(m, &tl);
}

uint64_t model__steps_of(const struct model *m, uint32_t pid)
{
	const struct proc *p = procs__find((struct procs *)&m->procs, pid);

	return p && p->clock.kind > GROWTH_BY_TIME ? p->clock.tick + 1 : 0;
}

/* Regions that are marks themselves: torch.profiler's, whose name has the number, and tools/python's. */
static void model__step_region(struct model *m, const struct event *ev, struct proc *p)
{
	const char *name = names__get(m->names, ev->name);
	struct event mark = *ev;

	if (!strncmp(name, PROFILER_STEP, strlen(PROFILER_STEP)))
		mark.addr = strtoull(name + strlen(PROFILER_STEP), NULL, 10);
	else if (!strcmp(name, "memtrace.step"))
		mark.addr = ++p->step_regions;
	else
		return;
	model__step(m, &mark);
}

static void model__region(struct model *m, const struct event *ev)
{
	bool begin = ev->kind == MT_EV_REGION_BEGIN;
	struct thread *t = model__thread(m, ev);
	struct tl_event tl;
	enum phase before;
	uint32_t row;

	if (!t)
		return;
	if (begin) {
		row = tally__row(&m->regions, ev->name, false);
		m->regions.rows[row].count++;
		thread__region_begin(t, ev, row);
		model__step_region(m, ev, t->proc);
		if (model__is_step(m, ev->name))
			model__boundary(m, t->proc, GROWTH_BY_OPTIMIZER);
	} else {
		row = thread__region_end(t, ev);
	}
	before = model__phase_of_op(t, thread__in_node(t, ev));
	model__phase_region(m, t, ev, begin);
	if (m->graph)
		graph__region(m->graph, ev);
	if (!m->timeline || !m->timeline_ops)
		return;
	tl = tl_of(m, ev, begin ? TL_REGION : TL_REGION_END);
	tl.region = begin ? ev->name : m->regions.rows[row].name;
	tl.phase = (uint8_t)(begin ? model__phase_of_op(t, thread__in_node(t, ev)) : before);
	model__tell(m, &tl);
}

/* --- one event ------------------------------------------------------------------------------------- */

static void model__start(struct model *m, uint64_t ts_ns)
{
	m->started = true;
	m->start_ts_ns = m->now_ns = ts_ns;
	series_acc__init(&m->rss, ts_ns);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		series_acc__init(&m->rss_kinds[i], ts_ns);
	series_acc__init(&m->pss, ts_ns);
	series_acc__init(&m->huge, ts_ns);
}

static void model__handle_rare(struct model *m, const struct event *ev)
{
	switch (ev->kind) {
	case MT_EV_SEG_ALLOC:
	case MT_EV_SEG_FREE:
	case MT_EV_SEG_MAP:
	case MT_EV_SEG_UNMAP:
	case MT_EV_SEG_FAIL:
	case MT_EV_SEG_RESET:
	case MT_EV_SEG_TRIM:
	case MT_EV_SEG_COMM:
	case MT_EV_SEG_GRAPH:
	case MT_EV_SEG_POOL:
	case MT_EV_TOTALS:
	case MT_EV_REQUEST:
	case MT_EV_REQUEST_FREE:
	case MT_EV_STREAM:
	case EV_NVML:
		model__handle_gpu(m, ev);
		break;
	case MT_EV_OOM_VICTIM:
		model__oom_victim(m, ev);
		break;
	case EV_WAS:
	case EV_WAS_FLOW:
		model__was(m, ev);
		break;
	case EV_TENSOR_OF:
		model__tensor_of(m, ev);
		break;
	case EV_TENSOR:
		model__tensor(m, ev);
		break;
	case EV_MODULE:
		model__module(m, ev);
		break;
	case EV_MODULE_AT:
		model__module_at(m, ev);
		break;
	case EV_WAS_MODULE:
		model__module_was(m, ev);
		break;
	case EV_OOM_KILL:
		model__oom_kills(m, ev);
		break;
	case EV_STACK:
		model__stack(m, ev);
		break;
	case EV_STACK_AT:
		model__stack_at(m, ev);
		break;
	case EV_MACHINE: /* ranks.c */
		break;
	default:
		m->lost[MT_LOSS_DECODE]++;
	}
}

/* Without the regions of optimizers their state has to be told by another rule (flow_rules.c). */
static void model__told_site(struct model *m, const struct event *ev)
{
	struct proc *p = ev->size ? procs__find(&m->procs, ev->pid) : NULL;

	if (!p)
		return;
	p->has_flow |= ev->aux == MT_PROG_FLOW_ACC;
	p->has_regions |= ev->aux == MT_PROG_REGION_BEGIN;
}

int model__handle(void *model, const struct event *ev)
{
	struct model *m = model;

	if (__builtin_expect(!m->started, 0))
		model__start(m, ev->ts_ns);
	if (ev->ts_ns > m->now_ns)
		m->now_ns = ev->ts_ns;
	m->events[ev->kind]++;
	m->timeline_err = 0;
	switch (ev->kind) {
	case MT_EV_OP:
	case MT_EV_NODE:
	case MT_EV_OP_BEGIN:
		model__frame(m, ev);
		break;
	case MT_EV_ALLOC:
		(void)model__give(m, ev, FROM_ALLOCATOR);
		break;
	case MT_EV_FREE:
		model__take(m, ev);
		break;
	case MT_EV_APPLY:
	case MT_EV_ACC:
		model__apply(m, ev);
		break;
	case EV_ARG:
		model__arg(m, ev);
		break;
	case MT_EV_OP_END: /* the next event says its depth itself */
	case EV_TICK:
		break;
	case MT_EV_REGION_BEGIN:
	case MT_EV_REGION_END:
		model__region(m, ev);
		break;
	case MT_EV_OOM:
		model__oom(m, ev);
		break;
	case MT_EV_STEP:
		model__step(m, ev);
		break;
	case MT_EV_TAG:
		model__tag(m, ev);
		break;
	case EV_BEGIN:
	case EV_NOTE:
	case EV_COST:
	case EV_LOSS:
	case EV_SELF:
	case EV_FIRED:
	case EV_IDLE:
	case EV_LATE_OP:
		told__handle(&m->told, ev);
		break;
	case EV_ATTACH:
		model__attach(m, ev);
		break;
	case EV_SITE:
		told__handle(&m->told, ev);
		model__told_site(m, ev);
		break;
	case EV_COVER:
		model__told_cover(m, ev);
		break;
	case EV_END:
		told__handle(&m->told, ev);
		if (m->graph)
			graph__finish(m->graph);
		break;
	case MT_EV_MMAP:
	case MT_EV_MUNMAP:
	case MT_EV_BRK:
	case MT_EV_RSS:
	case MT_EV_EXIT:
	case EV_PROC:
	case EV_COMM:
	case EV_GONE:
	case EV_LABEL:
	case EV_CPU:
	case EV_USE:
		model__handle_proc(m, ev);
		break;
	default:
		model__handle_rare(m, ev);
	}
	return m->timeline_err;
}

struct model_live model__live(const struct model *m)
{
	struct model_live live = { 0 };

	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct device *d = m->devs[i];

		*(dev_is_host(d->dev) ? &live.host : d->dev == MT_DEV_CPU ? &live.cpu : &live.gpu) += d->live;
	}
	return live;
}

int model__end(struct model *m)
{
	m->timeline_err = 0;
	if (m->graph && m->timeline_nodes && !m->ended)
		graph__end(m->graph);
	m->ended = true;
	return m->timeline_err;
}
