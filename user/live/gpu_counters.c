/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/gpu_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "gpu"
#include "base/clock.h"
#include "base/log.h"
#include "live/followed.h"
#include "target/counters.h"
#include "target/target.h"

/*
 * Rings are not drained meanwhile, so a turn (every 10 ms) ends after TURN_NS; the remaining processes have the next one. One
 * process may take PROC_NS of it: then it rests REST times as long, and after a look for places all do.
 */
#define EVERY_NS 100000000ull
#define TURN_NS	 500000ull
#define PROC_NS	 10000000ull
#define END_NS	 300000000ull /* at the end there is nothing to drain for */
#define REST	 20
/* A process that has used no GPU yet: its allocator has counted nothing. The wait doubles after each look. */
#define FIND_NS	    250000000ull
#define FIND_MAX_NS 16000000000ull

struct timed_reader {
	const struct target *target;
	uint64_t until_ns;
};

static int read_process(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct timed_reader *r = ctx;

	return now_ns() < r->until_ns ? target__read(r->target, addr, buf, len) : -ETIMEDOUT;
}

static int proc_counters__keep(struct proc_counters *c, const struct counters_places *places)
{
	c->places = malloc(sizeof(*c->places));
	c->reported = calloc(places->cnt, sizeof(*c->reported));
	if (!c->places || !c->reported) {
		free(c->places);
		free(c->reported);
		c->places = NULL;
		c->reported = NULL;
		return -ENOMEM;
	}
	*c->places = *places;
	return 0;
}

static void gpu_counters__find(struct gpu_counters *g, struct process *p, const struct counters_mem *mem)
{
	struct proc_counters *c = &p->counters;
	struct counters_places places;
	uint64_t object, begin = now_ns(), took;
	int r;

	if (!c->global || begin < c->find_ns || begin < g->find_ns)
		return;
	r = mem->read(mem->ctx, c->global, &object, sizeof(object));
	if (!r)
		r = counters__find(&places, mem, object);
	if (!r)
		r = proc_counters__keep(c, &places);
	took = now_ns() - begin;
	c->wait_ns = !c->wait_ns ? FIND_NS : c->wait_ns < FIND_MAX_NS / 2 ? 2 * c->wait_ns : FIND_MAX_NS;
	c->find_ns = begin + took + c->wait_ns;
	g->find_ns = begin + took + REST * took;
	log_debug("the counters of process %d's allocator: %s, in %.2f ms", (int)p->pid, r ? strerror(-r) : "found",
		  (double)took / 1e6);
}

static void tell_device(const struct process *p, size_t dev, const struct counters *now, struct counters *reported,
			const struct tell *tell)
{
	struct event ev = { .ts_ns = now_ns(), .kind = EV_COUNTERS, .pid = (uint32_t)p->pid,
			    .dev = (uint8_t)(MT_DEV_CUDA0 + dev) };

	if (!memcmp(now, reported, sizeof(*now)))
		return;
	ev.addr = now->allocated;
	ev.size = now->reserved;
	tell__event(tell, ev);
	ev.aux = EV_COUNTERS_PEAK;
	ev.addr = now->allocated_peak;
	ev.size = now->reserved_peak;
	tell__event(tell, ev);
	*reported = *now;
}

static void gpu_counters__read(struct gpu_counters *g, struct process *p)
{
	uint64_t begin = now_ns(), took;
	struct timed_reader reader = { p->target, begin + PROC_NS };
	const struct counters_mem mem = { read_process, &reader };
	struct proc_counters *c = &p->counters;
	int r = 0;

	if (!c->places)
		gpu_counters__find(g, p, &mem);
	for (size_t i = 0; c->places && i < c->places->cnt && r != -ETIMEDOUT; i++) {
		struct counters now;

		if (!c->places->at[i])
			continue;
		r = counters__read(&now, &mem, c->places->at[i]);
		if (!r)
			tell_device(p, i, &now, &c->reported[i], &g->tell);
	}
	took = now_ns() - begin;
	c->at_ns = begin + (REST * took > EVERY_NS ? REST * took : EVERY_NS);
}

void gpu_counters__know(struct process *p, uint64_t global)
{
	struct proc_counters *c = &p->counters;

	if (c->image_ns == p->image_ns && (!global || c->global == global))
		return;
	proc_counters__done(c);
	c->image_ns = p->image_ns;
	c->global = global;
}

void gpu_counters__turn(struct gpu_counters *g, int all)
{
	uint64_t begin = now_ns(), turn_ns = all ? END_NS : TURN_NS;
	size_t cnt = g->followed->procs_cnt, i;

	for (i = 0; i < cnt && now_ns() - begin < turn_ns; i++) {
		struct process *p = g->followed->procs[(g->turn + i) % cnt];

		if (!p || p->gone_ns || (!all && begin < p->counters.at_ns))
			continue;
		gpu_counters__know(p, 0);
		if (p->counters.global)
			gpu_counters__read(g, p);
	}
	g->turn = cnt ? (g->turn + i) % cnt : 0;
}
