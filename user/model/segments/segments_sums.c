/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The processes, and what the segments of each device add up to over all of them: what the other files stand on. */
#include <stdlib.h>

#include "model/segments/segments_state.h"

struct segments *segments__new(void)
{
	struct segments *s = calloc(1, sizeof(*s));

	if (s)
		s->procs = calloc(PROCS_MAX, sizeof(*s->procs));
	if (s && !s->procs) {
		free(s);
		return NULL;
	}
	return s;
}

void seg_proc__free(struct seg_proc *p)
{
	free(p->segs);
	free(p->objects);
	map__done(&p->asked);
	free(p->graphs);
	free(p->execs);
	free(p->private_pools);
	free(p->late);
	free(p);
}

void segments__on_pinned(struct segments *s, pinned_fn fn, void *ctx)
{
	s->pinned = fn;
	s->pinned_ctx = ctx;
}

void segments__free(struct segments *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->procs_cnt; i++)
		seg_proc__free(s->procs[i]);
	for (unsigned i = 0; i < s->sums_cnt; i++)
		free(s->sums[i]);
	free(s->procs);
	free(s);
}

struct seg_proc *segments__proc(const struct segments *s, uint32_t pid)
{
	for (size_t i = 0; i < s->procs_cnt; i++)
		if (s->procs[i]->pid == pid)
			return s->procs[i];
	return NULL;
}

struct seg_proc *segments__add_proc(struct segments *s, uint32_t pid)
{
	struct seg_proc *p = segments__proc(s, pid);

	if (p || s->procs_cnt == PROCS_MAX)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->asked = MAP_OF(struct asked);
	return s->procs[s->procs_cnt++] = p;
}

struct sums *segments__find_sums(const struct segments *s, uint8_t dev)
{
	for (unsigned i = 0; i < s->sums_cnt; i++)
		if (s->sums[i]->dev == dev)
			return s->sums[i];
	return NULL;
}

struct sums *segments__sums(struct segments *s, uint8_t dev)
{
	struct sums *u;

	if (!dev_is_gpu(dev))
		dev = MT_DEV_NONE;
	u = segments__find_sums(s, dev);
	if (u || s->sums_cnt == DEVS_MAX)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->dev = dev;
	return s->sums[s->sums_cnt++] = u;
}

/* --- sums --------------------------------------------------------------------------------------------- */

void sums__add(struct sums *u, uint8_t kind, bool comm, uint64_t size, uint64_t ts_ns)
{
	struct report_seg *k = &u->kinds[kind];

	u->seen = true;
	k->live += size;
	if (k->live > k->peak)
		k->peak = k->live;
	u->comm += comm ? size : 0;
	if (u->comm > u->comm_peak)
		u->comm_peak = u->comm;
	if (!is_device_memory(kind))
		return;
	u->live += size;
	if (u->live > u->peak) {
		u->peak = u->live;
		u->peak_ts_ns = ts_ns;
	}
}

static void sums__remove(struct sums *u, uint8_t kind, bool comm, uint64_t size)
{
	u->comm -= comm ? size : 0;
	u->kinds[kind].live -= size;
	if (is_device_memory(kind))
		u->live -= size;
}

void segments__count_out(struct segments *s, uint8_t dev, uint8_t kind, bool comm, uint64_t size, enum end how)
{
	struct sums *u = segments__sums(s, dev);

	sums__remove(u, kind, comm, size);
	if (how == END_FREED)
		u->kinds[kind].frees++;
	else
		u->kinds[kind].dropped++;
}

void segments__move_dev(struct segments *s, uint8_t kind, bool comm, uint64_t size, uint8_t dev, uint64_t ts_ns)
{
	struct sums *from = segments__sums(s, MT_DEV_NONE), *to = segments__sums(s, dev);

	if (!from || !to || from == to)
		return;
	sums__remove(from, kind, comm, size);
	if (from->kinds[kind].allocs) {
		from->kinds[kind].allocs--;
		to->kinds[kind].allocs++;
	}
	sums__add(to, kind, comm, size, ts_ns);
}

uint64_t segments__high(const struct segments *s)
{
	uint64_t high = 0;

	for (unsigned i = 0; i < s->sums_cnt; i++)
		high += s->sums[i]->peak + s->sums[i]->reserved_peak + s->sums[i]->allocated_peak;
	return high;
}
