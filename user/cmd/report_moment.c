/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * report of a moment: the recording is read twice, as for an export: first for the last word on every block and for when that
 * moment was, then for what lived at it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "cmd/cmd.h"
#include "cmd/filter.h"
#include "record/replay.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "view/tables/holdings.h"

struct moment_run {
	struct filter filter;
	struct labels *labels;
	struct holdings *held;
};

static int learn(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct moment_run *m = ctx;
	int r = labels__event(m->labels, ev);

	(void)epoch_off_ns;
	return r ? r : filter__learn(&m->filter, ev);
}

static int hold(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct moment_run *m = ctx;
	struct tl_event named;

	(void)epoch_off_ns;
	if (!ev->module_number)
		return holdings__event(m->held, ev);
	named = *ev;
	labels__module(m->labels, &named);
	return holdings__event(m->held, &named);
}

static int moment_write(const struct moment_run *m, const struct options *o, const struct report *r, struct err *err)
{
	struct held_view v = { .h = m->held, .r = r, .said = &m->filter.said, .dev = (uint8_t)m->filter.sieve.dev,
			       .sort = o->sort };
	struct view_opts vo = view_opts_of(o);
	struct span at;
	int e;

	v.has_step = spans__of_time(&m->filter.spans, holdings__ts_ns(m->held), m->filter.pids, m->filter.pids_cnt, &at,
				    &v.step);
	vo.top = report_top(o);
	e = o->json ? held_view_json(stdout, &v, &vo) : o->csv ? held_view_csv(stdout, &v, &vo) :
	    o->md   ? held_view_md(stdout, &v, &vo) : held_view_text(stdout, &v, &vo);
	return e < 0 ? err_set(err, e, "writing the report: %s", strerror(-e)) : 0;
}

static int moment_read(struct moment_run *m, const struct options *o, const struct names *names, struct report *first,
		       struct err *err)
{
	struct replay_opts second = { .top = 1, .event = hold, .classes = o->classes, .ctx = m };
	struct report *rep = NULL;
	uint64_t cut = 0;
	int r = filter__settle(&m->filter, first, m->labels, names, err);

	if (r)
		return r;
	m->held = holdings__new(&m->filter.sieve, report_peak_ts_ns(first, (uint8_t)m->filter.sieve.dev));
	if (!m->held)
		return err_set(err, -ENOMEM, "out of memory");
	r = replay_run(o->file, &second, &rep, &cut, err);
	report__free(rep);
	if (!r && !o->quiet)
		replay_say(o->file, first->run.lost[MT_LOSS_DAMAGED], cut);
	if (!r && holdings__end(m->held, o->depth))
		r = err_set(err, -ENOMEM, "out of memory");
	return r ? r : moment_write(m, o, first, err);
}

int report_moment(const struct options *o, struct err *err)
{
	struct moment_run m = { .labels = NULL };
	struct names *names = NULL;
	struct replay_opts first = { .top = SIZE_MAX, .event = learn, .with_nodes = 1, .classes = o->classes, .names = &names,
				     .ctx = &m };
	struct report *rep = NULL;
	uint64_t cut;
	int r;

	filter__init(&m.filter, o);
	r = labels__new(&m.labels, err);
	if (!r)
		r = replay_run(o->file, &first, &rep, &cut, err);
	if (!r)
		r = has_device(o, rep, err);
	if (!r)
		r = moment_read(&m, o, names, rep, err);
	if (!r)
		r = loss_exit_code(o, rep);
	holdings__free(m.held);
	filter__done(&m.filter);
	labels__free(m.labels);
	names__free(names);
	report__free(rep);
	return r;
}
