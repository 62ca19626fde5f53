/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Processes come, change and go. When an address space ends (exit, exec, a pid that comes back with
 * another start time) all its blocks end with it, at that moment; when memtrace merely detaches, they
 * stay: the job still holds them.
 */
#include <stdlib.h>

#include "model/flow/flow.h"
#include "model/segments/gpu.h"
#include "model/model_blocks.h"
#include "model/model_oom.h"
#include "model/model_learned.h"
#include "model/state.h"

/* Drops all blocks of an address space that is gone. Walks the whole table, but only if there are any. */
static void model__drop_blocks(struct model *m, uint32_t pid, struct proc *p)
{
	const struct block *b;
	size_t pos = 0;

	tensors__drop_pid(&m->tensors, pid);
	modules__drop_pid(&m->modules, pid);
	if (!p->live_cnt && !m->procs.other.live_cnt)
		return;
	lateset__done(&p->late);
	while ((b = blocks__next(m->blocks, &pos)))
		if (b->pid == pid)
			model__drop(m, b, p);
}

static void model__drop_threads(struct model *m, uint32_t pid)
{
	threads__drop_pid(m->threads, pid);
	m->last = NULL;
}

static void model__rss_changed(struct model *m)
{
	series_acc__set(&m->rss, m->now_ns, m->procs.rss_total);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		series_acc__set(&m->rss_kinds[i], m->now_ns, m->procs.rss_by_kind[i]);
	series_acc__set(&m->pss, m->now_ns, m->procs.use_total[MT_USE_PSS]);
	series_acc__set(&m->huge, m->now_ns, m->procs.use_total[MT_USE_HUGE]);
}

static void model__use(struct model *m, const struct event *ev, struct proc *p)
{
	if (ev->aux >= MT_USES || ev->size > LIVE_MAX) {
		m->lost[MT_LOSS_DECODE]++;
		return;
	}
	if (!p->listed)
		return;
	proc__set_use(&m->procs, p, ev, m->now_ns);
	model__rss_changed(m);
}

/* Drops its memory, its threads and what is known of both. */
static void model__drop_image(struct model *m, uint32_t pid, struct proc *p)
{
	if (m->graph)
		graph__close_pid(m->graph, pid);
	model__drop_blocks(m, pid, p);
	growth__drop_pid(&m->growth, pid);
	if (m->gpu)
		gpu__drop_pid(m->gpu, pid);
	model__drop_threads(m, pid);
	if (m->graph)
		graph__drop_pid(m->graph, pid);
}

static void model__exited(struct model *m, uint32_t pid, struct proc *p)
{
	if (p->listed)
		p->live_at_exit = p->fw.peak ? p->fw.live : p->host.live;
	growth__over(m, p);
	model__drop_image(m, pid, p);
	caught__forget(&m->caught, pid);
	if (!p->listed)
		return;
	free(p->lately); /* nothing is reported of it any more */
	model__learned_drop(m, p);
	p->lately = NULL;
	p->exit_ts_ns = p->exit_ts_ns ?: m->now_ns;
	procs__exited(&m->procs, p);
	model__rss_changed(m);
}

static void model__execed(struct model *m, uint32_t pid, struct proc *p)
{
	model__drop_image(m, pid, p);
	p->covered = 0; /* by other probes, which are to be set yet */
	p->covered_ns = 0;
	if (!p->listed)
		return;
	proc__clear_maps(p);
	model__learned_drop(m, p);
	saved__free(p->saved); /* of the program that it was */
	p->saved = NULL;
	p->is_outside = p->has_graphs = p->has_step_regions = false;
	p->clearings = 0;
}

static void model__proc(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);
	bool full = false;

	if (ev->pid == m->reported.main_pid) {
		m->main_comm = ev->name;
		m->main_cmdline = (name_id){ ev->addr < NAMES_MAX ? (uint32_t)ev->addr : 0 };
	}
	if (p && p->gone != 1 && p->reported && ev->flags != EV_PROC_EXECED && ev->size && p->start_ns &&
	    p->start_ns != ev->size)
		model__exited(m, ev->pid, p); /* the pid is another process's now */
	p = procs__find(&m->procs, ev->pid);
	if (p && p->gone == 1) {
		model__drop_threads(m, ev->pid);
		p = procs__new_life(&m->procs, ev->pid, &full);
	} else {
		p = procs__get(&m->procs, ev->pid, &full);
		if (ev->flags == EV_PROC_EXECED)
			model__execed(m, ev->pid, p);
	}
	m->lost[MT_LOSS_THREADS] += full;
	if (!p->listed)
		return;
	p->reported = true;
	p->gone = 0;
	p->ppid = ev->aux ? ev->aux : p->ppid;
	p->how = ev->flags;
	p->comm = ev->name;
	p->cmdline = (name_id){ ev->addr < NAMES_MAX ? (uint32_t)ev->addr : 0 };
	p->start_ns = ev->size ? ev->size : p->start_ns;
}

static void model__gone(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);

	if (p && p->gone == 1)
		return;
	if (ev->flags == 1) {
		if (p)
			p->gone = 2;
		return;
	}
	if (p) {
		p->exit_status = ev->aux ? ev->aux : p->exit_status;
		model__oom_death(m, ev->pid, p, p->exit_status);
	}
	model__exited(m, ev->pid, p ? p : &m->procs.other);
}

/* The kernel's report of an exit may come after ours. */
static void model__exit(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);

	if (!p)
		return;
	p->exit_status = (uint32_t)ev->addr;
	p->exit_ts_ns = p->exit_ts_ns ?: m->now_ns;
	if (p->gone != 1)
		model__oom_death(m, ev->pid, p, p->exit_status);
	if (ev->size > p->rss_peak)
		p->rss_peak = ev->size;
}

static void model__rss(struct model *m, const struct event *ev, struct proc *p)
{
	if (ev->addr >= MT_RSS_KINDS) {
		m->lost[MT_LOSS_DECODE]++;
		return;
	}
	if (!p->listed)
		return;
	proc__set_rss(&m->procs, p, (uint32_t)ev->addr, ev->size);
	model__rss_changed(m);
}

static void model__comm(struct model *m, const struct event *ev, struct proc *p)
{
	if (ev->tid && ev->tid != ev->pid)
		return; /* a thread's own name */
	if (p->listed)
		p->comm = ev->name;
	if (ev->pid == m->reported.main_pid)
		m->main_comm = ev->name;
}

/* Events that only a running process can have. */
static void model__living(struct model *m, const struct event *ev)
{
	bool full = false;
	struct proc *p = procs__get(&m->procs, ev->pid, &full);

	m->lost[MT_LOSS_THREADS] += full;
	if (ev->kind == EV_CPU) {
		proc__set_cpu(p, ev->size); /* the last reading of a process may be of its zombie */
		return;
	}
	if (p->gone == 1)
		return;
	switch (ev->kind) {
	case EV_COMM:
		model__comm(m, ev, p);
		break;
	case EV_LABEL:
		if (p->listed)
			proc__add_label(p, m->names, ev->name);
		break;
	case MT_EV_RSS:
		model__rss(m, ev, p);
		break;
	case EV_USE:
		model__use(m, ev, p);
		break;
	case MT_EV_MUNMAP:
		if (p->late.cnt && !(ev->flags & MT_MAP_REMAP))
			model__unmapped(m, ev, p);
		/* fall through */
	default:
		m->lost[MT_LOSS_BLOCKS] += p->listed && !proc__map(p, ev);
	}
}

void model__handle_proc(struct model *m, const struct event *ev)
{
	switch (ev->kind) {
	case EV_PROC:
		model__proc(m, ev);
		break;
	case EV_GONE:
		model__gone(m, ev);
		break;
	case MT_EV_EXIT:
		model__exit(m, ev);
		break;
	default:
		model__living(m, ev);
	}
}
