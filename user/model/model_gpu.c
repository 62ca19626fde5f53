/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Devices: the driver's layer (segments.h), and the source of their blocks. Of a process on a device:
 *
 *   caching allocator   has reported its TOTALS: its ALLOC and FREE are the blocks, nothing else ever is
 *   cudaMallocAsync     reports nothing by itself: each ASYNC segment is a block, too
 *   no caching          reports REQUEST and REQUEST_FREE alone: they are the blocks
 *
 * A process attached to in mid-run may show the other two before its first TOTALS. From then on: blocks
 * made of ASYNC segments were another library's and are dropped; those made of requests were the
 * allocator's and end with its FREE. So no byte is ever in two blocks, or in a block twice.
 *
 * An ASYNC segment whose device is not known is of the process's only device, else of cuda:0: a thread
 * that chose none has that one.
 */
#include "model/segments/gpu.h"
#include "model/model_blocks.h"
#include "model/model_gpu.h"
#include "model/model_oom.h"
#include "model/state.h"

/* --- blocks ---------------------------------------------------------------------------------------------- */

/* The other two ways of making blocks, from an event that is neither ALLOC nor FREE. */
static void model__gpu_give(struct model *m, const struct event *ev, uint8_t dev, enum block_from from)
{
	struct event alloc = *ev;
	struct block *b;

	alloc.kind = MT_EV_ALLOC;
	alloc.dev = dev;
	alloc.flags = 0;
	b = model__give(m, &alloc, from);
	if (!b)
		return;
	b->stream = gpu__stream(m->gpu, ev->aux) & 63;
	*(from == FROM_ASYNC ? &m->gpu->is_async[dev] : &m->gpu->is_request[dev]) = true;
}

static void model__gpu_end(struct model *m, const struct event *ev, const struct block *b)
{
	struct event gone = *ev;

	gone.kind = MT_EV_FREE;
	gone.dev = (uint8_t)b->dev;
	gone.flags = 0;
	model__take(m, &gone);
}

/* The source of a block that was seen late as a tensor is the allocator that frees its memory. */
static void model__gpu_take(struct model *m, const struct event *ev, enum block_from from)
{
	const struct block *b = model__block_at(m, ev);

	if (!b || (b->from != from && !(from == FROM_ASYNC && b->late)))
		return;
	if (from == FROM_REQUEST && segments__has_totals(m->gpu->segs, ev->pid, (uint8_t)b->dev))
		return; /* its FREE follows */
	model__gpu_end(m, ev, b);
}

static void model__gpu_async(struct model *m, const struct event *ev)
{
	uint8_t dev = ev->dev;

	if (!dev_is_gpu(dev))
		dev = segments__only_dev(m->gpu->segs, ev->pid);
	if (!dev)
		dev = MT_DEV_CUDA0;
	if (!segments__has_totals(m->gpu->segs, ev->pid, dev))
		model__gpu_give(m, ev, dev, FROM_ASYNC);
}

static void model__gpu_request(struct model *m, const struct event *ev)
{
	struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	bool caches = segments__has_totals(m->gpu->segs, ev->pid, ev->dev);

	if (b && b->late && !caches) { /* its end was not seen */
		model__gpu_end(m, ev, b);
		b = NULL;
	}
	if (b && (caches || b->from != FROM_REQUEST))
		b->stream = gpu__stream(m->gpu, ev->aux) & 63;
	else if (!caches && dev_is_gpu(ev->dev))
		model__gpu_give(m, ev, ev->dev, FROM_REQUEST);
}

/* Its FREE follows at once, so it is not in both sums for long. */
static void model__gpu_late(struct model *m, const struct event *ev)
{
	const struct block *b = model__block_at(m, &(struct event){ .pid = ev->pid, .addr = ev->size });

	if (!segments__waits(m->gpu->segs, ev, b ? (uint8_t)b->dev : MT_DEV_NONE, b ? b->size : 0))
		m->lost[MT_LOSS_BLOCKS]++;
}

/* Drops the ASYNC blocks of a process: all of a device (dev), or those whose segment is gone (dev 0). */
static void model__gpu_drop_async(struct model *m, uint32_t pid, uint8_t dev)
{
	struct proc *p = procs__find(&m->procs, pid);
	const struct block *b;
	size_t pos = 0;

	while ((b = blocks__next(m->blocks, &pos))) {
		if (b->pid != pid || b->from == FROM_ALLOCATOR)
			continue;
		if (dev ? b->dev == dev && b->from == FROM_ASYNC : !segments__has(m->gpu->segs, pid, b->ptr))
			model__drop(m, b, p ? p : &m->procs.other);
	}
}

/* --- events ------------------------------------------------------------------------------------------------- */

static void model__gpu_nvml(struct model *m, const struct event *ev)
{
	if (!dev_is_gpu(ev->dev) || ev->size > LIVE_MAX || !model__device(m, ev->dev))
		return;
	m->lost[MT_LOSS_THREADS] += !gpu__nvml(m->gpu, ev);
}

static void model__gpu_counters(struct model *m, const struct event *ev)
{
	if (!dev_is_gpu(ev->dev) || ev->addr > LIVE_MAX || ev->size > LIVE_MAX)
		return;
	m->lost[MT_LOSS_THREADS] += !gpu__counters(m->gpu, ev);
}

/* Memory from a pool is where the pool is, whatever device the thread has chosen. */
static void gpu__pool_dev(const struct gpu *g, struct event *ev)
{
	if (ev->kind == MT_EV_SEG_ALLOC && MT_SEG_KIND(ev->flags) == MT_SEG_ASYNC && !dev_is_gpu(ev->dev))
		ev->dev = segments__pool_dev(g->segs, ev->pid, ev->aux);
}

static void model__gpu_apply(struct model *m, const struct event *ev, bool had_totals)
{
	switch (ev->kind) {
	case MT_EV_SEG_ALLOC:
		model__oom_retried(m, ev);
		if (MT_SEG_KIND(ev->flags) == MT_SEG_ASYNC)
			model__gpu_async(m, ev);
		break;
	case MT_EV_SEG_FREE:
		model__gpu_take(m, ev, FROM_ASYNC);
		break;
	case MT_EV_SEG_FAIL:
		model__oom_failed(m, ev);
		break;
	case MT_EV_SEG_RESET:
		if (!ev->flags)
			model__gpu_drop_async(m, ev->pid, 0);
		break;
	case MT_EV_SEG_GRAPH: /* a failed capture drops its nodes */
		if (ev->flags == MT_GRAPH_CAPTURED && !ev->addr)
			model__gpu_drop_async(m, ev->pid, 0);
		break;
	case MT_EV_TOTALS:
		if (had_totals)
			break;
		model__gpu_drop_async(m, ev->pid, ev->dev);
		segments__disown_async(m->gpu->segs, ev->pid, ev->dev);
		break;
	case MT_EV_REQUEST:
		model__gpu_request(m, ev);
		break;
	case MT_EV_REQUEST_FREE:
		model__gpu_take(m, ev, FROM_REQUEST);
		break;
	case MT_EV_STREAM:
		if (ev->flags == MT_STREAM_WAITS)
			model__gpu_late(m, ev);
		break;
	}
}

static void tell_pinned(void *ctx, const struct pinned *p)
{
	struct model *m = ctx;

	model__tell(m, &(struct tl_event){ .ts_ns = m->now_ns, .kind = TL_PINNED, .ptr = p->addr, .size = p->size,
					   .id = p->number, .version = !p->is_end, .pid = p->pid, .dev = MT_DEV_HOST });
}

void model__handle_gpu(struct model *m, const struct event *reported)
{
	const struct proc *p = procs__find(&m->procs, reported->pid);
	struct event at = *reported, *ev = &at;
	bool full = false, had_totals;

	if (p && p->gone == 1)
		return;
	if (!m->gpu && (m->gpu = gpu__new()))
		segments__on_pinned(m->gpu->segs, tell_pinned, m);
	if (!m->gpu) {
		m->lost[MT_LOSS_BLOCKS]++;
		return;
	}
	if (ev->kind == EV_NVML) {
		model__gpu_nvml(m, ev);
		return;
	}
	if (ev->kind == EV_COUNTERS) {
		model__gpu_counters(m, ev);
		return;
	}
	(void)procs__get(&m->procs, ev->pid, &full);
	m->lost[MT_LOSS_THREADS] += full;
	gpu__pool_dev(m->gpu, ev);
	if (dev_is_gpu(ev->dev) && ev->kind != MT_EV_SEG_POOL)
		(void)model__device(m, ev->dev);
	had_totals = segments__has_totals(m->gpu->segs, ev->pid, ev->dev);
	if (ev->kind == MT_EV_TOTALS) {
		gpu__reported_totals(m->gpu, ev);
		model__tell_totals(m, ev);
	}
	if (!segments__event(m->gpu->segs, ev))
		m->lost[MT_LOSS_BLOCKS]++;
	else
		model__gpu_apply(m, ev, had_totals);
}
