/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Devices: the driver's layer (segments.h), and who gives out their blocks. Of a process on a device:
 *
 *   caching allocator   told its TOTALS: its ALLOC and FREE are the blocks, nothing else ever is
 *   cudaMallocAsync     tells nothing by itself: each ASYNC segment is a block, too
 *   no caching          tells REQUEST and REQUEST_FREE alone: they are the blocks
 *
 * A process attached to in mid-run may show the other two before its first TOTALS. From then on: blocks
 * made of ASYNC segments were another library's and are dropped; those made of requests were the
 * allocator's and end with its FREE. So no byte is ever in two blocks, or in a block twice.
 *
 * An ASYNC segment whose device nobody told is of the process's only device, else of cuda:0: a thread
 * that chose none has that one.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/check.h"
#include "model/segments.h"
#include "model/state.h"
#include "timeline/report.h"

#define STREAMS_MAX 62 /* of one model; numbered from 1 */
#define STREAM_OTHER 63
#define NVML_PROCS_MAX 1024

struct nvml_dev {
	bool seen, procs;
	uint64_t used, used_peak, own, own_peak, total;
};

struct nvml_proc {
	uint32_t pid;
	uint8_t dev;
	uint64_t bytes;
};

struct gpu {
	struct segments *segs;
	uint32_t streams[STREAMS_MAX];
	unsigned streams_cnt;
	bool is_async[256], is_request[256]; /* devices that had blocks from there */
	struct nvml_dev nvml[256];
	struct nvml_proc *nvml_procs;
	size_t nvml_procs_cnt;
};

static bool dev_is_gpu(uint8_t dev)
{
	return dev >= MT_DEV_CUDA0 && dev < MT_DEV_CUDA0 + MT_DEV_CUDA_MAX;
}

static struct gpu *gpu__new(void)
{
	struct gpu *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->segs = segments__new();
	g->nvml_procs = calloc(NVML_PROCS_MAX, sizeof(*g->nvml_procs));
	if (g->segs && g->nvml_procs)
		return g;
	segments__free(g->segs);
	free(g->nvml_procs);
	free(g);
	return NULL;
}

void model__gpu_free(struct model *m)
{
	if (!m->gpu)
		return;
	segments__free(m->gpu->segs);
	free(m->gpu->nvml_procs);
	free(m->gpu);
}

/* --- streams ------------------------------------------------------------------------------------------- */

static unsigned gpu__stream(struct gpu *g, uint32_t stream)
{
	for (unsigned i = 0; i < g->streams_cnt; i++)
		if (g->streams[i] == stream)
			return i + 1;
	if (g->streams_cnt == STREAMS_MAX)
		return STREAM_OTHER;
	g->streams[g->streams_cnt] = stream;
	return ++g->streams_cnt;
}

bool model__gpu_stream(const struct model *m, const struct block *b, uint32_t *ret)
{
	if (!m->gpu || !b->stream || b->stream > m->gpu->streams_cnt)
		return false;
	*ret = m->gpu->streams[b->stream - 1];
	return true;
}

/* --- blocks ---------------------------------------------------------------------------------------------- */

void model__gpu_born(struct model *m, const struct block *b)
{
	segments__born(m->gpu->segs, b);
}

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

/* A block that was there before the attach and met as a tensor is of who frees its memory. */
static void model__gpu_take(struct model *m, const struct event *ev, enum block_from from)
{
	const struct block *b = model__block_at(m, ev);

	if (!b || (b->from != from && !(from == FROM_ASYNC && b->met)))
		return;
	if (from == FROM_REQUEST && segments__has_totals(m->gpu->segs, ev->pid, (uint8_t)b->dev))
		return; /* its FREE comes */
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

	if (b && b->met && !caches) { /* its end was not seen */
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

uint8_t model__gpu_only_dev(const struct model *m, uint32_t pid)
{
	return m->gpu ? segments__only_dev(m->gpu->segs, pid) : MT_DEV_NONE;
}

/* --- NVML ------------------------------------------------------------------------------------------------- */

static struct nvml_proc *gpu__nvml_proc(struct gpu *g, uint32_t pid, uint8_t dev)
{
	struct nvml_proc *p = g->nvml_procs;

	for (size_t i = 0; i < g->nvml_procs_cnt; i++, p++)
		if (p->pid == pid && p->dev == dev)
			return p;
	if (g->nvml_procs_cnt == NVML_PROCS_MAX)
		return NULL;
	*p = (struct nvml_proc){ .pid = pid, .dev = dev };
	g->nvml_procs_cnt++;
	return p;
}

static void gpu__nvml_set(struct gpu *g, struct nvml_proc *p, uint64_t bytes)
{
	struct nvml_dev *d = &g->nvml[p->dev];

	d->own += bytes - p->bytes;
	p->bytes = bytes;
	if (d->own > d->own_peak)
		d->own_peak = d->own;
}

static void model__gpu_nvml(struct model *m, const struct event *ev)
{
	struct nvml_dev *d = &m->gpu->nvml[ev->dev];
	struct nvml_proc *p;

	if (!dev_is_gpu(ev->dev) || ev->size > LIVE_MAX || !model__device_row(m, ev->dev))
		return;
	d->seen = true;
	if (!ev->pid) {
		d->used = ev->size;
		d->total = ev->addr;
		if (d->used > d->used_peak)
			d->used_peak = d->used;
		return;
	}
	p = gpu__nvml_proc(m->gpu, ev->pid, ev->dev);
	if (!p) {
		m->lost[MT_LOSS_THREADS]++;
		return;
	}
	d->procs = true;
	gpu__nvml_set(m->gpu, p, ev->size);
}

/* --- events ------------------------------------------------------------------------------------------------- */

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
	case MT_EV_SEG_GRAPH: /* a capture that came to nothing takes its nodes with it */
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

/* Memory from a pool is where the pool is, whatever device the thread has chosen. */
static void gpu__pool_dev(const struct gpu *g, struct event *ev)
{
	if (ev->kind == MT_EV_SEG_ALLOC && MT_SEG_KIND(ev->flags) == MT_SEG_ASYNC && !dev_is_gpu(ev->dev))
		ev->dev = segments__pool_dev(g->segs, ev->pid, ev->aux);
}

void model__handle_gpu(struct model *m, const struct event *told)
{
	const struct proc *p = procs__find(&m->procs, told->pid);
	struct event at = *told, *ev = &at;
	bool full = false, had_totals;

	if (p && p->gone == 1)
		return;
	if (!m->gpu)
		m->gpu = gpu__new();
	if (!m->gpu) {
		m->lost[MT_LOSS_BLOCKS]++;
		return;
	}
	if (ev->kind == EV_NVML) {
		model__gpu_nvml(m, ev);
		return;
	}
	(void)procs__get(&m->procs, ev->pid, &full);
	m->lost[MT_LOSS_THREADS] += full;
	gpu__pool_dev(m->gpu, ev);
	if (dev_is_gpu(ev->dev) && ev->kind != MT_EV_SEG_POOL)
		(void)model__device_row(m, ev->dev);
	had_totals = segments__has_totals(m->gpu->segs, ev->pid, ev->dev);
	if (ev->kind == MT_EV_TOTALS)
		model__tell_totals(m, ev);
	if (!segments__event(m->gpu->segs, ev))
		m->lost[MT_LOSS_BLOCKS]++;
	else
		model__gpu_apply(m, ev, had_totals);
}

void model__gpu_drop_pid(struct model *m, uint32_t pid)
{
	struct gpu *g = m->gpu;

	if (!g)
		return;
	segments__drop_pid(g->segs, pid);
	for (size_t i = g->nvml_procs_cnt; i-- > 0;) {
		if (g->nvml_procs[i].pid != pid)
			continue;
		gpu__nvml_set(g, &g->nvml_procs[i], 0);
		g->nvml_procs[i] = g->nvml_procs[--g->nvml_procs_cnt];
	}
}

/* --- reports ------------------------------------------------------------------------------------------------- */

int model__gpu_report(const struct model *m, uint8_t dev, struct report_dev *ret)
{
	struct report_segments *s = &ret->segs;
	const struct nvml_dev *n;
	int r;

	if (!m->gpu || !dev_is_gpu(dev))
		return 0;
	r = segments__report(m->gpu->segs, dev, m->blocks, s);
	n = &m->gpu->nvml[dev];
	s->nvml = n->seen;
	s->nvml_procs = n->procs;
	s->nvml_used = n->used;
	s->nvml_total = n->total;
	s->nvml_used_peak = n->used_peak;
	s->nvml_own = n->own;
	s->nvml_own_peak = n->own_peak;
	if (!s->totals)
		s->backend = m->gpu->is_async[dev]   ? BACKEND_ASYNC :
			     m->gpu->is_request[dev] ? BACKEND_NO_CACHING :
						       BACKEND_UNKNOWN;
	segments__layers(s, ret->live);
	return r;
}

int model__gpu_rows(const struct model *m, uint32_t pid, int dev, size_t top, struct report_seg_row **ret, size_t *ret_cnt)
{
	return m->gpu ? segments__rows(m->gpu->segs, m->blocks, pid, dev, top, ret, ret_cnt) : 0;
}

int model__gpu_report_unknown(const struct model *m, struct report *ret)
{
	struct report_segments s;
	int r;

	if (!m->gpu)
		return 0;
	r = segments__report(m->gpu->segs, MT_DEV_NONE, m->blocks, &s);
	for (int i = 0; i < MT_SEG_MAX; i++)
		ret->unknown[i] = s.kinds[i];
	ret->unknown_comm = s.comm;
	ret->unknown_comm_peak = s.comm_peak;
	return r;
}

void model__gpu_check(const struct model *m)
{
	uint64_t own[256] = { 0 };
	const struct block *b;
	size_t pos = 0;

	if (!m->gpu)
		return;
	segments__check(m->gpu->segs);
	for (size_t i = 0; i < m->gpu->nvml_procs_cnt; i++)
		own[m->gpu->nvml_procs[i].dev] += m->gpu->nvml_procs[i].bytes;
	for (int i = 0; i < 256; i++)
		mt_check(own[i] == m->gpu->nvml[i].own && own[i] <= m->gpu->nvml[i].own_peak);
	while ((b = blocks__next(m->blocks, &pos))) {
		mt_check(b->from == FROM_ALLOCATOR || dev_is_gpu((uint8_t)b->dev));
		mt_check(b->from != FROM_ASYNC || !segments__has_totals(m->gpu->segs, b->pid, (uint8_t)b->dev));
		mt_check(b->stream <= m->gpu->streams_cnt || b->stream == STREAM_OTHER);
	}
}
