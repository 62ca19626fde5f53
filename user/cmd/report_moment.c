/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* report of a moment. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "replay/held_moment.h"
#include "timeline/report.h"
#include "view/tables/holdings.h"

static int moment_write(const struct held_moment *m, const struct options *o, struct err *err)
{
	struct held_view v = { .h = m->held, .r = m->report, .asked = &m->filter.shown, .dev = (uint8_t)m->filter.sieve.dev,
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

/* Refuses a part that is nowhere in the recording. */
static int has_rows(const struct options *o, const struct report *r, struct err *err)
{
	bool has_rank = false;
	uint32_t rank;

	if (!o->has_by || (o->by != BY_STACK && o->by != BY_RANK))
		return 0;
	for (size_t i = 0; i < r->procs_cnt && o->by == BY_RANK; i++)
		has_rank = has_rank || report_rank(r, r->procs[i].pid, &rank);
	if (o->by == BY_STACK ? r->stacks.total != 0 : has_rank)
		return 0;
	err_set(err, -ENODATA, "%s has no %s", o->file, o->by == BY_STACK ? "stacks" : "ranks");
	return o->by == BY_STACK ?
		       err_hint(err, "stacks need a recording with --stacks: --by op shows which operators held it") :
		       err_hint(err, "--by process shows what its processes held");
}

int report_moment(const struct options *o, struct err *err)
{
	struct selection asked = selection_of(o);
	struct held_moment m;
	int r = held_moment__learn(&m, &asked, o->file, o->classes, err);

	if (!r)
		r = has_device(o, m.report, err);
	if (!r)
		r = has_rows(o, m.report, err);
	if (!r)
		r = held_moment__hold(&m, o->depth, err);
	if (!r && !o->quiet)
		replay_say(o->file, m.report->run.lost[MT_LOSS_DAMAGED], &m.end);
	if (!r)
		r = moment_write(&m, o, err);
	if (!r)
		r = loss_exit_code(o, m.report);
	held_moment__done(&m);
	return r;
}
