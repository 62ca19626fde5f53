/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Which processes are one job: those below one traced process, and ranks that meet at one place, that the same run names, or,
 * where neither is told, that one process has launched.
 */
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "event/rank_label.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

#define UP_MAX 16
#define PROCS_LOOKED_AT 1024

struct member {
	const struct report_proc *proc, *root;
	uint64_t peak;
	size_t of; /* the first one of its job */
};

static const struct report_proc *parent_of(const struct report *r, const struct report_proc *p)
{
	for (size_t i = 0; p->ppid && i < r->procs_cnt; i++)
		if (r->procs[i].pid == p->ppid && &r->procs[i] != p)
			return &r->procs[i];
	return NULL;
}

static const struct report_proc *root_of(const struct report *r, const struct report_proc *p)
{
	const struct report_proc *up;

	for (int i = 0; i < UP_MAX && (up = parent_of(r, p)); i++)
		p = up;
	return p;
}

static bool is_one_job(const struct report *r, const struct member *a, const struct member *b)
{
	const struct report_proc *first_a = report_rank_first(r, a->proc->pid), *first_b = report_rank_first(r, b->proc->pid);
	struct rank_label la, lb;

	if (a->root == b->root)
		return true;
	if (!first_a || !first_b)
		return false;
	la = report_proc_label(first_a);
	lb = report_proc_label(first_b);
	if (la.port[0] && lb.port[0])
		return !strcmp(la.port, lb.port) && !strcmp(la.addr, lb.addr);
	if (la.job[0] || lb.job[0])
		return !strcmp(la.job, lb.job);
	return a->root->ppid == b->root->ppid;
}

static int by_peak(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;

	if (a->peak != b->peak)
		return a->peak > b->peak ? -1 : 1;
	return a->proc->pid < b->proc->pid ? -1 : a->proc->pid > b->proc->pid;
}

static size_t members_of(const struct report *r, bool is_host, struct member *all)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->procs_cnt && cnt < PROCS_LOOKED_AT; i++) {
		const struct report_proc *p = &r->procs[i];
		uint64_t peak = is_host ? p->host_peak : p->peak;

		if (p->pid && peak)
			all[cnt++] = (struct member){ .proc = p, .root = root_of(r, p), .peak = peak };
	}
	qsort(all, cnt, sizeof(*all), by_peak);
	return cnt;
}

struct facts_jobs facts_of_jobs(const struct report *r, const struct report_dev *d)
{
	struct member *all = d && r->procs_cnt > 1 ? calloc(PROCS_LOOKED_AT, sizeof(*all)) : NULL;
	size_t cnt = all ? members_of(r, d->dev == MT_DEV_HOST, all) : 0;
	struct facts_jobs f = { 0 };

	for (size_t i = 0; i < cnt; i++) { /* the first one of a job has its highest peak */
		all[i].of = 0;
		while (all[i].of < i && (all[all[i].of].of != all[i].of || !is_one_job(r, &all[all[i].of], &all[i])))
			all[i].of++;
		if (all[i].of < i)
			continue;
		if (f.cnt < JOBS_NAMED)
			f.first[f.cnt] = (struct facts_job){ all[i].proc, all[i].peak, 0 };
		f.cnt++;
		f.large += all[i].peak >= all[0].peak / 100 * PART_PERCENT;
	}
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < f.cnt && k < JOBS_NAMED; k++)
			f.first[k].procs += all[all[i].of].proc == f.first[k].highest;
	free(all);
	return f;
}
