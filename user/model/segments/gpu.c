/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/segments/gpu.h"

#include <stdlib.h>

void gpu__free(struct gpu *g)
{
	if (!g)
		return;
	segments__free(g->segs);
	free(g->nvml_procs);
	free(g->counted);
	free(g);
}

struct gpu *gpu__new(void)
{
	struct gpu *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->segs = segments__new();
	g->nvml_procs = calloc(NVML_PROCS_MAX, sizeof(*g->nvml_procs));
	g->counted = calloc(COUNTED_MAX, sizeof(*g->counted));
	if (g->segs && g->nvml_procs && g->counted)
		return g;
	gpu__free(g);
	return NULL;
}

unsigned gpu__stream(struct gpu *g, uint32_t stream)
{
	for (unsigned i = 0; i < g->streams_cnt; i++)
		if (g->streams[i] == stream)
			return i + 1;
	if (g->streams_cnt == STREAMS_MAX)
		return STREAM_OTHER;
	g->streams[g->streams_cnt] = stream;
	return ++g->streams_cnt;
}

bool gpu__stream_of(const struct gpu *g, const struct block *b, uint32_t *ret)
{
	if (!g || !b->stream || b->stream > g->streams_cnt)
		return false;
	*ret = g->streams[b->stream - 1];
	return true;
}

uint8_t gpu__only_dev(const struct gpu *g, uint32_t pid)
{
	return g ? segments__only_dev(g->segs, pid) : MT_DEV_NONE;
}

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

bool gpu__nvml(struct gpu *g, const struct event *ev)
{
	struct nvml_dev *d = &g->nvml[ev->dev];
	struct nvml_proc *p;

	d->seen = true;
	if (!ev->pid) {
		d->used = ev->size;
		d->total = ev->addr;
		if (d->used > d->used_peak)
			d->used_peak = d->used;
		return true;
	}
	p = gpu__nvml_proc(g, ev->pid, ev->dev);
	if (!p)
		return false;
	d->procs = true;
	gpu__nvml_set(g, p, ev->size);
	return true;
}

/* --- the allocator's own counters -------------------------------------------------------------------------- */

/* Of processes that have ended the one that had least. */
static struct counted_dev *gpu__counted_over(struct gpu *g)
{
	struct counted_dev *least = NULL;

	for (size_t i = 0; i < g->counted_cnt; i++)
		if (!g->counted[i].pid && (!least || g->counted[i].allocated_peak < least->allocated_peak))
			least = &g->counted[i];
	return least;
}

static struct counted_dev *gpu__counted_dev(struct gpu *g, uint32_t pid, uint8_t dev)
{
	struct counted_dev *c = g->counted;

	for (size_t i = 0; i < g->counted_cnt; i++, c++)
		if (c->pid == pid && c->dev == dev)
			return c;
	if (g->counted_cnt == COUNTED_MAX)
		c = gpu__counted_over(g);
	else
		g->counted_cnt++;
	if (c)
		*c = (struct counted_dev){ .pid = pid, .dev = dev };
	return c;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A peak falls only when the program resets it. */
static void counted__peaks(struct counted_dev *c, uint64_t allocated, uint64_t reserved)
{
	c->resets += allocated < c->read_peak || reserved < c->read_reserved_peak;
	c->read_peak = allocated;
	c->read_reserved_peak = reserved;
	c->allocated_peak = max_of(c->allocated_peak, allocated);
	c->reserved_peak = max_of(c->reserved_peak, reserved);
}

/*
 * Other numbers that look alike would not follow the traced ones. If the job changes them during a reading there is no match,
 * which proves nothing; nor does the same sum again.
 */
static void counted__compare(struct counted_dev *c, uint64_t allocated, uint64_t reserved)
{
	if (!c->has_reported || !reserved || allocated != c->reported_allocated || reserved != c->reported_reserved ||
	    (c->matches && allocated == c->matched_allocated && reserved == c->matched_reserved))
		return;
	c->matched_allocated = allocated;
	c->matched_reserved = reserved;
	if (c->matches < COUNTED_SURE)
		c->matches++;
}

bool gpu__counters(struct gpu *g, const struct event *ev)
{
	struct counted_dev *c = gpu__counted_dev(g, ev->pid, ev->dev);

	if (!c)
		return false;
	if (ev->aux == EV_COUNTERS_PEAK)
		counted__peaks(c, ev->addr, ev->size);
	else
		counted__compare(c, ev->addr, ev->size);
	return true;
}

void gpu__reported_totals(struct gpu *g, const struct event *ev)
{
	struct counted_dev *c = gpu__counted_dev(g, ev->pid, ev->dev);

	if (!c)
		return; /* its counters will not be used */
	c->has_reported = true;
	c->reported_allocated = ev->addr;
	c->reported_reserved = ev->size;
}

void gpu__counted(const struct gpu *g, uint8_t dev, struct report_segments *ret)
{
	for (size_t i = 0; i < g->counted_cnt; i++) {
		const struct counted_dev *c = &g->counted[i];

		if (c->dev != dev || c->matches < COUNTED_SURE)
			continue;
		ret->counted++;
		ret->counted_resets += c->resets;
		ret->counted_allocated_peak = max_of(ret->counted_allocated_peak, c->allocated_peak);
		ret->counted_reserved_peak = max_of(ret->counted_reserved_peak, c->reserved_peak);
	}
}

void gpu__drop_pid(struct gpu *g, uint32_t pid)
{
	if (!g)
		return;
	segments__drop_pid(g->segs, pid);
	for (size_t i = 0; i < g->counted_cnt; i++)
		if (g->counted[i].pid == pid)
			g->counted[i].pid = 0;
	for (size_t i = g->nvml_procs_cnt; i-- > 0;) {
		if (g->nvml_procs[i].pid != pid)
			continue;
		gpu__nvml_set(g, &g->nvml_procs[i], 0);
		g->nvml_procs[i] = g->nvml_procs[--g->nvml_procs_cnt];
	}
}
