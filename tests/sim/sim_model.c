/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The model against a slow one, on made-up processes with lost events, reused addresses and pids,
 * execs, exits and nonsense.
 *
 *	sim_model                     random seed, 10 seconds
 *	sim_model SEED [SECONDS]      from this seed on; a failure names the seed of its run
 *
 * Held to it: attribution is what really happened, or unknown where records were lost; every number
 * of the report equals the oracle's; the model's own invariants; and a second model that gets the
 * same events, without a timeline, makes the same report.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "sim/dump.h"
#include "sim/oracle.h"
#include "sim/seeds.h"
#include "sim/world.h"

#define RUN_EVENTS 4000

struct sink {
	struct tl_event allocated; /* the last TL_CREATE or TL_OOM; kind 0: none */
	uint64_t created, destroyed, preexisting;
	uint64_t last_ts;
};

static int sink__event(void *ctx, const struct tl_event *ev)
{
	struct sink *s = ctx;

	o_must(ev->ts_ns >= s->last_ts, "the timeline goes back in time");
	s->last_ts = ev->ts_ns;
	if (ev->kind == TL_CREATE || ev->kind == TL_OOM)
		s->allocated = *ev;
	s->created += ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING;
	s->destroyed += ev->kind == TL_DESTROY;
	s->preexisting += ev->kind == TL_PREEXISTING;
	return 0;
}

struct run {
	struct names *names;
	struct world world;
	struct model *model;
	struct oracle oracle;
	struct sink sink;
	struct event *events;
	size_t cnt;
};

static void run__check_truth(const struct run *r, const struct w_truth *truth)
{
	const struct tl_event *b = &r->sink.allocated;

	if (truth->unchecked)
		return;
	o_must(b->op.v == truth->op.v, "op \"%s\", in truth \"%s\"", names__get(r->names, b->op),
	       names__get(r->names, truth->op));
	o_must(b->region.v == truth->region.v || (!truth->exact && b->region.v == truth->region_alt.v),
	       "region \"%s\", in truth \"%s\"", names__get(r->names, b->region),
	       names__get(r->names, truth->region));
}

static void run__event(struct run *r, const struct event *ev, const struct w_truth *truth)
{
	struct o_truth reported = { .lost = truth->lost };

	r->events[r->cnt++] = *ev;
	r->sink.allocated.kind = 0;
	o_must(model__handle(r->model, ev) == 0, "model__handle failed");
	if (r->sink.allocated.kind) {
		run__check_truth(r, truth);
		reported.op = r->sink.allocated.op;
		reported.region = r->sink.allocated.region;
	}
	oracle__handle(&r->oracle, ev, &reported);
}

static void run__compare(struct run *r, size_t top)
{
	struct report *report = NULL;
	uint64_t live = 0;

	model__check(r->model);
	o_must(model__report(r->model, top, &report) == 0, "no report");
	oracle__compare(&r->oracle, report, r->names, top);
	for (size_t i = 0; i < report->devs_cnt; i++)
		live += report->devs[i].allocs - report->devs[i].frees - report->devs[i].dropped;
	o_must(r->sink.created - r->sink.destroyed == live, "the timeline tells of other blocks");
	report__free(report);
}

static char *dump_of(const struct model *m)
{
	struct report *report = NULL;
	char *text;

	o_must(model__report(m, 50, &report) == 0, "no report");
	text = report_dump(report);
	report__free(report);
	o_must(text != NULL, "no memory");
	return text;
}

static void run__replay(struct run *r, const struct model_opts *opts)
{
	struct model_opts quiet = { .blocks_max = opts->blocks_max };
	struct model *m = model__new(r->names, &quiet);
	char *live = dump_of(r->model), *again;

	o_must(m != NULL, "no memory");
	for (size_t i = 0; i < r->cnt; i++)
		model__handle(m, &r->events[i]);
	again = dump_of(m);
	o_must(!strcmp(live, again), "the same events made another report");
	free(live);
	free(again);
	model__free(m);
}

static uint64_t run_once(uint64_t seed)
{
	struct run r = { .names = names__new(), .events = malloc(RUN_EVENTS * sizeof(*r.events)) };
	struct model_opts opts = { .timeline = sink__event, .timeline_ctx = &r.sink };
	struct w_truth truth;
	struct event ev;

	world__init(&r.world, seed, r.names);
	opts.timeline_ops = (int)world__below(&r.world, 2);
	opts.blocks_max = world__below(&r.world, 5) ? 0 : 1 + world__below(&r.world, 300);
	oracle__init(&r.oracle);
	r.oracle.blocks_max = opts.blocks_max;
	r.model = model__new(r.names, &opts);
	o_must(r.names && r.events && r.model, "no memory");
	for (int i = 0; i < RUN_EVENTS; i++) {
		if (world__next(&r.world, &ev, &truth))
			run__event(&r, &ev, &truth);
		if (!world__below(&r.world, 500))
			run__compare(&r, 1 + world__below(&r.world, 80));
	}
	run__compare(&r, 2000);
	run__replay(&r, &opts);
	model__free(r.model);
	oracle__done(&r.oracle);
	names__free(r.names);
	free(r.events);
	return r.cnt;
}

int main(int argc, char **argv)
{
	uint64_t events, runs = seeds__run("sim_model", argc, argv, run_once, &events);

	printf("sim_model: %" PRIu64 " runs, %" PRIu64 " events, all equal\n", runs, events);
	return 0;
}
