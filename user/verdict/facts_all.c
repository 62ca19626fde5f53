/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* All facts, once for all rules; what is a few lines of a report stands here. */
#include <stdlib.h>
#include <sys/wait.h>

#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

/* What a GPU's allocator reserved at most and never gave out; of the one that reserved most. */
static struct facts_idle facts_of_idle(const struct report *r)
{
	struct facts_idle f = { .dev = NULL };
	const struct report_segments *s;
	uint64_t used;

	for (size_t i = 0; i < r->devs_cnt; i++)
		if (r->devs[i].segs.totals && (!f.dev || r->devs[i].segs.reserved_peak > f.dev->segs.reserved_peak))
			f.dev = &r->devs[i];
	if (!f.dev)
		return f;
	s = &f.dev->segs;
	f.of_all = s->counted_allocated_peak > s->allocated_peak;
	used = f.of_all ? s->counted_allocated_peak : s->allocated_peak;
	f.reserved = s->reserved_peak;
	f.bytes = f.reserved > used ? f.reserved - used : 0;
	f.in_pieces = s->inactive >= s->free_cached;
	f.is_full = s->nvml_total && f.reserved >= s->nvml_total / 100 * FULL_PERCENT;
	return f;
}

static const struct report_oom *facts_death(const struct report *r)
{
	for (size_t i = r->ooms.cnt; i-- > 0;)
		if (!signal_sends_away(WTERMSIG((int)r->ooms.rows[i].exit_status)))
			return &r->ooms.rows[i];
	return NULL;
}

static int is_grown(const struct report *r, const struct report_dev *d)
{
	uint64_t grown = 0;

	for (size_t i = 0; i < r->leaks.cnt; i++) {
		const struct report_leak *l = &r->leaks.rows[i];
		int is_here = !l->is_over || l->pid == r->run.pid; /* others may never have lived together */

		if (is_here && l->dev == d->dev && l->sure >= SURE_MEDIUM)
			grown += l->live < d->peak ? l->live : d->peak;
	}
	return grown && grown >= d->peak / GROWN_PART;
}

/* Whether the process is known to be of another job than the one that ended so. */
static bool is_apart(const struct report *r, const struct report_proc *p, const struct report_oom *end)
{
	uint32_t *of = p && end ? facts_jobs_of_procs(r) : NULL;
	bool is_found = false, is_same = false;

	for (size_t i = 0; of && i < r->procs_cnt; i++) {
		if (r->procs[i].pid != end->pid)
			continue;
		is_found = true;
		is_same |= of[i] == of[p - r->procs];
	}
	free(of);
	return is_found && !is_same;
}

struct facts facts_of(const struct report *r)
{
	const struct report_dev *d = facts_device(r);
	struct facts f = { .device = d, .is_untraced = facts_is_untraced(r), .refusal = facts_refusal(r),
			   .death = facts_death(r), .failed = facts_of_failed(r), .steps = facts_of_steps(r),
			   .unseen = facts_of_unseen(r), .ranks = facts_of_ranks(r),
			   .jobs = facts_of_jobs(r, d), .idle = facts_of_idle(r),
			   .workers = facts_of_workers(r), .holes = facts_of_holes(r), .growing = facts_of_growing(r),
			   .beside = facts_of_beside(r), .recompiles = facts_of_recompiles(r) };

	f.failed.is_apart = (f.refusal || f.death) && (!f.refusal || is_apart(r, f.failed.proc, f.refusal)) &&
			    (!f.death || is_apart(r, f.failed.proc, f.death));
	if (f.refusal)
		f.rise = facts_of_rise(r, f.refusal);
	if (!d)
		return f;
	f.is_grown = is_grown(r, d);
	f.kept = report_cat__plain(&d->cats[CAT_ACTIVATION]);
	f.state = report_cat__plain(&d->cats[CAT_PARAMETER]) + report_cat__plain(&d->cats[CAT_OPTIMIZER_STATE]) +
		  report_cat__plain(&d->cats[CAT_GRADIENT]) + report_cat__plain(&d->cats[CAT_FROZEN]) +
		  report_cat__plain(&d->cats[CAT_BUFFER]);
	return f;
}
