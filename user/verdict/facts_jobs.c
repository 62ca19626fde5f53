/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Which processes are one job: those below one traced process, and ranks that connect at one address, that have the same run's
 * name, or, where neither is known, that one process has launched. Each is read once, and then sorted by either.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/array.h"
#include "base/free.h"
#include "event/event.h"
#include "event/rank_label.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

#define UP_MAX 16
#define PROCS_LOOKED_AT 1024 /* the largest */

/* A pid and its first process. */
struct pid_at {
	uint64_t pid;
	const struct report_proc *proc;
};

struct member {
	const struct report_proc *proc, *root;
	uint64_t peak;
	char meets[RANK_TEXT_BYTES + 32]; /* what ranks of one job have in common; "" no rank */
	struct member *of;		  /* one of the same job with a higher peak, or itself */
};

struct jobs {
	struct pid_at *pids;
	struct member *all, **sorted;
	size_t pids_cnt, cnt;
};

static int by_pid(const void *pa, const void *pb)
{
	const struct pid_at *a = pa, *b = pb;

	return u64_cmp(a, b) ?: cmp_up(a->proc, b->proc);
}

static const struct report_proc *parent_of(const struct jobs *j, const struct report_proc *p)
{
	size_t low = 0, high = j->pids_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (j->pids[mid].pid < p->ppid)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < j->pids_cnt && j->pids[low].pid == p->ppid && j->pids[low].proc == p)
		low++; /* an earlier process with that pid */
	return p->ppid && low < j->pids_cnt && j->pids[low].pid == p->ppid ? j->pids[low].proc : NULL;
}

/* Its rank is its own, or that of the nearest one above it that has one. */
static void look_up(struct member *m, const struct jobs *j)
{
	struct rank_label label = { 0 };
	enum rank_source source = RANK_NONE;
	const struct report_proc *up = m->proc;
	uint32_t rank;

	for (int i = 0; up && i <= UP_MAX; i++, up = parent_of(j, up)) {
		m->root = up;
		if (source != RANK_NONE)
			continue;
		label = report_proc_label(up);
		source = rank_label__rank(&label, &rank);
	}
	if (source == RANK_NONE)
		return;
	if (label.port[0])
		snprintf(m->meets, sizeof(m->meets), "at %s:%s", label.addr, label.port);
	else if (label.job[0])
		snprintf(m->meets, sizeof(m->meets), "of %s", label.job);
	else
		snprintf(m->meets, sizeof(m->meets), "below %u", m->root->ppid);
}

static uint64_t peak_on(const struct report_proc *p, uint8_t dev)
{
	for (size_t i = 0; i < p->devs_cnt; i++)
		if (p->devs[i].dev == dev)
			return p->devs[i].peak;
	return dev == MT_DEV_HOST ? p->host_peak : 0;
}

static int by_peak(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;

	return cmp_down(a->peak, b->peak) ?: cmp_up(a->proc->pid, b->proc->pid);
}

/* With memory; or any process, for whose they are. */
static void find_members(struct jobs *j, const struct report *r, uint8_t dev, bool is_any)
{
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];
		uint64_t peak = peak_on(p, dev);

		j->pids[j->pids_cnt++] = (struct pid_at){ p->pid, p };
		if (p->pid && (is_any || peak || (p->peak && dev != MT_DEV_HOST)))
			j->all[j->cnt++] = (struct member){ .proc = p, .peak = peak };
	}
	qsort(j->pids, j->pids_cnt, sizeof(*j->pids), by_pid);
	qsort(j->all, j->cnt, sizeof(*j->all), by_peak);
	j->cnt = j->cnt < PROCS_LOOKED_AT ? j->cnt : PROCS_LOOKED_AT;
	for (size_t i = 0; i < j->cnt; i++) {
		j->all[i].of = j->sorted[i] = &j->all[i];
		look_up(&j->all[i], j);
	}
}

/* The one of its job with the highest peak. */
static struct member *first_of(struct member *m)
{
	for (; m->of != m; m = m->of)
		m->of = m->of->of;
	return m;
}

static int by_root(const void *pa, const void *pb)
{
	const struct member *a = *(struct member *const *)pa, *b = *(struct member *const *)pb;

	return cmp_up(a->root, b->root);
}

static int by_meets(const void *pa, const void *pb)
{
	const struct member *a = *(struct member *const *)pa, *b = *(struct member *const *)pb;

	return strcmp(a->meets, b->meets);
}

static void join(struct jobs *j, int (*by)(const void *, const void *))
{
	qsort(j->sorted, j->cnt, sizeof(*j->sorted), by);
	for (size_t i = 1; i < j->cnt; i++) {
		struct member *a = first_of(j->sorted[i - 1]), *b = first_of(j->sorted[i]);

		if (by(&j->sorted[i - 1], &j->sorted[i]) || (by == by_meets && !j->sorted[i]->meets[0]))
			continue;
		if (a < b)
			b->of = a;
		else
			a->of = b;
	}
}

static struct facts_jobs count(struct jobs *j)
{
	struct facts_jobs f = { 0 };

	for (size_t i = 0; i < j->cnt; i++) { /* the first one of a job has its highest peak */
		const struct member *m = &j->all[i];

		if (m->of != m)
			continue;
		if (f.cnt < JOBS_NAMED)
			f.first[f.cnt] = (struct facts_job){ m->proc, m->peak, 0 };
		f.cnt++;
		f.on_device += m->peak != 0;
		f.large += m->peak >= j->all[0].peak / 100 * PART_PERCENT;
	}
	for (size_t i = 0; i < j->cnt; i++)
		for (size_t k = 0; k < f.cnt && k < JOBS_NAMED; k++)
			f.first[k].procs += first_of(&j->all[i])->proc == f.first[k].highest;
	return f;
}

/* false: there is no memory for it. */
static bool jobs__make(struct jobs *j, const struct report *r, uint8_t dev, bool is_any)
{
	j->pids = calloc(r->procs_cnt, sizeof(*j->pids));
	j->all = calloc(r->procs_cnt, sizeof(*j->all));
	j->sorted = calloc(r->procs_cnt, sizeof(*j->sorted));
	if (!j->pids || !j->all || !j->sorted)
		return false;
	find_members(j, r, dev, is_any);
	join(j, by_root);
	join(j, by_meets);
	return true;
}

static void jobs__done(struct jobs *j)
{
	free_all(j->pids, j->all, j->sorted);
}

struct facts_jobs facts_of_jobs(const struct report *r, const struct report_dev *d)
{
	struct facts_jobs f = { 0 };
	struct jobs j = { 0 };

	if (!d || r->procs_cnt < 2)
		return f;
	if (jobs__make(&j, r, d->dev, false))
		f = count(&j);
	jobs__done(&j);
	return f;
}

uint32_t *facts_jobs_of_procs(const struct report *r)
{
	const struct report_dev *d = facts_device(r);
	uint32_t *ret = facts_of_jobs(r, d).cnt > 1 ? calloc(r->procs_cnt, sizeof(*ret)) : NULL;
	struct jobs j = { 0 };

	if (ret && jobs__make(&j, r, d->dev, true))
		for (size_t i = 0; i < j.cnt; i++) /* numbered as the first of each lies */
			ret[j.all[i].proc - r->procs] = (uint32_t)(first_of(&j.all[i]) - j.all) + 1;
	jobs__done(&j);
	return ret;
}

/* --- which of them failed ---------------------------------------------------------------------------------- */

static bool has_failed(const struct report_proc *p)
{
	return p->gone == 1 && WIFEXITED((int)p->exit_status) && WEXITSTATUS((int)p->exit_status);
}

static const struct report_proc *earlier(const struct report_proc *a, const struct report_proc *b)
{
	return !a || b->exit_ts_ns < a->exit_ts_ns ? b : a;
}

/* What torch asks as it starts (a compiler, nvidia-smi) may fail, and nothing is wrong: it has no tensors. */
static struct facts_failed failed(struct jobs *j, uint32_t main_pid)
{
	struct facts_failed f = { .proc = NULL };
	const struct report_proc *last = NULL;
	size_t cnt = 0;

	qsort(j->sorted, j->cnt, sizeof(*j->sorted), by_root);
	for (size_t i = 0; i < j->cnt; i++) {
		const struct report_proc *p = j->sorted[i]->root;
		bool is_asked = p->pid == main_pid;

		if (p == last || !has_failed(p) || (!is_asked && !j->sorted[i]->proc->peak))
			continue;
		last = p;
		cnt++;
		if (is_asked || !f.proc || f.proc->pid != main_pid)
			f.proc = is_asked ? p : earlier(f.proc, p);
	}
	for (size_t i = 0; f.proc && i < j->cnt; i++) {
		const struct member *m = &j->all[i];

		if (m->root == f.proc && m->proc != f.proc && m->proc->peak && has_failed(m->proc))
			f.first = earlier(f.first, m->proc);
	}
	f.others = cnt ? cnt - 1 : 0;
	return f;
}

struct facts_failed facts_of_failed(const struct report *r)
{
	struct facts_failed f = { .proc = NULL };
	struct jobs j = { 0 };

	if (r->procs_cnt && jobs__make(&j, r, MT_DEV_CPU, true))
		f = failed(&j, r->run.pid);
	jobs__done(&j);
	return f;
}
