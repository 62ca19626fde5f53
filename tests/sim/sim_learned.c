/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Learned labels on made-up jobs: processes whose steps repeat themselves, more or less: allocations come and go, sizes change,
 * kinds of steps take turns, threads get between each other; levels of tracing change as a session's do, or as none's ever
 * would.
 *
 *	sim_learned                   random seed, 10 seconds
 *	sim_learned SEED [SECONDS]    from this seed on; a failure names the seed of its run
 *
 * Held to it: the model's invariants (what has a label and what has none are parts of all that lived), a block is told of once
 * and after it was allocated, the report is the same again; and of jobs whose steps repeat exactly, and whose kinds of
 * steps are unlike (docs/sampling.md), each label is right.
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

#define RUN_EVENTS 8000
#define IDS 16384u
#define OPS 6u
#define LENGTH 40u /* allocations of a step, at most */
#define PID 1u

static uint64_t rng, learned_reported, right_reported;

static uint32_t below(uint32_t n)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)(((z ^ (z >> 31)) >> 32) * n >> 32);
}

struct made {
	uint32_t size, op, thread;
	bool dies;
};

struct job {
	struct event *evs;
	size_t cnt;
	uint64_t ts, next_ptr, allocs;
	struct made steps[2][LENGTH];
	uint32_t lengths[2];
	uint64_t live[LENGTH]; /* what lives on until the next step */
	uint32_t live_cnt, seq;
	uint8_t state;
	bool repeats; /* exactly; and levels change as a session's do */
	name_id names[OPS];
	uint32_t op_of[IDS]; /* by allocation, from 1: + 1 */
};

struct reported {
	const struct job *job;
	uint8_t state[IDS]; /* 1 allocated, 2 learned */
	uint64_t allocated;
};

static void put(struct job *j, struct event ev)
{
	ev.ts_ns = j->ts += below(50);
	if (ev.kind != EV_LEVEL) {
		ev.pid = PID;
		ev.tid = ev.tid ? ev.tid : 10;
	}
	if (j->cnt < RUN_EVENTS)
		j->evs[j->cnt++] = ev;
}

static void put_level(struct job *j, uint8_t state, uint8_t level)
{
	put(j, (struct event){ .kind = EV_LEVEL, .aux = PID, .flags = state, .depth = level, .size = 1 + below(3), .addr = 1 });
	j->state = state;
}

static void change_step(struct made *s, uint32_t *cnt)
{
	uint32_t at = below(*cnt + 1), what = below(3);

	if (what == 0 && *cnt < LENGTH) {
		memmove(&s[at + 1], &s[at], (*cnt - at) * sizeof(*s));
		++*cnt;
	}
	if (what == 1 && at < *cnt && *cnt > 1) {
		memmove(&s[at], &s[at + 1], (*cnt - at - 1) * sizeof(*s));
		--*cnt;
	} else if (at < *cnt) {
		s[at] = (struct made){ 16 * (1 + below(50)), below(OPS), below(3), below(4) != 0 };
	}
}

/* What the allocation is, in the job; and whether its operator is told. */
static void put_alloc(struct job *j, const struct made *m, uint64_t ptr)
{
	bool is_seen = j->state >= EV_LEVEL_ARMED;
	uint32_t tid = 10 + m->thread;

	if (is_seen)
		put(j, (struct event){ .kind = MT_EV_OP, .name = j->names[m->op], .tid = tid, .seq = ++j->seq });
	if (++j->allocs < IDS)
		j->op_of[j->allocs] = m->op + 1;
	put(j, (struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = m->size, .dev = MT_DEV_CPU, .tid = tid,
			       .depth = is_seen, .seq = is_seen ? j->seq : 0 });
}

static void put_step(struct job *j)
{
	uint32_t which = below(4) == 0, cnt, dies = 0;
	struct made *s = j->steps[which];
	uint64_t dead[LENGTH];

	if (!j->repeats && !below(3))
		change_step(s, &j->lengths[which]);
	cnt = j->lengths[which];
	for (uint32_t i = 0; i < j->live_cnt; i++)
		put(j, (struct event){ .kind = MT_EV_FREE, .addr = j->live[i], .dev = MT_DEV_CPU });
	j->live_cnt = 0;
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t ptr = j->next_ptr += 0x1000;

		put_alloc(j, &s[i], ptr);
		if (s[i].dies)
			dead[dies++] = ptr;
		else
			j->live[j->live_cnt++] = ptr;
		if (!j->repeats && !below(200))
			put_level(j, (uint8_t)below(EV_LEVEL_STATES), (uint8_t)(MT_LEVEL_WATCH + below(3)));
	}
	for (uint32_t i = 0; i < dies; i++)
		put(j, (struct event){ .kind = MT_EV_FREE, .addr = dead[i], .dev = MT_DEV_CPU });
	put(j, (struct event){ .kind = MT_EV_STEP });
	if (!j->repeats && !below(100))
		put(j, (struct event){ .kind = EV_GONE });
}

static bool are_near(uint32_t a, uint32_t b)
{
	return (a < b ? a : b) >= 0.88 * (a < b ? b : a);
}

/*
 * Of steps that repeat exactly the two kinds are none that could be taken for each other: they have no size in common, so an
 * allocation fits by half at most, and one has less than 0.88 of the other's: together below LEARNED_FITS.
 */
static void fill_kinds(struct job *j)
{
	for (unsigned k = 0; k < 2; k++) {
		uint32_t sizes_from = j->repeats ? 16 * 50 * k : 0;

		do
			j->lengths[k] = 5 + below(LENGTH - 5);
		while (k && j->repeats && are_near(j->lengths[0], j->lengths[1]));
		for (uint32_t i = 0; i < j->lengths[k]; i++)
			j->steps[k][i] = (struct made){ sizes_from + 16 * (1 + below(50)), below(OPS), below(3),
							 below(4) != 0 };
	}
}

static void fill(struct job *j)
{
	put(j, (struct event){ .kind = EV_PROC });
	fill_kinds(j);
	put_level(j, EV_LEVEL_GAP, MT_LEVEL_WATCH);
	while (j->cnt < RUN_EVENTS) {
		put_level(j, EV_LEVEL_ARMED, MT_LEVEL_FULL);
		for (uint32_t i = 5 + below(6); i--;)
			put_step(j);
		put_level(j, EV_LEVEL_GAP, MT_LEVEL_BLOCKS);
		put_level(j, EV_LEVEL_REST, MT_LEVEL_BLOCKS);
		for (uint32_t i = below(20); i--;)
			put_step(j);
	}
}

static int hear(void *ctx, const struct tl_event *ev)
{
	struct reported *t = ctx;

	o_must(ev->id < IDS, "too many blocks");
	if (ev->kind == TL_CREATE) {
		o_must(!t->state[ev->id], "born twice");
		t->state[ev->id] = 1;
		return 0;
	}
	if (ev->kind != TL_LEARNED)
		return 0;
	o_must(t->state[ev->id] == 1 && ev->learned, "learned of no block, or twice");
	t->state[ev->id] = 2;
	learned_reported++;
	if (t->job->repeats) { /* all that is allocated is told: ids are allocations */
		o_must(ev->learned->op.v == t->job->names[t->job->op_of[ev->id] - 1].v, "of another operator");
		right_reported++;
	}
	return 0;
}

static char *play(const struct names *names, const struct job *j, struct reported *reported)
{
	const struct model_opts opts = { .timeline = reported ? hear : NULL, .timeline_ctx = reported };
	struct model *m = model__new(names, &opts);
	struct report *r = NULL;
	char *text;

	o_must(m != NULL, "no memory");
	for (size_t i = 0; i < j->cnt; i++) {
		o_must(model__handle(m, &j->evs[i]) == 0, "model__handle failed");
		if (reported && i % 64 == 0)
			model__check(m);
	}
	model__check(m);
	o_must(model__report(m, 50, &r) == 0, "no report");
	text = report_dump(r);
	report__free(r);
	model__free(m);
	return text;
}

static uint64_t run_once(uint64_t seed)
{
	static const char *const texts[OPS] = { "aten::mm", "aten::add", "aten::relu", "aten::mul", "aten::empty",
						"aten::sum" };
	struct job *j = calloc(1, sizeof(*j));
	struct reported *reported = calloc(1, sizeof(*reported));
	struct names *names = names__new();
	char *a, *b;

	o_must(j && reported && names, "no memory");
	j->evs = calloc(RUN_EVENTS, sizeof(*j->evs));
	o_must(j->evs != NULL, "no memory");
	rng = seed;
	j->repeats = seed & 1;
	j->ts = 1000;
	reported->job = j;
	for (unsigned i = 0; i < OPS; i++)
		j->names[i] = names__add(names, texts[i]);
	fill(j);
	a = play(names, j, reported);
	b = play(names, j, NULL);
	o_must(a && b && !strcmp(a, b), "the same events made another report");
	free(a);
	free(b);
	names__free(names);
	free(j->evs);
	free(reported);
	free(j);
	return RUN_EVENTS;
}

int main(int argc, char **argv)
{
	uint64_t events, runs = seeds__run("sim_learned", argc, argv, run_once, &events);

	o_must(learned_reported > 0, "nothing was learned");
	printf("sim_learned: %" PRIu64 " runs, %" PRIu64 " events, %" PRIu64 " labels, of them %" PRIu64
	       " that are known to be right, all sound\n", runs, events, learned_reported, right_reported);
	return 0;
}
