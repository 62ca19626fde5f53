/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/rank_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"

struct ranked_proc {
	const struct report_proc *first; /* NULL: no rank */
	struct rank_label label;
	uint32_t rank;
	bool is_claimed; /* its number in its job is another's, too */
	bool is_split;	 /* … or one of its job's is */
};

static bool is_same_job(const struct ranked_proc *a, const struct ranked_proc *b)
{
	return a->first && b->first && !strcmp(a->label.job, b->label.job);
}

static void find_claims(struct ranked_proc *all, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < i; k++)
			if (is_same_job(&all[i], &all[k]) && all[i].rank == all[k].rank &&
			    all[i].first->ppid != all[k].first->ppid)
				all[i].is_claimed = all[k].is_claimed = true;
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < cnt; k++)
			all[i].is_split = all[i].is_split || (all[k].is_claimed && is_same_job(&all[i], &all[k]));
}

/* Returns whether there are several jobs. */
static bool name_jobs(struct ranked_proc *all, size_t cnt)
{
	const struct ranked_proc *any = NULL;
	bool has_jobs = false;

	find_claims(all, cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (all[i].is_split)
			rank_label__name_job(&all[i].label, all[i].first->ppid & ((1u << EV_MACHINE_SHIFT) - 1));
		has_jobs = has_jobs || (any && all[i].first && !is_same_job(any, &all[i]));
		any = all[i].first ? &all[i] : any;
	}
	return has_jobs;
}

static void put_text(struct rank_name *name, const struct ranked_proc *k, bool has_jobs)
{
	if (k->first)
		snprintf(name->text, sizeof(name->text), "rank %" PRIu32 "%s%s", k->rank,
			 has_jobs && k->label.job[0] ? " " : "", has_jobs ? k->label.job : "");
}

int rank_names__fill(struct rank_name *names, size_t cnt, const struct report *r)
{
	struct ranked_proc *all = calloc(r->procs_cnt + 1, sizeof(*all));
	bool has_jobs;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < r->procs_cnt; i++) {
		all[i].first = report_rank_first(r, r->procs[i].pid);
		if (!all[i].first)
			continue;
		all[i].label = report_proc_label(all[i].first);
		(void)rank_label__rank(&all[i].label, &all[i].rank);
	}
	has_jobs = name_jobs(all, r->procs_cnt);
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < r->procs_cnt; k++)
			if (r->procs[k].pid == names[i].pid)
				put_text(&names[i], &all[k], has_jobs);
	free(all);
	return 0;
}
