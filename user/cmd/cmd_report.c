/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "replay/chosen.h"
#include "replay/recorded_flow.h"
#include "replay/replay.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/tables/flow.h"

#define STEPS_DEFAULT 2

static int no_flow(const struct options *o, const struct replay_end *end, struct err *err)
{
	err_set(err, -NO_TABLE, "%s has no data flow", o->file);
	if (end->is_missing)
		return err_hint(err, "its end is missing, and no node comes before; record again, or wait for more");
	return err_hint(err, "record without --probes, or with framework,flow,regions, while the job works on tensors");
}

static int report_flow(const struct options *o, const struct chosen *c, struct report **ret_report, struct replay_end *ret_end,
		       struct err *err)
{
	struct recorded_flow f = { .path = o->file, .chosen = c, .classes = o->classes };
	struct flow_view *v = flow_view__new(stdout, o->steps ? o->steps : STEPS_DEFAULT, o->json);
	int r = v ? recorded_flow__write(&f, v, err) : err_set(err, -ENOMEM, "out of memory");

	flow_view__free(v);
	*ret_report = f.report;
	*ret_end = f.end;
	return !r && !f.nodes ? no_flow(o, &f.end, err) : r;
}

static int no_ranks(const struct options *o, struct err *err)
{
	err_set(err, -NO_TABLE, "no process of %s has a rank", o->file);
	return err_hint(err, "torchrun, MPI and SLURM put one into the environment (RANK, SLURM_PROCID …); "
			     "--by process shows all");
}

static int report_of(const struct options *o, const struct chosen *c, struct err *err)
{
	struct replay_opts ro = { .top = report_top(o), .ranks_top = o->by == BY_RANK ? report_top(o) : 0,
				  .classes = o->classes };
	struct report *rep = NULL;
	struct replay_end end = { 0 };
	int r = o->flow ? report_flow(o, c, &rep, &end, err) : chosen__run(c, o->file, &ro, &rep, &end, err);

	if (!r && rep->ranks && !rep->ranks->cnt)
		r = no_ranks(o, err);
	if (!r) {
		if (!o->quiet)
			replay_say(o->file, rep->run.lost[MT_LOSS_DAMAGED], &end);
		if (!o->flow)
			r = o->by == BY_CATEGORY && !rep->has_flow ? no_flow(o, &end, err) : report_write(o, rep, err);
	}
	if (!r)
		r = loss_exit_code(o, rep);
	report__free(rep);
	return r;
}

int cmd_report(const struct options *o, struct err *err)
{
	struct chosen c;
	int r;

	if (is_filtered(o) && !is_of_processes(o))
		return report_moment(o, err);
	r = find_chosen(&c, o, err);
	if (!r)
		r = o->tui ? report_browse(o, &c, err) : report_of(o, &c, err);
	chosen__done(&c);
	return r;
}
