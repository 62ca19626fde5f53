/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* report of a moment. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/held_moment.h"
#include "timeline/report.h"
#include "view/tables/holdings.h"

static int moment_write(const struct held_moment *m, const struct options *o, struct err *err)
{
	struct held_view v = { .h = m->held, .r = m->report, .said = &m->filter.said, .dev = (uint8_t)m->filter.sieve.dev,
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

int report_moment(const struct options *o, struct err *err)
{
	struct held_moment m;
	int r = held_moment__read(&m, o, err);

	if (!r)
		r = moment_write(&m, o, err);
	if (!r)
		r = loss_exit_code(o, m.report);
	held_moment__done(&m);
	return r;
}
