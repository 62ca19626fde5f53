/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "session"
#include "live/windows.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "event/packed.h"
#include "live/followed.h"
#include "live/probing.h"
#include "model/core/paid.h"
#include "model/model.h"

/*
 * A window's cost is never taken to be less than this part of its probes' calibrated cost: where steps differ much, a single
 * window may seem to have cost nothing.
 */
#define PRICE_LEAST 0.5
#define HIGH_STEP_BYTES (16u << 20) /* a new high-water mark counts if it exceeds the last one by this much */
#define EXPENSIVE_PART 4 /* of the budget: marks of steps that take more are removed, too, between windows */
#define EXPENSIVE_BLOCKS_PART 2 /* … and allocations, where what is set between windows takes more, … */
#define FITTING_BLOCKS_PART 3	/* … and come where nobody asked for them, if that would take less than this part */

/* Steps and pid are of the process with most steps; else the pid of any followed one, for its machine; else ours. */
static void windows__see(const struct windows *w, struct levels_seen *ret)
{
	const struct paid *paid = model__paid(w->model);
	const struct process *p;

	*ret = (struct levels_seen){ .now_ns = now_ns(), .is_setting = probing__is_setting(w->probing),
				     .is_new = probing__is_new(w->probing), .pid = getpid() };
	ret->state = model__level_of(w->model, &ret->window);
	for (size_t at = 0; (p = followed__next(w->followed, &at));) {
		uint64_t steps = model__steps_of(w->model, (uint32_t)p->pid);

		if (steps > ret->steps || ret->pid == getpid())
			ret->pid = p->pid;
		ret->steps = steps > ret->steps ? steps : ret->steps;
	}
	ret->wall_ns = clock_wall_ns();
	ret->step_no = model__step_no(w->model, (uint32_t)ret->pid);
	ret->step_ns = paid ? paid__step_ns(paid) : 0;
	ret->is_settled = paid && paid->is_settled;
}

static void windows__say(const struct windows *w, const char *text)
{
	tell__note(&w->tell, 0, text);
	if (!w->is_quiet)
		fprintf(stderr, "%s\n", text);
}

static void windows__not_here(struct windows *w, pid_t pid)
{
	windows__say(w, "all steps are traced: on this kernel probes are set one by one, and windows of tracing would take "
			"longer than what they spare");
	if (w->is_own)
		windows__say(w, "what that costs is not held; with --max-overhead PERCENT memtrace detaches where it is more");
	tell__event(&w->tell, (struct event){ .kind = EV_LEVEL, .flags = EV_LEVEL_TRACED, .depth = MT_LEVEL_FULL,
					      .aux = (uint32_t)pid });
}

static bool windows__are_on(const struct windows *w)
{
	return cadence__is_on(&w->levels.cadence) && !w->levels.is_off;
}

void windows__want(struct windows *w, enum ev_level_why why)
{
	if (windows__are_on(w) && (w->levels.at == LEVELS_DOWN || w->levels.at == LEVELS_RESTING) && !w->levels.wanted)
		w->levels.wanted = (uint8_t)why;
}

bool windows__hold(struct windows *w, bool is_held)
{
	w->levels.is_held = is_held && windows__are_on(w);
	return w->levels.is_held;
}

bool windows__have_all(const struct windows *w)
{
	uint64_t number;

	if (!windows__are_on(w))
		return true;
	return w->levels.is_all && w->levels.at == LEVELS_WINDOW &&
	       model__level_of(w->model, &number) == EV_LEVEL_TRACED && number == w->levels.number;
}

bool windows__are_idle(const struct windows *w)
{
	return windows__are_on(w) && windows__are_at_rest(w) && w->levels.between == MT_LEVEL_WATCH;
}

bool windows__are_sparing(const struct windows *w)
{
	return windows__are_idle(w) || (windows__are_on(w) && windows__are_at_rest(w) && w->levels.cadence.budget.share > 0);
}

bool windows__are_at_rest(const struct windows *w)
{
	return w->levels.at == LEVELS_RESTING;
}

/*
 * The expected cost of another window like the last. The first is different: all sites were set then, and those that the job
 * does not use were removed again. Only its traced steps are like those to come.
 */
static double windows__next_price(const struct windows *w, const struct paid *paid, double lost_ns)
{
	double step_ns = paid__step_ns(paid), ns;

	if (w->levels.is_change && w->levels.cadence.budget.cnt > 1) /* that was no window */
		return w->levels.cadence.budget.before_ns;
	if (w->levels.cadence.budget.cnt > 1 || !paid->traced_steps || step_ns <= 0)
		return lost_ns;
	ns = (double)paid->traced_ns / (double)paid->traced_steps - step_ns;
	return ns * (double)(w->levels.cadence.steps + 2) + lost_ns / 10;
}

/* As a value of --max-overhead: a little more than needed. */
static double percent_above(double share)
{
	double percent = 100 * share * 1.2;
	double unit = percent < 1 ? 0.01 : percent < 10 ? 0.1 : 1;

	return fmin(100, ceil(percent / unit) * unit);
}

static void windows__say_blocks_go(const struct windows *w)
{
	const struct budget *b = &w->levels.cadence.budget;
	char text[240];

	snprintf(text, sizeof(text), "allocations between windows take some %.3g %% of the job's time, more than half of "
		 "%.3g %%: from now on steps are only watched there; to see them: --max-overhead %g, or --steps and --every "
		 "instead", 100 * b->watch, 100 * b->share, percent_above(EXPENSIVE_BLOCKS_PART * b->watch));
	windows__say(w, text);
}

/* Where nobody asked for one of both, nobody has to know. */
static void windows__say_between(const struct windows *w, bool is_auto)
{
	const struct budget *b = &w->levels.cadence.budget;

	if (w->levels.between == MT_LEVEL_WATCH && !is_auto)
		windows__say_blocks_go(w);
	else
		log_debug("from now on %s between windows: marks take %.3g %%, allocations and frees some %.3g %%",
			  w->levels.between == MT_LEVEL_BLOCKS ? "allocations are seen" : "steps are only watched",
			  100 * b->watch, 100 * model__share_of_blocks(w->model));
}

/* One window is more than the budget can ever pay for, or nothing is left for windows. */
static void windows__give_up(struct windows *w)
{
	const struct budget *b = &w->levels.cadence.budget;
	double least = b->price_ns / (double)BUDGET_HOUR_NS; /* one an hour */
	char text[240];

	w->is_reported = true;
	if (b->watch >= b->share)
		snprintf(text, sizeof(text), "what stays set between windows costs the job some %.3g %%, and %.3g %% are "
			 "allowed: there are no windows; --max-overhead %g would pay for some", 100 * b->watch,
			 100 * b->share, percent_above(b->watch + fmax(b->watch, least)));
	else
		snprintf(text, sizeof(text), "a window of %" PRIu64 " traced steps costs the job %.3g s, more than %.3g %% of "
			 "an hour: steps are only watched; --max-overhead %g would pay for one an hour",
			 w->levels.cadence.steps, b->price_ns / 1e9, 100 * b->share, percent_above(b->watch + least));
	windows__say(w, text);
}

/*
 * By the last window that had traced steps: without these nothing can be learned. Marks are then priced as allocations are.
 */
static bool blocks_fit(const struct windows *w, const struct paid *paid)
{
	double share = model__share_of_blocks(w->model), marks = paid->watch * PAID_BLOCKS / PAID_MARKS;

	return share > 0 && marks > 0 && (marks + share) * FITTING_BLOCKS_PART < w->levels.cadence.budget.share;
}

/* The model is some 50 ms behind: its figures are of the last window only once it has handled the end of that window. */
static bool windows__price(struct windows *w, const struct levels_seen *seen)
{
	const struct paid *paid = model__paid(w->model);
	struct budget *b = &w->levels.cadence.budget;
	bool is_known, may_go;
	double lost_ns;

	if (b->share <= 0 || !paid || w->levels.at != LEVELS_RESTING || paid->is_open || paid->stretches != b->cnt)
		return false;
	lost_ns = fmax(paid__last(paid), PRICE_LEAST * paid__probes(paid));
	if (w->levels.between == MT_LEVEL_BLOCKS)
		w->is_expensive = paid->watch * EXPENSIVE_BLOCKS_PART > b->share;
	else
		w->is_expensive = paid->watch * EXPENSIVE_PART > b->share && !w->levels.cadence.align_steps;
	if (paid->traced_steps)
		w->blocks_fit = blocks_fit(w, paid);
	b->watch = w->levels.is_still ? paid->left : paid->watch;
	if (w->levels.is_still) /* marks are set for a window, and until its cost is known */
		lost_ns += paid__marks_beside(paid, now_ns());
	if (w->levels.is_all)
		budget__free(b);
	else
		budget__price(b, lost_ns, windows__next_price(w, paid, lost_ns));
	is_known = paid__is_measured(paid) || levels__has_waited(&w->levels, seen);
	may_go = w->is_expensive && !w->is_low; /* marks may be removed, and then more is left for windows */
	if (!w->is_reported && is_known && !may_go && budget__may(b) == UINT64_MAX)
		windows__give_up(w);
	return paid__is_measured(paid);
}

bool windows__cost_too_much(struct windows *w)
{
	char text[200];
	uint64_t probe_ns, cpu_ns;

	if (w->is_own && (w->levels.is_off || w->is_reported_expensive)) /* this was reported */
		return false;
	if (!w->levels.is_off && !w->is_low) {
		w->overhead.at_ns = 0;
		return false;
	}
	model__overhead(w->model, &probe_ns, &cpu_ns);
	if (!overhead__turn(&w->overhead, now_ns(), probe_ns, cpu_ns))
		return false;
	if (!w->is_own)
		return true;
	w->is_reported_expensive = true;
	snprintf(text, sizeof(text), "what stays set between windows takes %.3g %% of the job's CPU time, more than the "
		 "%.3g %% that are meant: it goes on; --max-overhead %g detaches instead", 100 * w->overhead.share,
		 100 * w->overhead.limit, 100 * w->overhead.limit);
	windows__say(w, text);
	return false;
}

int windows__too_costly(const struct windows *w, struct err *err)
{
	char text[160];

	snprintf(text, sizeof(text), "probes took %.3g %% of the job's CPU time, and --max-overhead allows %.3g %%: detached",
		 100 * w->overhead.share, 100 * w->overhead.limit);
	tell__note(&w->tell, 0, text);
	err_set(err, -ECANCELED, "%s", text);
	return err_hint(err, "--probes framework costs least; memtrace plan -p PID shows the price of each probe");
}

static uint64_t windows__rss(const struct windows *w)
{
	const struct process *p;
	uint64_t high = 0;

	for (size_t at = 0; (p = followed__next(w->followed, &at));)
		high += p->usage.rss_high;
	return high;
}

/* Reasons for a window: memory is higher than ever, or was refused, or a step took far longer than others. */
static enum ev_level_why windows__reason(const struct windows *w, const struct windows_marks *now)
{
	const struct windows_marks *then = &w->then;

	return now->refusals > then->refusals			? EV_WHY_REFUSED :
	       now->gpu_high > then->gpu_high + HIGH_STEP_BYTES ? EV_WHY_GPU :
	       now->rss_high > then->rss_high + HIGH_STEP_BYTES ? EV_WHY_RSS :
	       now->odds > then->odds				? EV_WHY_ODD_STEP :
								  EV_WHY_DUE;
}

/* With a budget only: it bounds their number. */
static void windows__look(struct windows *w)
{
	static const char *const words[EV_WHY_MAX] = { [EV_WHY_RSS] = "RSS", [EV_WHY_GPU] = "GPU memory",
						       [EV_WHY_ODD_STEP] = "odd step", [EV_WHY_REFUSED] = "refused" };
	const struct paid *paid = model__paid(w->model);
	struct windows_marks now = { .rss_high = windows__rss(w), .gpu_high = model__gpu_high(w->model),
				     .refusals = model__refusals(w->model), .odds = paid ? paid->odds : 0 };
	enum ev_level_why why;

	if (w->levels.cadence.budget.share <= 0)
		return;
	if (w->levels.at == LEVELS_UP || w->levels.at == LEVELS_WINDOW) {
		w->then = now;
		return;
	}
	if (w->levels.at == LEVELS_DOWN) /* the removal of probes makes steps longer, but takes no memory */
		w->then.odds = now.odds;
	why = windows__reason(w, &now);
	if (!w->levels.wanted && why) {
		log_debug("a window is wanted: %s", words[why]);
		windows__want(w, why);
	}
}

static void windows__log(const struct windows *w)
{
	const struct paid *paid = model__paid(w->model);

	if (paid)
		log_debug("window %" PRIu64 " cost %.4g s; marks of steps take %.3g %%", w->levels.number,
			  paid__last(paid) / 1e9, 100 * paid->watch);
}

/* Remaining blocks are looked at while all probes are set: at both ends of the gap, before the event is reported. */
static void windows__tell(struct windows *w, enum levels_do what, struct event *ev)
{
	bool begins = what == LEVELS_TELL && ev->flags == EV_LEVEL_ARMED;

	log_debug("window %" PRIu64 ": state %u at %" PRIu64, ev->addr, ev->flags, now_ns());
	if (what == LEVELS_LOWER && w->levels.between < MT_LEVEL_BLOCKS)
		staying__remember(&w->staying, w->model);
	if (begins) {
		staying__look(&w->staying);
		ev->ts_ns = now_ns();
	}
	tell__event(&w->tell, *ev);
	if (begins)
		staying__tell(&w->staying, &w->tell, ev->ts_ns);
}

bool windows__turn(struct windows *w)
{
	struct levels_seen seen;
	struct event ev;
	struct levels before = w->levels;
	enum levels_do what;
	int is_first, r;

	if (!windows__are_on(w))
		return false;
	windows__see(w, &seen);
	w->is_low = levels__is_low(&w->levels, &seen);
	seen.is_priced = windows__price(w, &seen);
	seen.is_expensive = w->is_expensive;
	seen.blocks_fit = w->blocks_fit;
	windows__look(w);
	is_first = !w->levels.window.begin_ns; /* from the very beginning no step is whole */
	what = levels__turn(&w->levels, &seen, &ev);
	if (w->levels.between != before.between)
		windows__say_between(w, before.is_auto);
	if (is_first)
		ev.ts_ns = w->start_ns;
	if (what != LEVELS_NOTHING && ev.kind)
		windows__tell(w, what, &ev);
	if (what == LEVELS_LOWER) {
		r = probing__lower(w->probing, levels__low(&w->levels));
		levels__lowered(&w->levels, r, now_ns());
		if (r < 0)
			windows__not_here(w, seen.pid);
	} else if (what == LEVELS_RAISE) {
		windows__log(w);
		probing__raise(w->probing);
	}
	return what == LEVELS_TELL && ev.flags == EV_LEVEL_ARMED;
}

void windows__done(struct windows *w)
{
	staying__done(&w->staying);
}

void windows__end(struct windows *w)
{
	struct levels_seen seen;

	if (!windows__are_on(w) || (w->levels.is_all && w->levels.at == LEVELS_WINDOW)) /* as in a trace of all steps */
		return;
	windows__log(w);
	windows__see(w, &seen);
	tell__event(&w->tell, (struct event){ .kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_FULL,
					      .addr = w->levels.number, .aux = (uint32_t)seen.pid,
					      .seq = event_level_seq(w->levels.cadence.budget.share) });
}
