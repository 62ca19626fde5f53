/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/segments/gpu.h"

#include <stdlib.h>

void gpu__free(struct gpu *g)
{
	if (!g)
		return;
	segments__free(g->segs);
	free(g->nvml_procs);
	free(g);
}

struct gpu *gpu__new(void)
{
	struct gpu *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->segs = segments__new();
	g->nvml_procs = calloc(NVML_PROCS_MAX, sizeof(*g->nvml_procs));
	if (g->segs && g->nvml_procs)
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

void gpu__drop_pid(struct gpu *g, uint32_t pid)
{
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
