/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/exported.h"

#include <errno.h>
#include <string.h>

#include "timeline/labels.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/report_words.h"

void exported__init(struct exported *x)
{
	bool is_once = x->has_live_labels && !x->is_part && !(x->format->needs & EXPORT_LABELS);

	x->passes = is_once ? 1 : 2;
	x->to.dev = x->asked.dev;
	filter__init(&x->filter, &x->asked, x->path);
	x->filter.classes = x->classes;
	x->filter.wants_one_step = x->format->needs & EXPORT_ONE_STEP;
}

void exported__done(struct exported *x)
{
	report__free(x->first);
	report__free(x->report);
	labels__free(x->labels);
	names__free(x->names);
	filter__done(&x->filter);
}

static void on_progress(void *ctx, double share)
{
	struct exported *x = ctx;

	x->progress(x->ctx, (x->pass + share) / x->passes);
}

/* A sink's error says more than "writing". */
static int exported__read(struct exported *x, const struct replay_opts *ro, struct report **ret, struct err *err)
{
	int r = replay_run(x->path, ro, ret, &x->end, err);

	if (r < 0 && x->err.code)
		*err = x->err;
	x->pass++;
	return r;
}

/* --- the first reading ------------------------------------------------------------------------------- */

static int learn_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct exported *x = ctx;
	int r = labels__event(x->labels, ev);

	(void)epoch_off_ns;
	if (r < 0)
		return err_set(&x->err, r, "writing a temporary file for labels: %s", strerror(-r));
	return x->is_part || x->has_moment || x->filter.wants_one_step ? filter__learn(&x->filter, ev) : 0;
}

/* One rank alone is the whole. */
static void drop_one_rank(struct report *first)
{
	if (!first->ranks || first->ranks->cnt > 1)
		return;
	report_ranks__free(first->ranks);
	first->ranks = NULL;
}

/* As --at 12.5s is, and --at peak where the peak is in no step. */
static int one_moment(const struct exported *x, struct err *err)
{
	err_set(err, -EINVAL, "%s is of a stretch of time, and that is one moment", x->format->name);
	return err_hint(err, "--from 12s --until 13s, or --at 'step 100'; memtrace report FILE --at 12.5s says what lived "
			"then"), -EINVAL;
}

static void settle_moment(struct exported *x)
{
	uint8_t dev = (uint8_t)x->filter.sieve.dev;

	x->at = (struct export_at){ .text = x->asked.at.text, .sieve = &x->filter.sieve, .dev = dev,
				    .peak_ns = report_peak_ts_ns(x->first, dev) };
	x->to.at = &x->at;
}

static int settle(struct exported *x, bool has_filter, struct err *err)
{
	const struct span *span = &x->filter.sieve.span;
	int r = has_filter ? filter__settle(&x->filter, x->first, x->labels, x->names, err) : 0;

	x->is_part |= x->filter.one_step[0] != '\0';
	if (!r && x->format->needs & EXPORT_STRETCH && span->from_ns == span->to_ns)
		r = one_moment(x, err);
	if (!r && x->has_moment)
		settle_moment(x);
	x->filter.sieve.dev = x->asked.dev; /* all of them, if none was named */
	return r;
}

int exported__learn(struct exported *x, struct err *err)
{
	bool has_part = x->is_part || x->filter.wants_one_step;
	size_t top = has_part ? SIZE_MAX : x->format->needs & EXPORT_TABLES ? EXPORT_TABLE_ROWS : 1;
	const struct replay_opts ro = { .top = top, .ranks_top = x->format->needs & EXPORT_RANKS ? 1 : 0, .event = learn_event,
					.progress = on_progress, .with_nodes = 1, .classes = x->classes, .names = &x->names,
					.ctx = x };
	int r = labels__new(&x->labels, err);

	if (!r)
		r = exported__read(x, &ro, &x->first, err);
	if (r < 0)
		return r;
	drop_one_rank(x->first);
	x->to.report = x->first;
	x->to.labels = x->has_live_labels && !(x->format->needs & EXPORT_LABELS) ? NULL : x->labels;
	return settle(x, has_part || x->has_moment, err);
}

/* --- the one that writes ------------------------------------------------------------------------------- */

static int write_failed(struct exported *x, int r)
{
	return err_set(&x->err, r, "writing %s: %s", x->out_name, strerror(-r));
}

static int write_begin(void *ctx, const struct names *names)
{
	struct exported *x = ctx;
	int r;

	x->to.names = x->names ? x->names : names;
	x->to.part = x->is_part ? &x->filter.shown : NULL;
	x->to.span = x->is_part ? &x->filter.sieve.span : NULL;
	x->to.pids = x->filter.sieve.pids;
	x->to.pids_cnt = x->filter.sieve.pids_cnt;
	r = export_begin(x->format, &x->state, &x->to);
	return r < 0 ? write_failed(x, r) : r;
}

static int write_one(void *ctx, const struct tl_event *ev)
{
	struct exported *x = ctx;
	int r = export_event(x->format, x->state, &x->to, ev, x->epoch_off_ns);

	return r < 0 ? write_failed(x, r) : 0;
}

static int write_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct exported *x = ctx;
	struct tl_learned learned;
	struct tl_event known;

	x->epoch_off_ns = epoch_off_ns;
	if (x->to.labels && (ev->module_number || ev->kind == TL_CREATE || ev->kind == TL_DESTROY)) {
		known = *ev;
		if (ev->module_number) /* its name is known now */
			labels__module(x->to.labels, &known);
		if (ev->kind == TL_CREATE || ev->kind == TL_DESTROY) /* what it has learned in the end */
			labels__learn(x->to.labels, &known, &learned);
		ev = &known;
	}
	return x->is_part ? sieve__event(&x->filter.sieve, ev, write_one, x) : write_one(x, ev);
}

static int write_end(void *ctx, const struct report *rep, int r)
{
	struct exported *x = ctx;
	int e;

	if (!r && rep && x->is_part)
		r = sieve__end(&x->filter.sieve, write_one, x);
	e = x->state ? export_end(x->format, x->state, rep) : 0;
	return !r && e < 0 ? write_failed(x, e) : r;
}

int exported__write(struct exported *x, struct err *err)
{
	const struct replay_opts ro = { .top = 1, .begin = write_begin, .event = write_event, .progress = on_progress,
					.end = write_end, .with_ops = x->to.ops || x->format->needs & EXPORT_OPS,
					.with_nodes = x->to.ops || x->format->needs & EXPORT_NODES, .classes = x->classes,
					.ctx = x };

	return exported__read(x, &ro, &x->report, err);
}
