/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "replay/chosen.h"
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

/* --- --flow: where steps begin, then the nodes ------------------------------------------------------ */

static int flow_begin(void *ctx, const struct names *names)
{
	flow_view__names(ctx, names);
	return 0;
}

static int flow_scan(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return flow_view__scan(ctx, ev);
}

static int flow_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	return flow_view__event(ctx, ev, epoch_off_ns);
}

static int flow_passes(const struct options *o, const struct chosen *c, struct flow_view *v, struct report **ret_report,
		       struct replay_end *ret_end, struct err *err)
{
	struct replay_opts scan = { .top = 1, .begin = flow_begin, .event = flow_scan, .with_ops = 1, .ctx = v };
	struct replay_opts show = { .top = 1, .begin = flow_begin, .event = flow_event, .with_nodes = 1,
				    .classes = o->classes, .ctx = v };
	struct report *first = NULL;
	uint64_t nodes;
	int r = chosen__run(c, o->file, &scan, &first, ret_end, err), e;

	report__free(first);
	if (!r)
		r = chosen__run(c, o->file, &show, ret_report, ret_end, err);
	e = flow_view__end(v, &nodes);
	if (r < 0)
		return r;
	if (e < 0)
		return err_set(err, e, "writing: %s", strerror(-e));
	return nodes ? 0 : no_flow(o, ret_end, err);
}

static int report_flow(const struct options *o, const struct chosen *c, struct report **ret_report, struct replay_end *ret_end,
		       struct err *err)
{
	struct flow_view *v = flow_view__new(stdout, o->steps ? o->steps : STEPS_DEFAULT, o->json);
	int r = v ? flow_passes(o, c, v, ret_report, ret_end, err) : err_set(err, -ENOMEM, "out of memory");

	flow_view__free(v);
	return r;
}

/* --- the report --------------------------------------------------------------------------------------- */

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
