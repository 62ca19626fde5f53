/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The model alone: events a second on a generated training step, and what a live block costs.
 *
 *	bench_model                 job, churn and table
 *	bench_model job [SECONDS]   654 events a step, 1 and 8 processes: the worst case of a real job
 *	bench_model churn           ALLOC and FREE at random among N live blocks
 *	bench_model table           memory a live block, growth pauses, time of a report
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/gen_events.h"
#include "model/blocks.h"
#include "model/model.h"
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
	       JOB_EVENTS, r->devs[0].peak, r->lost[MT_LOSS_FRAME]);
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	double seconds = argc > 2 ? atof(argv[2]) : 2;

	if (!*what || !strcmp(what, "job")) {
		bench_job(1, seconds);
		bench_job(8, seconds);
	}
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
