/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/held_moment.h"

#include <errno.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "record/replay.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "view/fold/holdings.h"

static int learn(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct held_moment *m = ctx;
	int r = labels__event(m->labels, ev);

	(void)epoch_off_ns;
	return r ? r : filter__learn(&m->filter, ev);
}

static int hold(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct held_moment *m = ctx;
	struct tl_event named;

	(void)epoch_off_ns;
	if (!ev->module_number)
		return holdings__event(m->held, ev);
	named = *ev;
	labels__module(m->labels, &named);
	return holdings__event(m->held, &named);
}

/* Refuses a part that is nowhere in the recording. */
static int has_rows(struct held_moment *m, const struct options *o, struct err *err)
{
	bool has_rank = false;
	uint32_t rank;

	if (!o->has_by || (o->by != BY_STACK && o->by != BY_RANK))
		return 0;
	for (size_t i = 0; i < m->report->procs_cnt && o->by == BY_RANK; i++)
		has_rank = has_rank || report_rank(m->report, m->report->procs[i].pid, &rank);
	if (o->by == BY_STACK ? m->report->stacks.total != 0 : has_rank)
		return 0;
	err_set(err, -ENODATA, "%s has no %s", o->file, o->by == BY_STACK ? "stacks" : "ranks");
	return o->by == BY_STACK ?
		       err_hint(err, "stacks need a recording with --stacks: --by op shows which operators held it") :
		       err_hint(err, "--by process shows what its processes held");
}

static int held_moment__hold(struct held_moment *m, const struct options *o, struct err *err)
{
	struct replay_opts second = { .top = 1, .event = hold, .classes = o->classes, .ctx = m };
	struct report *rep = NULL;
	struct replay_end end = { 0 };
	int r = filter__settle(&m->filter, m->report, m->labels, m->names, err);

	if (r)
		return r;
	m->held = holdings__new(&m->filter.sieve, report_peak_ts_ns(m->report, (uint8_t)m->filter.sieve.dev));
	if (!m->held)
		return err_set(err, -ENOMEM, "out of memory");
	r = replay_run(o->file, &second, &rep, &end, err);
	report__free(rep);
	if (!r && !o->quiet)
		replay_say(o->file, m->report->run.lost[MT_LOSS_DAMAGED], &end);
	return !r && holdings__end(m->held, o->depth, m->report) ? err_set(err, -ENOMEM, "out of memory") : r;
}

int held_moment__read(struct held_moment *m, const struct options *o, struct err *err)
{
	struct replay_opts first = { .top = SIZE_MAX, .event = learn, .with_nodes = 1, .classes = o->classes,
				     .names = &m->names, .ctx = m };
	struct replay_end end;
	int r;

	*m = (struct held_moment){ .labels = NULL };
	filter__init(&m->filter, o);
	r = labels__new(&m->labels, err);
	if (!r)
		r = replay_run(o->file, &first, &m->report, &end, err);
	if (!r)
		r = has_device(o, m->report, err);
	if (!r)
		r = has_rows(m, o, err);
	return r ? r : held_moment__hold(m, o, err);
}

void held_moment__done(struct held_moment *m)
{
	holdings__free(m->held);
	filter__done(&m->filter);
	labels__free(m->labels);
	names__free(m->names);
	report__free(m->report);
}
