/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The model alone: events a second on a generated training step, and what a live block costs.
 *
 *	bench_model                 job, churn and table
 *	bench_model job [SECONDS]   654 events a step, 1 and 8 processes: the worst case of a real job
 *	bench_model churn           ALLOC and FREE at random among N live blocks
 *	bench_model table           memory a live block, growth pauses, time of a report
 *	bench_model flow [SECONDS]  tensors too: steps of a made-up net of 48 layers with Adam, categories told
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/gen_events.h"
#include "model/core/blocks.h"
#include "model/flow/flow.h"
#include "model/model.h"
#include "model/state.h"
#include "timeline/report.h"

#define JOB_EVENTS 2000000u

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "bench_model: no memory\n");
	exit(1);
}

static void feed(struct model *m, const struct event *evs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		model__handle(m, &evs[i]);
}

/* The same step again and again is what a job does; best of the rounds that fit into the time. */
static void bench_job(uint32_t procs, double seconds)
{
	struct names *names = need(names__new());
	struct gen *g = need(gen__new(1, procs, names));
	struct event *evs = need(malloc(JOB_EVENTS * sizeof(*evs)));
	double best = 1e9, end = now_s() + seconds;
	struct report *r = NULL;
	int rounds = 0;

	for (size_t i = 0; i < JOB_EVENTS; i++)
		gen__next(g, &evs[i]);
	for (; now_s() < end || !rounds; rounds++) {
		struct model *m = need(model__new(names, NULL));
		double t = now_s();

		feed(m, evs, JOB_EVENTS);
		t = now_s() - t;
		best = t < best ? t : best;
		report__free(r);
		if (model__report(m, 20, &r) < 0)
			need(NULL);
		model__free(m);
	}
	printf("job, %u process%s: %.1f M events/s (%.1f ns each), best of %d rounds of %u; "
	       "peak %" PRIu64 " bytes, frames lost %" PRIu64 "\n",
	       procs, procs > 1 ? "es" : "", JOB_EVENTS / best / 1e6, best * 1e9 / JOB_EVENTS, rounds,
	       JOB_EVENTS, r->devs[0].peak, r->run.lost[MT_LOSS_FRAME]);
	report__free(r);
	free(evs);
	gen__free(g);
	names__free(names);
}

static uint64_t rand64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Every pair frees a random block and makes one: the table's worst habit, no order in the keys. */
static void bench_churn(size_t live)
{
	struct names *names = need(names__new());
	struct model *m = need(model__new(names, NULL));
	uint64_t *ptrs = need(malloc(live * sizeof(*ptrs))), seed = 7, serial = 0;
	struct event ev = { .pid = 1, .tid = 1, .dev = MT_DEV_CPU, .size = 64 };
	size_t pairs = 2000000;
	double t;

	for (size_t i = 0; i < live; i++) {
		ev.kind = MT_EV_ALLOC;
		ev.addr = ptrs[i] = 0x7f0000000000u + 64 * serial++;
		model__handle(m, &ev);
	}
	t = now_s();
	for (size_t i = 0; i < pairs; i++) {
		size_t k = rand64(&seed) % live;

		ev.ts_ns += 500;
		ev.kind = MT_EV_FREE;
		ev.addr = ptrs[k];
		model__handle(m, &ev);
		ev.kind = MT_EV_ALLOC;
		ev.addr = ptrs[k] = 0x7f0000000000u + 64 * serial++;
		model__handle(m, &ev);
	}
	t = now_s() - t;
	printf("churn, %zu live: %.1f M events/s\n", live, 2 * (double)pairs / t / 1e6);
	free(ptrs);
	model__free(m);
	names__free(names);
}

static void bench_table(size_t live)
{
	struct names *names = need(names__new());
	struct model *m = need(model__new(names, NULL));
	struct event ev = { .kind = MT_EV_ALLOC, .pid = 1, .tid = 1, .dev = MT_DEV_HOST };
	size_t base = mallinfo2().uordblks + mallinfo2().hblkhd, bytes;
	double pause = 0, all = now_s(), t, rep;
	struct report *r;

	for (size_t i = 0; i < live; i++) {
		ev.addr = 0x7f0000000000u + 48 * i;
		ev.size = 32 + i % 1000;
		ev.ts_ns += 500;
		t = now_s();
		model__handle(m, &ev);
		t = now_s() - t;
		pause = t > pause ? t : pause;
	}
	all = now_s() - all;
	bytes = mallinfo2().uordblks + mallinfo2().hblkhd - base;
	rep = now_s();
	if (model__report(m, 20, &r) < 0)
		need(NULL);
	rep = now_s() - rep;
	printf("table, %zu live: %.1f bytes a block, longest pause %.1f ms, all %.2f s, report %.1f ms\n",
	       live, (double)bytes / (double)live, pause * 1e3, all, rep * 1e3);
	report__free(r);
	model__free(m);
	names__free(names);
}

/* --- tensors --------------------------------------------------------------------------------------- */

#define LAYERS 48u
#define P(kind, i) (0x100000u * (kind) + 0x1000u * (i)) /* pointer of layer i's tensor of a kind */
enum { INPUT, WEIGHT, OUT, GRAD, DETAIL, MEAN, SQUARE, SCRATCH };

struct flow_gen {
	struct event *evs;
	size_t cnt;
	uint64_t ts;
	uint32_t seq, seqs[8];
	struct names *names;
};

static void flow_gen__put(struct flow_gen *g, struct event ev)
{
	ev.pid = ev.tid = 7;
	ev.ts_ns = g->ts += 500;
	ev.dev = ev.kind == MT_EV_ALLOC || ev.kind == MT_EV_FREE ? MT_DEV_CPU : 0;
	if (ev.depth && !ev.seq)
		ev.seq = g->seqs[ev.depth - 1];
	g->evs[g->cnt++] = ev;
}

static void flow_gen__frame(struct flow_gen *g, uint8_t kind, const char *name, uint8_t depth)
{
	g->seqs[depth] = ++g->seq;
	flow_gen__put(g, (struct event){ .kind = kind, .name = names__add(g->names, name), .depth = depth,
					 .seq = g->seq });
}

static void flow_gen__arg(struct flow_gen *g, uint8_t depth, uint32_t index, uint64_t ptr, uint32_t flags)
{
	g->ts -= 500;
	flow_gen__put(g, (struct event){ .kind = EV_ARG, .depth = (uint8_t)(depth + 1), .addr = ptr, .size = 4096,
					 .aux = index | (flags | MT_FLOW_F_REQUIRED) << 8 });
}

static void flow_gen__mem(struct flow_gen *g, uint8_t kind, uint8_t depth, uint64_t ptr)
{
	flow_gen__put(g, (struct event){ .kind = kind, .depth = depth, .addr = ptr, .size = 4096 });
}

static void flow_gen__forward(struct flow_gen *g, uint32_t i)
{
	flow_gen__frame(g, MT_EV_OP, "aten::linear", 0);
	flow_gen__arg(g, 0, 0, i ? P(OUT, i - 1) : P(INPUT, 1), 0);
	flow_gen__arg(g, 0, 1, P(WEIGHT, i), MT_FLOW_F_WEIGHT);
	flow_gen__frame(g, MT_EV_OP, "aten::t", 1);
	flow_gen__arg(g, 1, 0, P(WEIGHT, i), 0);
	flow_gen__frame(g, MT_EV_OP, "aten::addmm", 1);
	flow_gen__arg(g, 1, 0, i ? P(OUT, i - 1) : P(INPUT, 1), 0);
	flow_gen__arg(g, 1, 1, P(WEIGHT, i), 0);
	flow_gen__mem(g, MT_EV_ALLOC, 2, P(OUT, i));
	flow_gen__frame(g, MT_EV_OP, "aten::relu_", 0);
	flow_gen__arg(g, 0, 0, P(OUT, i), MT_FLOW_F_WRITTEN);
}

static void flow_gen__backward(struct flow_gen *g, uint32_t i)
{
	uint64_t incoming = i + 1 < LAYERS ? P(DETAIL, i + 1) : P(OUT, i);

	flow_gen__frame(g, MT_EV_NODE, "AddmmBackward0", 0);
	flow_gen__frame(g, MT_EV_APPLY, "AddmmBackward0", 1);
	flow_gen__arg(g, 1, 0, incoming, 0);
	flow_gen__frame(g, MT_EV_OP, "aten::mm", 2);
	flow_gen__arg(g, 2, 0, incoming, 0);
	flow_gen__arg(g, 2, 1, P(WEIGHT, i), 0);
	flow_gen__mem(g, MT_EV_ALLOC, 3, P(DETAIL, i));
	flow_gen__frame(g, MT_EV_OP, "aten::mm", 2);
	flow_gen__arg(g, 2, 0, incoming, 0);
	flow_gen__arg(g, 2, 1, P(OUT, i), 0);
	flow_gen__mem(g, MT_EV_ALLOC, 3, P(GRAD, i));
	flow_gen__frame(g, MT_EV_NODE, "AccumulateGrad", 0);
	flow_gen__frame(g, MT_EV_ACC, "AccumulateGrad", 1);
	flow_gen__arg(g, 1, 0, P(WEIGHT, i), 0);
	flow_gen__arg(g, 1, 2, P(GRAD, i), 0);
	flow_gen__frame(g, MT_EV_OP, "aten::detach", 2);
	flow_gen__arg(g, 2, 0, P(GRAD, i), 0);
	if (i + 1 < LAYERS)
		flow_gen__mem(g, MT_EV_FREE, 0, P(DETAIL, i + 1));
	flow_gen__mem(g, MT_EV_FREE, 0, P(OUT, i));
}

static void flow_gen__adam(struct flow_gen *g, uint32_t i)
{
	flow_gen__frame(g, MT_EV_OP, "aten::lerp_", 0);
	flow_gen__arg(g, 0, 0, P(MEAN, i), MT_FLOW_F_WRITTEN);
	flow_gen__arg(g, 0, 1, P(GRAD, i), 0);
	flow_gen__frame(g, MT_EV_OP, "aten::addcmul_", 0);
	flow_gen__arg(g, 0, 0, P(SQUARE, i), MT_FLOW_F_WRITTEN);
	flow_gen__arg(g, 0, 1, P(GRAD, i), 0);
	flow_gen__frame(g, MT_EV_OP, "aten::sqrt", 0);
	flow_gen__arg(g, 0, 0, P(SQUARE, i), 0);
	flow_gen__mem(g, MT_EV_ALLOC, 1, P(SCRATCH, i));
	flow_gen__frame(g, MT_EV_OP, "aten::addcdiv_", 0);
	flow_gen__arg(g, 0, 0, P(WEIGHT, i), MT_FLOW_F_WRITTEN);
	flow_gen__arg(g, 0, 1, P(MEAN, i), 0);
	flow_gen__arg(g, 0, 2, P(SCRATCH, i), 0);
	flow_gen__mem(g, MT_EV_FREE, 0, P(SCRATCH, i));
	flow_gen__mem(g, MT_EV_FREE, 0, P(GRAD, i));
}

static void flow_gen__step(struct flow_gen *g)
{
	g->cnt = 0;
	flow_gen__frame(g, MT_EV_OP, "aten::randn", 0);
	flow_gen__mem(g, MT_EV_ALLOC, 1, P(INPUT, 1));
	for (uint32_t i = 0; i < LAYERS; i++)
		flow_gen__forward(g, i);
	for (uint32_t i = LAYERS; i--;)
		flow_gen__backward(g, i);
	flow_gen__mem(g, MT_EV_FREE, 0, P(DETAIL, 0));
	flow_gen__put(g, (struct event){ .kind = MT_EV_REGION_BEGIN,
					 .name = names__add(g->names, "Optimizer.step#Adam.step") });
	for (uint32_t i = 0; i < LAYERS; i++)
		flow_gen__adam(g, i);
	flow_gen__put(g, (struct event){ .kind = MT_EV_REGION_END });
	flow_gen__mem(g, MT_EV_FREE, 0, P(INPUT, 1));
}

static void bench_flow(double seconds)
{
	struct flow_gen g = { .evs = need(malloc(8192 * sizeof(*g.evs))), .names = need(names__new()) };
	struct model *m = need(model__new(g.names, NULL));
	double end = now_s() + seconds, t, spent = 0;
	uint64_t events = 0, steps = 0;
	size_t early = 0;

	while (now_s() < end) {
		flow_gen__step(&g);
		t = now_s();
		feed(m, g.evs, g.cnt);
		spent += now_s() - t;
		events += g.cnt;
		if (++steps == 100)
			early = graph__bytes(m->graph);
	}
	printf("flow: %.1f M events/s (%.1f ns each), %" PRIu64 " steps of %zu; graph %zu KiB after 100 steps, %zu now; "
	       "live of it: parameters %" PRIu64 ", state %" PRIu64 "\n",
	       (double)events / spent / 1e6, spent * 1e9 / (double)events, steps, g.cnt, early >> 10,
	       graph__bytes(m->graph) >> 10, m->devs[0]->cats[CAT_PARAMETER].live,
	       m->devs[0]->cats[CAT_OPTIMIZER_STATE].live);
	model__free(m);
	names__free(g.names);
	free(g.evs);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	double seconds = argc > 2 ? atof(argv[2]) : 2;

	if (!*what || !strcmp(what, "job")) {
		bench_job(1, seconds);
		bench_job(8, seconds);
	}
	if (!*what || !strcmp(what, "flow"))
		bench_flow(seconds);
	if (!*what || !strcmp(what, "churn")) {
		bench_churn(1000);
		bench_churn(100000);
		bench_churn(1000000);
	}
	if (!*what || !strcmp(what, "table")) {
		bench_table(100000);
		bench_table(1000000);
		bench_table(1600000); /* just after a doubling: the worst ratio */
		bench_table(5000000);
	}
	return 0;
}
