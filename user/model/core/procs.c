/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Processes are few and their events rare, so this is plain: lists and a fixed array of heads. What
 * matters is that it is bounded for a job that starts and ends DataLoader workers for weeks.
 */
#include "model/core/procs.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"
#include "model/core/learned.h"
#include "model/core/saved.h"

void procs__init(struct procs *ps, size_t max, size_t gone_max)
{
	memset(ps, 0, sizeof(*ps));
	ps->max = max ? max : PROCS_MAX;
	ps->gone_max = gone_max ? gone_max : PROCS_GONE_MAX;
	TAILQ_INIT(&ps->all);
	TAILQ_INIT(&ps->dead);
	mapset__init(&ps->other.mapped);
}

static void proc__free(struct proc *p)
{
	mapset__done(&p->mapped);
	lateset__done(&p->late);
	free(p->price);
	free(p->own.points);
	saved__free(p->saved);
	learned_proc__free(p->learned);
	free(p->lately);
	free(p->grown);
	free(p->devs);
	free(p);
}

void procs__done(struct procs *ps)
{
	struct proc *p;

	while ((p = TAILQ_FIRST(&ps->all))) {
		TAILQ_REMOVE(&ps->all, p, all);
		proc__free(p);
	}
	mapset__done(&ps->other.mapped);
	free(ps->other.price);
	free(ps->other.own.points);
}

static size_t head_of(uint32_t pid)
{
	return hash_u64(pid) & 4095; /* 4096 heads */
}

struct proc *procs__find(const struct procs *ps, uint32_t pid)
{
	struct proc *p;

	LIST_FOREACH(p, &ps->heads[head_of(pid)], by_pid)
		if (p->pid == pid)
			return p;
	return NULL;
}

static void procs__forget_pid(struct proc *p)
{
	if (p->in_pid)
		LIST_REMOVE(p, by_pid);
	p->in_pid = false;
}

static struct proc *procs__add(struct procs *ps, uint32_t pid, bool *ret_full)
{
	struct proc *p = ps->cnt - ps->dead_cnt < ps->max ? calloc(1, sizeof(*p)) : NULL;

	if (!p) {
		if (ret_full)
			*ret_full = true;
		return &ps->other;
	}
	p->pid = pid;
	p->listed = true;
	p->in_pid = true;
	mapset__init(&p->mapped);
	LIST_INSERT_HEAD(&ps->heads[head_of(pid)], p, by_pid);
	TAILQ_INSERT_TAIL(&ps->all, p, all);
	ps->cnt++;
	return p;
}

struct proc *procs__get(struct procs *ps, uint32_t pid, bool *ret_full)
{
	struct proc *p = procs__find(ps, pid);

	return p ? p : procs__add(ps, pid, ret_full);
}

struct proc *procs__new_life(struct procs *ps, uint32_t pid, bool *ret_full)
{
	struct proc *old = procs__find(ps, pid);

	if (old)
		procs__forget_pid(old);
	return procs__add(ps, pid, ret_full);
}

struct proc_side *proc__on(struct proc *p, uint8_t dev)
{
	for (size_t i = 0; i < p->devs_cnt; i++)
		if (p->devs[i].dev == dev)
			return &p->devs[i].side;
	if (!p->listed || !array_has_one_more(p->devs, p->devs_cnt))
		return NULL;
	p->devs[p->devs_cnt] = (struct proc_dev){ .dev = dev };
	return &p->devs[p->devs_cnt++].side;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void side__fold(struct proc_side *to, const struct proc_side *from)
{
	if (from->peak > to->peak) {
		to->peak = from->peak;
		to->peak_ts_ns = from->peak_ts_ns;
	}
}

/* The oldest exited process loses its row. Sums are added, peaks are the highest one. */
static void procs__fold(struct procs *ps)
{
	struct proc *p = TAILQ_FIRST(&ps->dead), *o = &ps->other;

	side__fold(&o->fw, &p->fw);
	side__fold(&o->host, &p->host);
	o->allocs += p->allocs;
	o->frees += p->frees;
	o->host_allocs += p->host_allocs;
	o->host_frees += p->host_frees;
	o->live_at_exit += p->live_at_exit;
	o->rss_peak = max_u64(o->rss_peak, p->rss_peak);
	o->mapped_peak = max_u64(o->mapped_peak, p->mapped_peak);
	o->cpu_ns += p->cpu_ns;
	for (unsigned i = 0; i < MARK_MAX; i++)
		o->marks_cnt[i] += p->marks_cnt[i];
	ps->cpu_folded_ns += p->cpu_ns;
	procs__forget_pid(p);
	TAILQ_REMOVE(&ps->dead, p, dead);
	TAILQ_REMOVE(&ps->all, p, all);
	ps->dead_cnt--;
	ps->cnt--;
	ps->folded++;
	proc__free(p);
}

/* It has no memory any more; its last reading stays for the report. */
static void proc__clear_rss(struct procs *ps, struct proc *p)
{
	ps->rss_total -= proc__rss(p);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		ps->rss_by_kind[i] -= p->rss[i];
	for (unsigned i = 0; p->gone != 1 && i < MT_USES; i++)
		ps->use_total[i] -= p->use[i];
	memset(p->rss, 0, sizeof(p->rss));
}

void procs__exited(struct procs *ps, struct proc *p)
{
	proc__clear_maps(p);
	proc__clear_rss(ps, p);
	if (!p->listed || p->gone == 1)
		return;
	p->gone = 1;
	TAILQ_INSERT_TAIL(&ps->dead, p, dead);
	ps->dead_cnt++;
	if (ps->dead_cnt > ps->gone_max)
		procs__fold(ps);
}

uint64_t procs__cpu_ns(const struct procs *ps, uint64_t most_ns)
{
	uint64_t sum = ps->cpu_folded_ns;
	const struct proc *p;

	TAILQ_FOREACH(p, &ps->all, all)
		sum += p->cpu_ns < most_ns ? p->cpu_ns : most_ns;
	return sum;
}

/* --- one process --------------------------------------------------------------------------------- */

void proc__sampled(struct proc *p, bool traced, uint64_t took_ns)
{
	if (!p->price)
		p->price = calloc(1, sizeof(*p->price));
	if (p->price)
		price__sampled(p->price, traced, took_ns);
}

uint64_t proc__rss(const struct proc *p)
{
	return p->rss[MT_RSS_FILE] + p->rss[MT_RSS_ANON] + p->rss[MT_RSS_SHMEM];
}

void proc__set_rss(struct procs *ps, struct proc *p, uint32_t kind, uint64_t bytes)
{
	ps->rss_total -= proc__rss(p);
	ps->rss_by_kind[kind] += bytes - p->rss[kind];
	p->rss[kind] = bytes;
	ps->rss_total += proc__rss(p);
	p->rss_peak = max_u64(p->rss_peak, proc__rss(p));
}

/* Without room every second point is dropped, and from then on every second reading is left out. */
static void own__keep(struct report_own *o, uint64_t ts_ns)
{
	if (o->reads < 2 || (o->reads - 1) & ((1u << o->points_shift) - 1))
		return;
	if (!o->points) {
		o->points = malloc(OWN_POINTS * sizeof(*o->points));
		if (!o->points)
			return;
		o->points[o->points_cnt++] = (struct own_point){ o->first_ns, o->own_first, o->shared_first };
	}
	if (o->points_cnt == OWN_POINTS) {
		for (uint32_t i = 0; i < OWN_POINTS / 2; i++)
			o->points[i] = o->points[2 * i];
		o->points_cnt = OWN_POINTS / 2;
		o->points_shift++;
	}
	o->points[o->points_cnt++] = (struct own_point){ ts_ns, o->own_last, o->shared_last };
}

/* Kinds of one reading come one after the other, private bytes before shared ones. */
static void own__set(struct report_own *o, uint32_t kind, uint64_t bytes, uint64_t ts_ns)
{
	if (kind == MT_USE_SHARED) {
		o->shared_first = o->reads > 1 ? o->shared_first : bytes;
		o->shared_last = bytes;
		if (o->reads)
			own__keep(o, ts_ns);
		return;
	}
	o->rises += o->reads && bytes > o->own_last;
	if (!o->reads++) {
		o->first_ns = ts_ns;
		o->own_first = bytes;
	}
	o->last_ns = ts_ns;
	o->own_last = bytes;
}

void proc__set_use(struct procs *ps, struct proc *p, const struct event *ev, uint64_t ts_ns)
{
	uint64_t bytes = ev->flags ? 0 : ev->size;
	uint32_t kind = ev->aux;

	ps->use_total[kind] += bytes - p->use[kind];
	p->use[kind] = bytes;
	p->use_unknown = (p->use_unknown & ~(1u << kind)) | (ev->flags ? 1u << kind : 0);
	p->use_ts_ns = ts_ns;
	if (!ev->flags && (kind == MT_USE_PRIVATE || kind == MT_USE_SHARED))
		own__set(&p->own, kind, bytes, ts_ns);
}

uint32_t procs__unknown_cnt(const struct procs *ps)
{
	const struct proc *p;
	uint32_t cnt = 0;

	TAILQ_FOREACH(p, &ps->all, all)
		cnt += p->gone != 1 && p->use_unknown & 1u << MT_USE_PSS;
	return cnt;
}

void proc__set_cpu(struct proc *p, uint64_t cpu_ns)
{
	if (!p->listed)
		return; /* of many processes: differences mean nothing */
	if (!p->cpu_seen)
		p->cpu_first_ns = cpu_ns;
	p->cpu_seen = true;
	p->cpu_ns = cpu_ns > p->cpu_first_ns ? cpu_ns - p->cpu_first_ns : 0;
}

/*
 * mremap arrives as MUNMAP and MMAP of one thread, and one more MMAP where the old range stays. They count iff bytes of
 * the old one did: mappings from before the attach stay out, and so do file mappings.
 */
static bool proc__mmap(struct proc *p, const struct event *ev)
{
	bool anon = ev->flags & MT_MAP_ANON, ok;
	uint64_t gone;

	if (ev->flags & MT_MAP_REMAP) {
		anon = p->remap_tid && p->remap_tid == ev->tid;
		if (!(ev->flags & MT_MAP_STAYS))
			p->remap_tid = 0;
	}
	ok = mapset__remove(&p->mapped, ev->addr, ev->size, &gone); /* MAP_FIXED replaces what was there */
	if (anon && !mapset__add(&p->mapped, ev->addr, ev->size))
		ok = false;
	p->mapped_peak = max_u64(p->mapped_peak, p->mapped.bytes);
	return ok;
}

static void proc__brk(struct proc *p, uint64_t addr)
{
	if (!p->brk_seen)
		p->brk_base = addr;
	p->brk_seen = true;
	p->brk_growth = addr > p->brk_base ? addr - p->brk_base : 0;
}

bool proc__map(struct proc *p, const struct event *ev)
{
	uint64_t gone;
	bool ok;

	if (!p->listed)
		return false; /* address spaces of several processes cannot share one table */
	switch (ev->kind) {
	case MT_EV_MMAP:
		return proc__mmap(p, ev);
	case MT_EV_MUNMAP:
		ok = mapset__remove(&p->mapped, ev->addr, ev->size, &gone);
		if (ev->flags & MT_MAP_REMAP)
			p->remap_tid = gone ? ev->tid : 0;
		return ok;
	default:
		proc__brk(p, ev->addr);
		return true;
	}
}

void proc__clear_maps(struct proc *p)
{
	mapset__clear(&p->mapped);
	p->remap_tid = 0;
	p->brk_seen = false;
	p->brk_base = p->brk_growth = 0;
}

static size_t key_len(const char *label)
{
	return strcspn(label, "=");
}

void proc__add_label(struct proc *p, const struct names *names, name_id label)
{
	const char *text = names__get(names, label);
	size_t len = key_len(text);

	if (!label.v)
		return;
	for (size_t i = 0; i < p->labels_cnt; i++) {
		const char *old = names__get(names, p->labels[i]);

		if (key_len(old) == len && !memcmp(old, text, len)) {
			p->labels[i] = label;
			return;
		}
	}
	if (p->labels_cnt < PROC_LABELS_MAX)
		p->labels[p->labels_cnt++] = label;
}
