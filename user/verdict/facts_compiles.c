/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What torch.compile has compiled again, and what it does not compile any more. */
#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"
#include "verdict/facts.h"

static const struct report_recompile *given_up(const struct report_compiles *c)
{
	for (size_t i = 0; i < c->rows_cnt; i++)
		if (recompile_gave_up(&c->rows[i]))
			return &c->rows[i];
	return NULL;
}

/* The last one of those that are most often alike, of a job's. */
static void find_most(struct facts_recompiles *f, const struct report_compiles *c, const uint32_t *jobs, uint32_t job)
{
	size_t most = 0;

	for (size_t i = c->rows_cnt; i-- > 0;) {
		size_t cnt = 0;
		bool varies = false;

		for (size_t k = 0; k <= i && jobs[i] == job; k++)
			if (jobs[k] == job && recompile_is_alike(&c->rows[i], &c->rows[k])) {
				varies |= strcmp(c->rows[i].reason, c->rows[k].reason) != 0;
				cnt++;
			}
		if (cnt <= most)
			continue;
		most = cnt;
		f->last = &c->rows[i];
		f->varies = varies;
	}
}

/* jobs: of each row its job. */
static struct facts_recompiles of_job(const struct report *r, const uint32_t *jobs, uint32_t job)
{
	const struct report_compiles *c = &r->compiles;
	struct facts_recompiles f = { 0 };

	for (size_t i = 0; i < c->rows_cnt; i++) {
		const struct report_recompile *k = &c->rows[i];

		if (jobs[i] != job || k->before)
			continue;
		f.cnt++;
		f.ns += k->ns < UINT64_MAX - f.ns ? k->ns : 0;
		f.added = k->added > f.added ? k->added : f.added;
	}
	if (f.cnt)
		find_most(&f, c, jobs, job);
	return f;
}

static struct facts_recompiles all_of(const struct report *r)
{
	const struct report_compiles *c = &r->compiles;
	struct facts_recompiles f = { .cnt = c->again, .ns = c->again_ns, .added = c->added };
	const struct report_dev *d = facts_device(r);

	if (!c->whys_cnt)
		return (struct facts_recompiles){ 0 };
	f.last = c->whys[0].last;
	f.varies = c->whys[0].varies;
	f.peak = d ? d->peak : 0;
	return f;
}

/* Of several jobs the one that it took longest in, as far as the report has rows of it. */
static struct facts_recompiles longest(const struct report *r, const uint32_t *of, uint32_t *jobs)
{
	struct facts_recompiles most = { 0 };

	for (size_t i = 0; i < r->compiles.rows_cnt; i++) {
		const struct report_proc *p = report_proc_last(r, r->compiles.rows[i].pid);

		jobs[i] = p ? of[p - r->procs] : 0;
	}
	for (size_t i = 0; i < r->compiles.rows_cnt; i++) {
		size_t k = 0;
		struct facts_recompiles f;

		while (jobs[k] != jobs[i])
			k++;
		if (k < i || !jobs[i])
			continue;
		f = of_job(r, jobs, jobs[i]);
		if (f.cnt && (f.ns > most.ns || !most.cnt))
			most = f;
	}
	if (most.cnt) {
		most.proc = report_proc_last(r, most.last->pid);
		most.peak = most.proc->peak;
	}
	return most;
}

struct facts_recompiles facts_of_recompiles(const struct report *r)
{
	uint32_t *of = r->compiles.rows_cnt ? facts_jobs_of_procs(r) : NULL;
	uint32_t *jobs = of ? calloc(r->compiles.rows_cnt, sizeof(*jobs)) : NULL;
	struct facts_recompiles f = jobs ? longest(r, of, jobs) : all_of(r);
	const struct report_recompile *k = given_up(&r->compiles);

	f.given_up = k;
	if (k && jobs)
		f.given_up_by = report_proc_last(r, k->pid);
	free(of);
	free(jobs);
	return f;
}
