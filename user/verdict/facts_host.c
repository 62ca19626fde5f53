/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The machine's memory: the kernel's numbers of processes against the blocks live in them. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "timeline/report.h"
#include "timeline/trend.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

/* --- workers --------------------------------------------------------------------------------------------- */

/* Growth at the beginning alone is no growth over time. */
static bool own_rises(const struct report_own *o)
{
	return o->reads >= GROWS_READS && o->rises * 100 >= (o->reads - 1) * GROWS_PERCENT && o->own_last > o->own_first;
}

bool facts_is_worker(const struct report_proc *p)
{
	return p->comm && !strncmp(p->comm, "pt_data_worker", 14);
}

static void worker_grows(struct facts_workers *f, const struct report_own *o)
{
	uint64_t grown = o->own_last > o->own_first ? o->own_last - o->own_first : 0;
	uint64_t unshared = o->shared_first > o->shared_last ? o->shared_first - o->shared_last : 0;

	if (!own_rises(o) || grown > UINT64_MAX - f->grown)
		return;
	f->grown += grown;
	f->unshared += unshared < grown ? unshared : grown;
	f->span_ns = o->last_ns - o->first_ns > f->span_ns ? o->last_ns - o->first_ns : f->span_ns;
}

static uint64_t add_u64(uint64_t a, uint64_t b)
{
	return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

/*
 * What all processes have, what they share counted once. Where PSS is not known of one of them, as much of that as the one has
 * that has most: no less can be there. of: of each process its job; NULL: all are one.
 */
static uint64_t all_bytes(const struct report *r, const uint32_t *of, uint32_t job)
{
	uint64_t pss = 0, own = 0, shared = 0;
	int is_known = 1;

	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];

		if (of && of[i] != job)
			continue;
		is_known = is_known && !(p->use_unknown & 1u << MT_USE_PSS);
		pss = add_u64(pss, p->use[MT_USE_PSS]);
		own = add_u64(own, p->use[MT_USE_PRIVATE]);
		shared = p->use[MT_USE_SHARED] > shared ? p->use[MT_USE_SHARED] : shared;
	}
	return is_known ? pss : add_u64(own, shared);
}

static struct facts_workers workers_of(const struct report *r, const uint32_t *of, uint32_t job)
{
	struct facts_workers f = { .all = all_bytes(r, of, job) };

	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];
		uint64_t own = p->use[MT_USE_PRIVATE];

		if ((of && of[i] != job) || !facts_is_worker(p) || !own)
			continue;
		f.cnt++;
		f.own += own < UINT64_MAX - f.own ? own : 0;
		if (of && own > f.largest)
			f.proc = p;
		f.largest = own > f.largest ? own : f.largest;
		worker_grows(&f, &p->own);
	}
	f.grown = f.grown > f.own || !f.span_ns ? 0 : f.grown;
	return f;
}

static uint32_t last_job(const struct report *r, const uint32_t *of)
{
	uint32_t ret = 0;

	for (size_t i = 0; of && i < r->procs_cnt; i++)
		ret = of[i] > ret ? of[i] : ret;
	return ret;
}

struct facts_workers facts_of_workers(const struct report *r)
{
	uint32_t *of = facts_jobs_of_procs(r), jobs = last_job(r, of);
	struct facts_workers most = workers_of(r, of, 1);

	for (uint32_t job = 2; job <= jobs; job++) {
		struct facts_workers f = workers_of(r, of, job);

		most = f.own > most.own ? f : most;
	}
	free(of);
	return most;
}

/* --- holes ------------------------------------------------------------------------------------------------ */

/* More than one process with memory: what forks share is counted in each of them. */
static int has_one_process(const struct report *r)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		cnt += r->procs[i].rss_peak > 0;
	return cnt == 1;
}

/* Its value at the end of the bucket that has this time; of none the one before. */
static uint64_t at_time(const struct series *s, uint64_t ts_ns)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < s->cnt && s->points[i].ts_ns <= ts_ns; i++)
		ret = s->points[i].live_end;
	return ret;
}

/* What it has beside its blocks: as much as it had when the first of them was there. */
static uint64_t without_blocks(const struct series *held, const struct series *live)
{
	for (size_t i = 0; i < live->cnt; i++)
		if (live->points[i].live_max) {
			uint64_t all = at_time(held, live->points[i].ts_ns + live->bucket_ns - 1);

			return all > live->points[i].live_max ? all - live->points[i].live_max : 0;
		}
	return UINT64_MAX;
}

static const struct report_dev *malloc_or_cpu(const struct report *r)
{
	const struct report_dev *ret = NULL;

	for (size_t i = 0; i < r->devs_cnt; i++)
		if ((r->devs[i].dev == MT_DEV_HOST || (r->devs[i].dev == MT_DEV_CPU && !ret)) && r->devs[i].peak)
			ret = &r->devs[i];
	return ret;
}

/* The end of its last step, if it has steps: what it frees as it exits does not count. 0: too early to judge. */
static uint64_t end_of_holes(const struct report *r, uint64_t peak_ns, uint64_t end_ns)
{
	size_t steps = 0;

	for (size_t i = 0; i < r->marks.steps_cnt; i++)
		steps += r->marks.steps[i].begin_ts_ns >= peak_ns;
	if (!r->marks.steps_cnt)
		return end_ns > peak_ns && end_ns - peak_ns >= HOLES_NS ? end_ns : 0;
	if (steps < HOLES_STEPS)
		return 0;
	return r->marks.steps[r->marks.steps_cnt - 1].at[MARK_STEP].ts_ns;
}

/* When it last had some: when it ends it has nothing. */
static uint64_t last_ns(const struct series *s)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < s->cnt; i++)
		ret = s->points[i].live_end ? s->points[i].ts_ns : ret;
	return ret;
}

/* UINT64_MAX: it has no point there. */
static uint64_t least(const struct series *s, uint64_t from_ns, uint64_t end_ns)
{
	uint64_t ret = UINT64_MAX;

	for (size_t i = 0; i < s->cnt; i++)
		if (s->points[i].ts_ns >= from_ns && s->points[i].ts_ns <= end_ns && s->points[i].live_end < ret)
			ret = s->points[i].live_end;
	return ret;
}

static uint64_t most(const struct series *s, uint64_t from_ns, uint64_t end_ns)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < s->cnt; i++)
		if (s->points[i].ts_ns + s->bucket_ns > from_ns && s->points[i].ts_ns <= end_ns && s->points[i].live_max > ret)
			ret = s->points[i].live_max;
	return ret;
}

struct facts_holes facts_of_holes(const struct report *r)
{
	const struct series *held = &r->kernel.kinds[MT_RSS_ANON];
	const struct report_dev *d = malloc_or_cpu(r);
	struct facts_holes f, none = { 0 };
	uint64_t from_ns, end_ns = last_ns(held), base, freed;

	if (!d || r->sampling.is_on || !has_one_process(r))
		return none;
	base = without_blocks(held, &d->series);
	end_ns = end_of_holes(r, d->peak_ts_ns, end_ns);
	if (base == UINT64_MAX || end_ns <= d->peak_ts_ns)
		return none;
	from_ns = end_ns - (end_ns - d->peak_ts_ns) / 2;
	f.span_ns = end_ns - from_ns;
	f.held = least(held, from_ns, end_ns);
	f.live = most(&d->series, from_ns, end_ns);
	f.is_host = d->dev == MT_DEV_HOST;
	f.peak = d->peak;
	f.idle = f.held > base && f.held - base > f.live ? f.held - base - f.live : 0;
	freed = f.peak > f.live ? f.peak - f.live : 0;
	if (!f.is_host && f.idle > freed)
		f.idle = freed;
	return f.held == UINT64_MAX ? none : f;
}

/* --- memory that is no tensor's ---------------------------------------------------------------------------- */

#define GROWING_POINTS 24

/* When its first step was over, or of some traced steps began: what it loads before is how it begins. 0: that is not known. */
static uint64_t first_step_ns(const struct report *r)
{
	const struct report_sampling *s = &r->sampling;

	if (r->marks.steps_cnt && r->marks.steps_cnt + r->procs_cnt >= r->marks.steps_total) /* each may be within one */
		return r->marks.steps[0].at[MARK_STEP].ts_ns;
	for (size_t i = 0; i < s->traced_cnt && s->traced_cnt == s->windows; i++)
		if (s->traced[i].steps)
			return s->traced[i].begin_ns;
	return 0;
}

/* Whether what was seen of it may be how it begins: it has not made a step, or none that was traced. */
static bool may_load(const struct report *r)
{
	if (r->sampling.is_on && r->sampling.steps_seen)
		return !r->sampling.steps_traced;
	return !r->marks.steps_total && !r->run.ended && facts_to_record(r) &&
	       r->run.end_ts_ns - r->run.start_ts_ns < REPORT_LOADING_NS;
}

/* Of several processes: what those have that came since then, and what those took that have made no step yet. */
static uint64_t brought_since(const struct report *r, uint64_t begin_ns)
{
	bool is_early = r->run.end_ts_ns - r->run.start_ts_ns < REPORT_LOADING_NS;
	size_t cnt = has_one_process(r) ? 0 : r->procs_cnt;
	uint64_t ret = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct report_proc *p = &r->procs[i];
		const struct report_own *own = &p->own;

		if (p->gone == 1)
			continue;
		if (own->first_ns > begin_ns)
			ret += own->own_last;
		else if (is_early && !p->marks_cnt[MARK_STEP] && own->own_last > own->own_first)
			ret += own->own_last - own->own_first;
	}
	return ret;
}

static int have_ended(const struct report *r)
{
	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].pid && r->procs[i].gone != 1)
			return 0;
	return 1;
}

/* Of processes that have ended: the end of the last step. What they free as they exit is no fall of what grew. */
static uint64_t before_exit(const struct report *r, uint64_t end_ns)
{
	uint64_t last = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		last = r->procs[i].marks[MARK_STEP].ts_ns > last ? r->procs[i].marks[MARK_STEP].ts_ns : last;
	/* steps that were not traced have no mark, and training may be followed by something else */
	return have_ended(r) && last < end_ns && end_ns - last < (end_ns - r->run.start_ts_ns) / EXIT_PART ? last : end_ns;
}

/* Over three quarters of the time, as leaks are looked for; what they had as they ended is not counted. */
static struct facts_growing growing_together(const struct report *r)
{
	const struct series *held = &r->kernel.kinds[MT_RSS_ANON];
	const struct report_dev *d = malloc_or_cpu(r);
	uint64_t points[GROWING_POINTS], end_ns = before_exit(r, last_ns(held)), begin_ns = 0, was = 0, is = 0, known;
	struct facts_growing f = { 0 };
	struct trend t;

	for (size_t i = held->cnt; i-- > 0;)
		begin_ns = held->points[i].live_end ? held->points[i].ts_ns : begin_ns;
	begin_ns = first_step_ns(r) > begin_ns ? first_step_ns(r) : begin_ns;
	if (end_ns < begin_ns + GROWING_NS || may_load(r))
		return f;
	begin_ns += (end_ns - begin_ns) / 4;
	for (size_t i = 0; i < GROWING_POINTS; i++)
		points[i] = at_time(held, begin_ns + (end_ns - begin_ns) / (GROWING_POINTS - 1) * i);
	t = trend_of(points, GROWING_POINTS);
	if (d) { /* what was just freed is the allocator's, and was tensors' */
		was = most(&d->series, begin_ns, begin_ns + (end_ns - begin_ns) / GROWING_POINTS);
		is = most(&d->series, end_ns - (end_ns - begin_ns) / 4, end_ns);
	}
	known = (is > was ? is - was : 0) + brought_since(r, begin_ns);
	if (!trend__grows(&t, GROWING_LEAST) || t.growth < known + GROWING_LEAST)
		return f;
	f.grown = t.growth - known;
	f.now = points[GROWING_POINTS - 1];
	f.per_second = t.slope * (GROWING_POINTS - 1) * 1e9 / (double)(end_ns - begin_ns);
	f.is_host = facts_is_malloc_watched(r);
	f.is_over = have_ended(r);
	f.is_seen = d && !r->sampling.is_on;
	return f.grown < f.now / GROWING_PART ? (struct facts_growing){ 0 } : f;
}

static uint64_t tensors_at_most(const struct report_proc *p)
{
	for (size_t i = 0; i < p->devs_cnt; i++)
		if (p->devs[i].dev == MT_DEV_CPU)
			return p->devs[i].peak < p->live ? p->devs[i].peak : p->live;
	return p->host_live;
}

/* When what a process takes is no longer how it begins; 0: it ran before. */
static uint64_t begun_ns(const struct report *r, const struct report_proc *p)
{
	uint64_t steps = 0, first_ns = 0, loaded_ns;

	if (p->how == EV_PROC_ATTACHED)
		return 0;
	for (size_t i = 0; i < r->marks.steps_cnt; i++) {
		if (r->marks.steps[i].pid != p->pid)
			continue;
		first_ns = steps++ ? first_ns : r->marks.steps[i].at[MARK_STEP].ts_ns;
	}
	loaded_ns = p->own.first_ns + REPORT_LOADING_NS;
	return steps && first_ns < loaded_ns ? first_ns : loaded_ns; /* the oldest listed step: not the first, perhaps */
}

/* Its readings from then on. */
static struct report_own own_since(const struct report_own *all, uint64_t from_ns)
{
	struct report_own o = *all;
	uint64_t last = UINT64_MAX;

	if (from_ns <= all->first_ns)
		return o;
	o.reads = o.rises = 0;
	for (uint32_t i = 0; i < all->points_cnt; i++) {
		const struct own_point *p = &all->points[i];

		if (p->ts_ns < from_ns)
			continue;
		if (!o.reads++) {
			o.first_ns = p->ts_ns;
			o.own_first = p->own;
			o.shared_first = p->shared;
		}
		o.rises += p->own > last;
		last = p->own;
	}
	return o;
}

/*
 * Of one of several jobs, by what is private to each of its processes, as workers are judged; these have a rule of their own.
 * What of it are tensors is not known over time: no less than what lives now is taken off.
 */
static struct facts_growing growing_of(const struct report *r, const uint32_t *of, uint32_t job)
{
	struct facts_growing f = { .is_host = facts_is_malloc_watched(r) }, none = { 0 };
	uint64_t span_ns = 0, most = 0;

	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];
		uint64_t took_ns, known = tensors_at_most(p), grown;
		struct report_own own;

		if (of[i] != job || facts_is_worker(p))
			continue;
		f.now = add_u64(f.now, p->own.own_last);
		own = own_since(&p->own, begun_ns(r, p));
		took_ns = own.last_ns - own.first_ns;
		grown = own_rises(&own) ? own.own_last - own.own_first : 0;
		if (grown <= known || took_ns < (p->marks_cnt[MARK_STEP] ? GROWING_NS : REPORT_LOADING_NS))
			continue;
		grown -= known;
		f.grown = add_u64(f.grown, grown);
		span_ns = took_ns > span_ns ? took_ns : span_ns;
		f.proc = grown > most ? p : f.proc;
		most = grown > most ? grown : most;
	}
	f.per_second = span_ns ? (double)f.grown * 1e9 / (double)span_ns : 0;
	f.is_over = f.proc && f.proc->gone == 1;
	return f.grown < GROWING_LEAST || f.grown < f.now / GROWING_PART ? none : f;
}

/* One of several jobs may grow while another one shrinks: each is judged by itself, and the one that grew most is returned. */
struct facts_growing facts_of_growing(const struct report *r)
{
	uint32_t *of = facts_jobs_of_procs(r), jobs = last_job(r, of);
	struct facts_growing most = { 0 };

	if (!of)
		return growing_together(r);
	for (uint32_t job = 1; job <= jobs; job++) {
		struct facts_growing f = growing_of(r, of, job);

		most = f.grown > most.grown ? f : most;
	}
	free(of);
	return most;
}

/* --- memory that is in no tensor --------------------------------------------------------------------------- */

/* What it has half of the time: what it reads for a moment does not count. */
static uint64_t median(const struct series *s, uint64_t from_ns, uint64_t end_ns)
{
	uint64_t v[REPORT_SERIES_MAX];
	size_t cnt = 0;

	for (size_t i = 0; i < s->cnt && cnt < REPORT_SERIES_MAX; i++)
		if (s->points[i].ts_ns >= from_ns && s->points[i].ts_ns <= end_ns)
			v[cnt++] = s->points[i].live_end;
	qsort(v, cnt, sizeof(*v), u64_cmp);
	return cnt ? v[cnt / 2] : 0;
}

/* Each has its own Python and what it shares with a parent: not their sum, but the one that has most, by its last reading. */
static const struct report_proc *largest(const struct report *r)
{
	const struct report_proc *ret = &r->procs[0];

	for (size_t i = 1; i < r->procs_cnt; i++)
		if (r->procs[i].use[MT_USE_ANON] > ret->use[MT_USE_ANON])
			ret = &r->procs[i];
	return ret;
}

struct facts_beside facts_of_beside(const struct report *r)
{
	const struct series *held = &r->kernel.kinds[MT_RSS_ANON];
	struct facts_beside f = { 0 };
	uint64_t end_ns = last_ns(held), from_ns, idle = facts_of_holes(r).idle;
	int has_tensors = 0;

	if (r->marks.steps_cnt && r->marks.steps[r->marks.steps_cnt - 1].at[MARK_STEP].ts_ns < end_ns)
		end_ns = r->marks.steps[r->marks.steps_cnt - 1].at[MARK_STEP].ts_ns; /* its exit does not count */
	from_ns = end_ns - (end_ns - r->run.start_ts_ns) / 2;
	from_ns = first_step_ns(r) > from_ns ? first_step_ns(r) : from_ns;
	if (end_ns <= from_ns || (r->sampling.is_on && !r->sampling.steps_traced))
		return f;
	f.held = median(held, from_ns, end_ns);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		has_tensors |= d->dev != MT_DEV_HOST && d->peak;
		if (d->dev == MT_DEV_CPU)
			f.tensors = most(&d->series, from_ns, end_ns);
		else if (d->dev == MT_DEV_HOST)
			f.of_malloc = most(&d->series, from_ns, end_ns);
		else
			f.gpu = d->peak > f.gpu ? d->peak : f.gpu;
	}
	for (size_t i = 0; i < r->procs_cnt; i++)
		f.is_attached |= r->procs[i].how == EV_PROC_ATTACHED;
	if (r->procs_cnt && !has_one_process(r)) {
		const struct report_proc *p = largest(r);

		f.pid = p->pid;
		f.held = p->use[MT_USE_ANON];
		f.tensors = p->peak < f.tensors ? p->peak : f.tensors;
	}
	f.bytes = has_tensors && f.held > f.tensors && f.held - f.tensors > idle ? f.held - f.tensors - idle : 0;
	f.of_malloc = f.of_malloc > f.tensors ? f.of_malloc - f.tensors : 0; /* torch's tensors are blocks of malloc, too */
	return f;
}
