/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The data-flow graph on made-up processes: nested operators and backward nodes with random tensors,
 * optimizer regions, lost frames, several threads, processes that end.
 *
 *	sim_flow                      random seed, 10 seconds
 *	sim_flow SEED [SECONDS]       from this seed on; a failure names the seed of its run
 *
 * Held to it: the model's invariants (categories add up to the device, byte·time and peak too), versions
 * never go back, nothing is said of a block after its end, and the report is the same again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "sim/dump.h"
#include "sim/oracle.h"
#include "sim/seeds.h"
#include "timeline/report.h"

#define RUN_EVENTS 6000
#define PTRS 60u
#define THREADS 3u
#define IDS 65536u

static uint64_t rng, nodes_reported, finals_reported, learned_reported;

static uint32_t below(uint32_t n)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)(((z ^ (z >> 31)) >> 32) * n >> 32);
}

struct reported {
	uint32_t version[IDS];
	uint8_t state[IDS]; /* 0 never heard of, 1 alive, 2 dead */
	uint32_t final[IDS]; /* version of its last TL_FINAL + 1 */
	uint64_t last_final, nodes, finals;
};

static int hear_node(struct reported *t, const struct tl_event *ev)
{
	o_must(ev->edges_cnt > 0, "a node without blocks");
	t->nodes++;
	for (uint32_t i = 0; i < ev->edges_cnt; i++) {
		const struct tl_edge *e = &ev->edges[i];

		o_must(e->id && e->id < IDS && t->state[e->id] && e->cat < CAT_MAX && e->out_cat < CAT_MAX, "no such block");
		o_must(!(e->flags & TL_EDGE_IN) != !(e->flags & TL_EDGE_ALLOCATED), "neither there before nor born");
		o_must(e->out_version == e->version + !!(e->flags & TL_EDGE_WRITTEN), "versions of a write");
		o_must(!(e->flags & TL_EDGE_ALLOCATED) || !e->out_version, "born with a version");
		/* what is written where it dies is told with its death, or not at all */
		o_must(t->state[e->id] == 2 || e->out_version <= t->version[e->id], "a version that was never told");
		for (uint32_t k = 0; k < i; k++)
			o_must(ev->edges[k].id != e->id, "twice in a node");
	}
	return 0;
}

/* Once a block, ascending, all of it together. */
static int hear_final(struct reported *t, const struct tl_event *ev)
{
	o_must(ev->cat < CAT_MAX && t->state[ev->id], "no such block");
	o_must(t->final[ev->id] ? t->last_final == ev->id && t->final[ev->id] <= ev->version : !ev->version,
	       "the last word was not the last");
	o_must(t->state[ev->id] == 2 || ev->version <= t->version[ev->id], "of a version that was never told");
	t->final[ev->id] = ev->version + 1;
	t->last_final = ev->id;
	t->finals++;
	return 0;
}

static int hear(void *ctx, const struct tl_event *ev)
{
	struct reported *t = ctx;

	o_must(ev->id < IDS, "too many blocks");
	if (ev->kind == TL_NODE)
		return hear_node(t, ev);
	if (ev->kind == TL_FINAL)
		return hear_final(t, ev);
	if (ev->kind == TL_LEARNED) { /* when its step is over: it may be, too */
		o_must(t->state[ev->id] && ev->learned && ev->learned->cat < CAT_MAX, "learned of no block");
		learned_reported++;
		return 0;
	}
	o_must(!t->final[ev->id] || (ev->kind == TL_DESTROY && t->last_final == ev->id), "more after the last word");
	switch (ev->kind) {
	case TL_CREATE:
	case TL_PREEXISTING:
		o_must(t->state[ev->id] == 0, "born twice");
		t->state[ev->id] = 1;
		return 0;
	case TL_VERSION:
		o_must(ev->version == t->version[ev->id] + 1, "a version was left out");
		t->version[ev->id]++;
		break;
	case TL_LABEL:
		o_must(ev->version == t->version[ev->id], "of another version");
		break;
	case TL_DESTROY:
		break;
	default:
		return 0;
	}
	o_must(t->state[ev->id] == 1, "told of a block that is not there");
	t->state[ev->id] += ev->kind == TL_DESTROY;
	return 0;
}

struct thread {
	uint32_t seq, depth, seqs[MT_FRAMES_MAX], regions;
};

static const char *const texts[] = { "aten::detach", "aten::add_.Tensor", "aten::zeros_like", "aten::mul",
				     "autograd node", "MulBackward0", "aten::resize_",
				     "aten::_has_compatible_shallow_copy_type" };
#define NAMES 8u

static size_t add_args(struct event *evs, size_t cnt, const struct event *frame)
{
	uint32_t args = below(5);

	for (uint32_t i = 0; i < args; i++) {
		struct event *ev = &evs[cnt++];

		*ev = (struct event){ .kind = EV_ARG, .ts_ns = frame->ts_ns, .pid = frame->pid,
				      .tid = frame->tid, .seq = frame->seq,
				      .depth = (uint8_t)(frame->depth + 1) };
		ev->aux = i | below(64) << 8;
		if (below(12))
			ev->addr = 0x1000 + 0x100 * (uint64_t)below(PTRS) + (below(30) ? 0 : 8);
		ev->size = ev->addr ? 16 * (1 + below(3)) : 0;
	}
	return cnt;
}

static size_t enter(struct event *evs, size_t cnt, struct thread *t, struct event ev, const name_id *names)
{
	static const uint8_t kinds[] = { MT_EV_OP, MT_EV_OP, MT_EV_OP, MT_EV_NODE, MT_EV_APPLY, MT_EV_ACC };

	ev.kind = kinds[below(6)];
	ev.name = names[below(NAMES)];
	ev.depth = (uint8_t)t->depth;
	ev.seq = ++t->seq;
	if (t->depth < MT_FRAMES_MAX)
		t->seqs[t->depth++] = t->seq;
	if (!below(60))
		return cnt; /* its record is lost */
	evs[cnt++] = ev;
	return ev.kind == MT_EV_NODE ? cnt : add_args(evs, cnt, &ev);
}

static size_t fill(struct event *evs, const name_id *names, name_id step)
{
	struct thread threads[THREADS] = { 0 };
	bool has_levels = below(2); /* of tracing: windows of it, and gaps */
	uint64_t ts = 1000;
	size_t cnt = 0;

	while (cnt < RUN_EVENTS) {
		uint32_t who = below(40) ? 0 : below(THREADS), what = below(100);
		struct thread *t = &threads[who];
		struct event ev = { .ts_ns = ts += below(20) ? below(100) : below(4000000),
				    .pid = 1 + who % 2, .tid = 10 + who };

		if (!below(3))
			t->depth = below(t->depth + 1);
		ev.depth = (uint8_t)t->depth;
		ev.seq = t->depth ? t->seqs[t->depth - 1] : 0;
		ev.addr = 0x1000 + 0x100 * (uint64_t)below(PTRS);
		ev.dev = MT_DEV_CPU;
		if (what < 40) {
			cnt = enter(evs, cnt, t, ev, names);
			continue;
		}
		ev.kind = what < 65 ? MT_EV_ALLOC : what < 90 ? MT_EV_FREE : MT_EV_REGION_BEGIN;
		ev.size = 16 * (1 + below(8));
		if (what >= 90 && t->regions && below(3))
			ev.kind = MT_EV_REGION_END;
		if (ev.kind == MT_EV_REGION_BEGIN) {
			ev.aux = t->regions < MT_REGIONS_MAX ? t->regions++ : t->regions;
			ev.name = below(4) ? step : names[0];
		} else if (ev.kind == MT_EV_REGION_END) {
			ev.aux = --t->regions;
		}
		if (!below(150))
			ev = (struct event){ .kind = MT_EV_MUNMAP, .ts_ns = ts, .pid = ev.pid, .tid = ev.tid, .addr = ev.addr,
					     .size = 0x100ull * (1 + below(3)), .flags = below(4) ? 0 : MT_MAP_REMAP };
		else if (!below(2000))
			ev = (struct event){ .kind = EV_GONE, .ts_ns = ts, .pid = ev.pid };
		else if (!below(300))
			ev.kind = MT_EV_STEP;
		else if (has_levels && !below(300))
			ev = (struct event){ .kind = EV_LEVEL, .ts_ns = ts, .aux = ev.pid,  .size = below(4),
					     .flags = (uint8_t)below(EV_LEVEL_STATES),
					     .depth = (uint8_t)(below(8) ? MT_LEVEL_BLOCKS : below(MT_LEVEL_FULL + 1)) };
		evs[cnt++] = ev;
	}
	return cnt;
}

static char *play(const struct names *names, const struct event *evs, size_t cnt, struct reported *reported)
{
	const struct model_opts opts = { .timeline = reported ? hear : NULL, .timeline_ctx = reported,
					 .timeline_nodes = 1 };
	struct model *m = model__new(names, &opts);
	struct report *r = NULL;
	char *text;

	o_must(m != NULL, "no memory");
	for (size_t i = 0; i < cnt; i++) {
		o_must(model__handle(m, &evs[i]) == 0, "model__handle failed");
		if (reported && (i % 64 == 0 || cnt - i < 64))
			model__check(m);
	}
	o_must(model__end(m) == 0, "model__end failed");
	model__check(m);
	o_must(model__report(m, 50, &r) == 0, "no report");
	for (size_t i = 0; i < r->devs_cnt; i++) {
		uint64_t live = 0, peak = 0, byte_ns = 0;

		for (int c = 0; c < CAT_MAX; c++) {
			live += r->devs[i].cats[c].live;
			peak += r->devs[i].cats[c].at_peak;
			byte_ns += r->devs[i].cats[c].byte_ns;
		}
		o_must(live == r->devs[i].live && peak == r->devs[i].peak && byte_ns == r->devs[i].byte_ns,
		       "categories do not add up");
	}
	text = report_dump(r);
	report__free(r);
	model__free(m);
	return text;
}

static uint64_t run_once(uint64_t seed)
{
	struct event *evs = calloc(RUN_EVENTS + 16, sizeof(*evs));
	struct reported *reported = calloc(1, sizeof(*reported));
	struct names *names = names__new();
	name_id ids[NAMES], step;
	char *a, *b;
	size_t cnt;

	o_must(evs && reported && names, "no memory");
	rng = seed;
	for (unsigned i = 0; i < NAMES; i++)
		ids[i] = names__add(names, texts[i]);
	step = names__add(names, "Optimizer.step#SGD.step");
	cnt = fill(evs, ids, step);
	a = play(names, evs, cnt, reported);
	nodes_reported += reported->nodes;
	finals_reported += reported->finals;
	b = play(names, evs, cnt, NULL);
	o_must(a && b && !strcmp(a, b), "the same events made another report");
	free(a);
	free(b);
	names__free(names);
	free(reported);
	free(evs);
	return RUN_EVENTS;
}

int main(int argc, char **argv)
{
	uint64_t events, runs = seeds__run("sim_flow", argc, argv, run_once, &events);

	o_must(nodes_reported && finals_reported, "nothing was told of the graph");
	printf("sim_flow: %" PRIu64 " runs, %" PRIu64 " events, %" PRIu64 " nodes, %" PRIu64 " last words, %" PRIu64
	       " learned, all sound\n", runs, events, nodes_reported, finals_reported, learned_reported);
	return 0;
}
