/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The memory of ranks, compared with each other. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "event/rank_label.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

#define RANKS_SEEN 1024

struct row {
	uint32_t rank;
	uint64_t bytes;
};

struct rows {
	struct row all[RANKS_SEEN];
	size_t cnt;
};

/* NULL: there are too many. */
static struct row *rows__get(struct rows *rows, uint32_t rank)
{
	size_t k = 0;

	while (k < rows->cnt && rows->all[k].rank != rank)
		k++;
	if (k == RANKS_SEEN)
		return NULL;
	if (k == rows->cnt)
		rows->all[rows->cnt++] = (struct row){ .rank = rank };
	return &rows->all[k];
}

static int by_bytes(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;

	return cmp_up(a->bytes, b->bytes);
}

/* Sorts them. */
static uint64_t rows__median(struct rows *rows)
{
	qsort(rows->all, rows->cnt, sizeof(*rows->all), by_bytes);
	return rows->cnt ? rows->all[(rows->cnt - 1) / 2].bytes : 0;
}

static struct facts_ranks judged(const struct report_ranks *k)
{
	for (size_t i = 0; i < k->outliers_cnt; i++) {
		const struct report_rank *row = &k->rows[k->outliers[i].row];

		if (k->outliers[i].score > 0 && row->peak > row->median_peak)
			return (struct facts_ranks){ k->cnt, 1, row->rank, row->peak, row->median_peak };
	}
	return (struct facts_ranks){ 0 };
}

/* Of one job, of: of each process its job; NULL: all are one. */
static struct facts_ranks of_job(const struct report *r, const uint32_t *of, uint32_t job)
{
	struct rows *rows = calloc(1, sizeof(*rows));
	struct facts_ranks f = { 0 };

	for (size_t i = 0; rows && i < r->procs_cnt; i++) {
		struct rank_label l = report_proc_label(&r->procs[i]);
		struct row *row;
		uint32_t rank;

		if ((of && of[i] != job) || rank_label__rank(&l, &rank) == RANK_NONE || !r->procs[i].peak)
			continue;
		row = rows__get(rows, rank);
		if (row && r->procs[i].peak > row->bytes)
			row->bytes = r->procs[i].peak;
		if (of && (!f.proc || r->procs[i].peak > f.proc->peak))
			f.proc = &r->procs[i];
	}
	if (rows && rows->cnt) {
		f.cnt = rows->cnt;
		f.median = rows__median(rows);
		f.rank = rows->all[f.cnt - 1].rank;
		f.peak = rows->all[f.cnt - 1].bytes;
	}
	free(rows);
	return f;
}

/* Of several jobs the one whose highest rank is the most times its own median. */
struct facts_ranks facts_of_ranks(const struct report *r)
{
	uint32_t *of = r->ranks ? NULL : facts_jobs_of_procs(r), jobs = 0;
	struct facts_ranks best = r->ranks ? judged(r->ranks) : of_job(r, of, 1);

	for (size_t i = 0; of && i < r->procs_cnt; i++)
		jobs = of[i] > jobs ? of[i] : jobs;
	for (uint32_t job = 2; job <= jobs; job++) {
		struct facts_ranks f = of_job(r, of, job);
		bool is_more = (double)f.peak * (double)best.median > (double)best.peak * (double)f.median;

		if (f.cnt >= RANKS_LEAST && (is_more || best.cnt < RANKS_LEAST))
			best = f;
	}
	free(of);
	return best;
}

uint64_t facts_ranks_on(const struct report *r, uint8_t dev)
{
	struct rows *rows = dev == MT_DEV_CPU ? calloc(1, sizeof(*rows)) : NULL;
	uint64_t cnt = 0;
	uint32_t of;

	for (size_t i = 0; rows && i < r->procs_cnt; i++)
		if (r->procs[i].peak && report_rank(r, r->procs[i].pid, &of))
			rows__get(rows, of);
	cnt = rows ? rows->cnt : 0;
	free(rows);
	return cnt ? cnt : 1;
}

uint64_t facts_buckets(const struct report *r, const struct report_dev *d)
{
	uint64_t made = 0, wordless = d->cats[CAT_UNKNOWN].at_peak + d->cats[CAT_COMMUNICATION].at_peak;

	for (size_t i = 0; i < r->modules.cnt; i++) {
		const struct report_module *m = &r->modules.rows[i];

		if (!m->parent && m->class && !strcmp(m->class, "DistributedDataParallel"))
			made += m->own.at_peak;
	}
	return made < wordless ? made : wordless;
}

static uint64_t held_by(const struct report_module *m)
{
	return m->all.at_peak + m->kinds[EV_TENSOR_PARAMETER] + m->kinds[EV_TENSOR_BUFFER] + m->kinds[EV_TENSOR_STATE];
}

/* The job that a process is of, where there are several; of: facts_jobs_of_procs(). */
static bool is_of(const struct report *r, const uint32_t *of, uint32_t pid, const struct report_proc *one)
{
	for (size_t i = 0; of && one && i < r->procs_cnt; i++)
		if (r->procs[i].pid == pid)
			return of[i] == of[one - r->procs];
	return true;
}

uint64_t facts_modules_more(const struct report *r, const struct facts_ranks *f)
{
	uint32_t *jobs = f->proc ? facts_jobs_of_procs(r) : NULL, of;
	struct rows *rows = calloc(1, sizeof(*rows));
	uint64_t has = 0, median;
	struct row *row;

	for (size_t i = 0; rows && i < r->procs_cnt; i++)
		if (is_of(r, jobs, r->procs[i].pid, f->proc) && report_rank(r, r->procs[i].pid, &of))
			rows__get(rows, of);
	for (size_t i = 0; rows && i < r->modules.cnt; i++) {
		const struct report_module *m = &r->modules.rows[i];
		bool is_ours = !m->parent && is_of(r, jobs, m->pid, f->proc) && report_rank(r, m->pid, &of);

		row = is_ours ? rows__get(rows, of) : NULL;
		if (row)
			row->bytes += held_by(m);
	}
	row = rows ? rows__get(rows, f->rank) : NULL;
	has = row ? row->bytes : 0;
	median = rows ? rows__median(rows) : 0;
	free(rows);
	free(jobs);
	return has > median ? has - median : 0;
}
