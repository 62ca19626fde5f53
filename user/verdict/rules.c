/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * All rules, to be read from top to bottom: first when each of them applies, by the thresholds of rules.h, then the table of
 * their order. Their sentences are in say.h's files; the numbers that they look at are in facts.h.
 */
#include "verdict/rules.h"

#include <sys/wait.h>

#include "event/event.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/say.h"

static enum verdict_severity if_so(int is_so, enum verdict_severity severity)
{
	return is_so ? severity : SILENT;
}

/* --- the end ---------------------------------------------------------------------------------------------- */

/* Memory was refused, or the kernel killed for want of it. */
static enum verdict_severity when_refused(const struct judge *j)
{
	return if_so(j->f->refusal != NULL, VERDICT_PROBLEM);
}

/* By a signal, which alone is no sign of a problem with memory; anybody may send SIGKILL. */
static enum verdict_severity when_died(const struct judge *j)
{
	const struct report_oom *o = j->f->death;

	if (j->f->refusal || !o)
		return SILENT;
	return WTERMSIG((int)o->exit_status) == SIGKILL ? VERDICT_HINT : VERDICT_PROBLEM;
}

/* A process that was traced itself, not as another one's child, exited with an error. */
static enum verdict_severity when_exit(const struct judge *j)
{
	return if_so(j->f->failed.proc && (j->f->failed.is_apart || (!j->f->refusal && !j->f->death)), VERDICT_HINT);
}

/* --- what grows ------------------------------------------------------------------------------------------- */

/* The peak to compare it with: of several jobs that of its own process. */
static uint64_t leak_of(const struct judge *j, const struct report_leak *row, const struct report_dev *d)
{
	for (size_t i = 0; j->f->jobs.cnt > 1 && i < j->r->procs_cnt; i++)
		if (j->r->procs[i].pid == row->pid && j->r->procs[i].peak)
			return j->r->procs[i].peak < d->peak ? j->r->procs[i].peak : d->peak;
	return d->peak;
}

/* A place of blocks. */
static enum verdict_severity when_leak(const struct judge *j)
{
	const struct report_leak *row = j->r->leaks.rows;
	const struct report_dev *d = j->f->device;

	if (!j->r->leaks.cnt)
		return SILENT;
	if (row->sure >= SURE_MEDIUM && d && facts_leak_bytes(j->r, row) >= (double)leak_of(j, row, d) / LEAK_SHARE)
		return VERDICT_PROBLEM;
	return VERDICT_HINT;
}

/* Memory beside tensors: GROWING_* are in facts_of_growing(). */
static enum verdict_severity when_rss(const struct judge *j)
{
	uint64_t grown = j->f->growing.grown;
	int is_workers = !j->f->growing.proc && j->f->workers.grown > grown / WORKERS_GROW_PART; /* of several jobs: apart */

	return if_so(grown && !j->r->leaks.cnt && !is_workers, VERDICT_HINT);
}

/* --- outliers, and unused memory --------------------------------------------------------------------------- */

static enum verdict_severity when_rank(const struct judge *j)
{
	const struct facts_ranks *f = &j->f->ranks;

	int is_far = f->cnt >= RANKS_LEAST && (double)f->peak >= RANK_RATIO * (double)f->median;

	return if_so(is_far || f->is_judged, VERDICT_PROBLEM);
}

/* A device whose memory is nearly all reserved misses what is idle. */
static enum verdict_severity when_idle(const struct judge *j)
{
	const struct facts_idle *f = &j->f->idle;

	if (!f->dev || f->bytes < IDLE_LEAST || f->bytes < f->reserved / 100 * IDLE_PERCENT)
		return SILENT;
	if (f->dev->ooms || f->is_full)
		return VERDICT_PROBLEM;
	return if_so(f->bytes >= f->dev->segs.nvml_total / 100 * DEVICE_PERCENT, VERDICT_HINT);
}

/* Between blocks. */
static enum verdict_severity when_in_pieces(const struct judge *j)
{
	return j->f->idle.in_pieces ? when_idle(j) : SILENT;
}

/* Whole segments. */
static enum verdict_severity when_in_segments(const struct judge *j)
{
	return j->f->idle.in_pieces ? SILENT : when_idle(j);
}

static int has_holes(const struct judge *j)
{
	const struct facts_holes *f = &j->f->holes;

	return f->idle >= HOLES_LEAST && f->idle >= f->held / 100 * HOLES_PERCENT;
}

static int is_beside_a_gpu(const struct judge *j)
{
	for (size_t i = 0; i < j->r->devs_cnt; i++)
		if (j->r->devs[i].dev >= MT_DEV_CUDA0 && j->r->devs[i].peak / HOLES_BESIDE >= j->f->holes.idle)
			return 1;
	return 0;
}

static enum verdict_severity when_holes(const struct judge *j)
{
	return if_so(has_holes(j) && !is_beside_a_gpu(j), VERDICT_HINT);
}

/* Little beside a GPU's peak: a fact behind it. */
static enum verdict_severity when_holes_beside(const struct judge *j)
{
	return if_so(has_holes(j) && is_beside_a_gpu(j), VERDICT_FACT);
}

static enum verdict_severity when_workers(const struct judge *j)
{
	const struct facts_workers *f = &j->f->workers;
	int is_large = f->own >= WORKERS_LEAST && f->own >= f->all / 100 * WORKERS_PERCENT;

	return if_so(f->cnt && (is_large || f->grown >= WORKERS_LEAST), VERDICT_HINT);
}

/* Most of the memory is in no tensor, and no other rule has explained it. */
static int is_beside(const struct judge *j)
{
	const struct facts_beside *f = &j->f->beside;
	int was_killed = j->f->refusal && j->f->refusal->kind == OOM_DEATH;

	return f->bytes >= (f->gpu ? BESIDE_CUDA : BESIDE_LEAST) && f->bytes >= f->held / 100 * BESIDE_PERCENT && !was_killed &&
	       !when_rss(j);
}

static enum verdict_severity when_beside(const struct judge *j)
{
	return if_so(is_beside(j) && j->f->beside.bytes > j->f->beside.gpu, VERDICT_HINT);
}

/* A GPU has more: behind its peak. */
static enum verdict_severity when_beside_a_gpu(const struct judge *j)
{
	return if_so(is_beside(j) && j->f->beside.bytes <= j->f->beside.gpu, VERDICT_FACT);
}

static enum verdict_severity when_spike(const struct judge *j)
{
	const struct facts_steps *f = &j->f->steps;

	return if_so(f->cnt >= SPIKE_STEPS && f->proc && (double)f->peak >= SPIKE_RATIO * (double)f->median &&
		     f->high * 100 <= f->cnt * SPIKE_PERCENT, VERDICT_HINT);
}

/* Between windows of traced steps: UNSEEN_LEAST is in facts_of_unseen(). */
static enum verdict_severity when_unseen(const struct judge *j)
{
	return if_so(j->f->unseen.more != 0, VERDICT_HINT);
}

/* torch.compile does not compile a function any more. */
static enum verdict_severity when_given_up(const struct judge *j)
{
	return if_so(j->f->recompiles.given_up != NULL, VERDICT_HINT);
}

static enum verdict_severity when_recompiles(const struct judge *j)
{
	const struct facts_recompiles *f = &j->f->recompiles;
	int is_slow = f->ns >= RECOMPILES_LEAST_NS && f->ns >= report_seen_ns(j->r) / 100 * RECOMPILES_PERCENT,
		is_large = f->peak && f->added && f->added >= f->peak / 100 * RECOMPILE_PERCENT;

	return if_so(f->cnt && (is_slow || is_large), VERDICT_HINT);
}

/* --- the peak --------------------------------------------------------------------------------------------- */

/* With several jobs there is no single advice. */
static int is_most(const struct judge *j, uint64_t bytes)
{
	return !j->f->is_untraced && !j->f->is_grown && j->f->jobs.large < 2 &&
	       percent(bytes, j->f->device->peak) >= MOST_PERCENT;
}

static enum verdict_severity when_activations(const struct judge *j)
{
	return if_so(j->f->device && is_most(j, j->f->kept), VERDICT_HINT);
}

static enum verdict_severity when_state(const struct judge *j)
{
	return if_so(j->f->device && !when_activations(j) && is_most(j, j->f->state), VERDICT_HINT);
}

/* Neither of them, or several jobs, or the peak is mostly growth: the leak's line has the advice then. */
static enum verdict_severity when_peak(const struct judge *j)
{
	return if_so(j->f->device && !j->f->is_untraced && !when_activations(j) && !when_state(j), VERDICT_FACT);
}

/* --- what is known, and how complete it is ------------------------------------------------------------------ */

/* Nothing grows, or it is too early to judge; not for a job that ended while memory rose. */
static enum verdict_severity when_growth(const struct judge *j)
{
	return if_so(j->f->device && !j->f->is_untraced && !j->f->rise.ns && !when_leak(j) && !when_rss(j), VERDICT_FACT);
}

static enum verdict_severity when_untraced(const struct judge *j)
{
	if (!j->f->is_untraced)
		return SILENT;
	return j->r->run.is_live ? VERDICT_FACT : VERDICT_HINT;
}

static enum verdict_severity when_nothing(const struct judge *j)
{
	return if_so(!j->f->is_untraced && !j->f->device, VERDICT_HINT);
}

static enum verdict_severity when_incomplete(const struct judge *j)
{
	if (report_lost_sum(j->r))
		return VERDICT_HINT;
	return if_so(!j->r->run.ended && !j->r->run.is_live, VERDICT_FACT);
}

static enum verdict_severity when_complete(const struct judge *j)
{
	return if_so(!when_incomplete(j), VERDICT_FACT);
}

/* --- all of them, in the order of their lines ---------------------------------------------------------------- */

const struct rule rules[] = {
	{ VERDICT_OUT_OF_MEMORY, when_refused, say_refused },
	{ VERDICT_DIED, when_died, say_died },
	{ VERDICT_DIED, when_exit, say_exit },
	{ VERDICT_LEAK, when_leak, say_leak },
	{ VERDICT_RSS, when_rss, say_rss },
	{ VERDICT_RANK, when_rank, say_rank },
	{ VERDICT_FRAGMENTED, when_in_pieces, say_idle },
	{ VERDICT_RESERVED, when_in_segments, say_idle },
	{ VERDICT_FRAGMENTED, when_holes, say_holes },
	{ VERDICT_WORKERS, when_workers, say_workers },
	{ VERDICT_RSS, when_beside, say_beside },
	{ VERDICT_SPIKE, when_spike, say_spike },
	{ VERDICT_SPIKE, when_unseen, say_unseen },
	{ VERDICT_RECOMPILES, when_given_up, say_given_up },
	{ VERDICT_RECOMPILES, when_recompiles, say_recompiles },
	{ VERDICT_ACTIVATIONS, when_activations, say_peak },
	{ VERDICT_STATE, when_state, say_peak },
	{ VERDICT_PEAK, when_peak, say_peak },
	{ VERDICT_FRAGMENTED, when_holes_beside, say_holes },
	{ VERDICT_RSS, when_beside_a_gpu, say_beside },
	{ VERDICT_GROWTH, when_growth, say_growth },
	{ VERDICT_NOTHING, when_untraced, say_untraced },
	{ VERDICT_NOTHING, when_nothing, say_nothing },
	{ VERDICT_INCOMPLETE, when_incomplete, say_complete },
	{ VERDICT_COMPLETE, when_complete, say_complete },
};
const size_t rules_cnt = sizeof(rules) / sizeof(*rules);
