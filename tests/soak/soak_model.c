/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A job that trains for very long, through the model, with its graph told: memory must stay as it was
 * after the first thousand steps, and every block's last word must be right, to the end.
 *
 *	soak_model STEPS [rss] [EVERY]     rss: the process's own memory is held to it, too (not under ASan)
 *
 * EVERY: a session with a budget, which traces three whole steps of EVERY and hears of the others nothing but their marks.
 * Steps then take STEP_NS, so that three million of them are twelve hours.
 *
 * A step: a batch, forward through LAYERS layers, backward with its nodes, AccumulateGrad, an optimizer's
 * region with state made in the first one. Some steps only evaluate; some batches lie in shared memory that
 * is unmapped; another thread makes memory of its own meanwhile. Addresses are used again last-freed-first,
 * so that each is another thing's in the next step.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model/flow/flow.h"
#include "model/model.h"
#include "model/state.h"
#include "timeline/report.h"

#define LAYERS 4u
#define SIZE 4096u
#define PID 7u
#define WARM 1000u
#define IDS 65536u /* blocks that wait for their last word at once */
#define ADDRS 64u
#define WINDOW 3u	    /* steps traced at a time */
#define STEP_NS 13000000ull /* of the job that tests/soak/live watches */

enum kind { WEIGHT, MEAN, SQUARE, BATCH, OUT, DETAIL, GRAD, SCRATCH, SEED, KINDS };

static const uint8_t right[KINDS] = {
	[WEIGHT] = CAT_PARAMETER, [MEAN] = CAT_OPTIMIZER_STATE, [SQUARE] = CAT_OPTIMIZER_STATE, [BATCH] = CAT_INPUT,
	[OUT] = CAT_ACTIVATION, [DETAIL] = CAT_AUTOGRAD_DETAIL, [GRAD] = CAT_GRADIENT, [SCRATCH] = CAT_TEMPORARY,
	[SEED] = CAT_ACTIVATION,
};

struct soak {
	struct model *m;
	struct names *names;
	uint64_t ts, events;
	uint32_t tid, seq, seqs[8];
	uint64_t addr[KINDS][LAYERS];
	uint64_t freed[ADDRS];
	uint32_t freed_cnt;
	struct {
		uint64_t id;
		uint8_t kind, promised;
	} waits[IDS];
	uint8_t making; /* enum kind of the block whose allocation is being told */
	uint64_t windows;
	uint64_t nodes, finals, wrong;
};

static void fail(const char *what)
{
	fprintf(stderr, "soak_model: %s\n", what);
	exit(1);
}

/* Of a session with windows: steps that are traced whole are the only ones whose labels are promised. */
static bool is_promised(const struct soak *s)
{
	return model__level_of(s->m, &(uint64_t){ 0 }) == EV_LEVEL_TRACED;
}

static int hear(void *ctx, const struct tl_event *ev)
{
	struct soak *s = ctx;

	if (ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING) {
		s->waits[ev->id % IDS].id = ev->id;
		s->waits[ev->id % IDS].kind = s->making;
		s->waits[ev->id % IDS].promised = is_promised(s);
	}
	s->nodes += ev->kind == TL_NODE;
	if (ev->kind != TL_FINAL || s->waits[ev->id % IDS].id != ev->id || !s->waits[ev->id % IDS].promised)
		return 0;
	s->finals++;
	if (ev->cat != right[s->waits[ev->id % IDS].kind] && !s->wrong++)
		fprintf(stderr, "soak_model: kind %u was called %s at event %" PRIu64 "\n",
			s->waits[ev->id % IDS].kind, category_name(ev->cat), s->events);
	return 0;
}

/* --- events ---------------------------------------------------------------------------------------------------- */

static void put(struct soak *s, struct event ev)
{
	s->ts += 400;
	ev.ts_ns = s->ts;
	ev.pid = PID;
	ev.tid = s->tid;
	if (ev.depth && !ev.seq)
		ev.seq = s->seqs[ev.depth - 1];
	if (model__handle(s->m, &ev) < 0)
		fail("model__handle failed");
	s->events++;
}

static void frame(struct soak *s, uint8_t kind, const char *name, uint8_t depth)
{
	s->seqs[depth] = ++s->seq;
	put(s, (struct event){ .kind = kind, .name = names__add(s->names, name), .depth = depth, .seq = s->seq });
}

static void arg(struct soak *s, uint8_t depth, uint32_t index, uint64_t addr, uint32_t flags)
{
	put(s, (struct event){ .kind = EV_ARG, .depth = (uint8_t)(depth + 1), .addr = addr, .size = SIZE,
			       .dev = MT_DEV_CPU, .flags = MT_CLASS_PLAIN,
			       .aux = index | (flags | MT_FLOW_F_REQUIRED) << 8 });
}

static uint64_t allocated(struct soak *s, enum kind kind, uint32_t i, uint8_t depth)
{
	uint64_t addr = s->freed_cnt ? s->freed[--s->freed_cnt] : 0;

	if (!addr)
		fail("out of addresses");
	s->making = (uint8_t)kind;
	s->addr[kind][i] = addr;
	put(s, (struct event){ .kind = MT_EV_ALLOC, .depth = depth, .addr = addr, .size = SIZE, .dev = MT_DEV_CPU });
	return addr;
}

static void dies(struct soak *s, enum kind kind, uint32_t i, uint8_t depth)
{
	put(s, (struct event){ .kind = MT_EV_FREE, .depth = depth, .addr = s->addr[kind][i], .dev = MT_DEV_CPU });
	s->freed[s->freed_cnt++] = s->addr[kind][i];
}

/* --- a step ------------------------------------------------------------------------------------------------------ */

static void forward(struct soak *s, uint32_t i, uint64_t batch)
{
	uint64_t in = i ? s->addr[OUT][i - 1] : batch, weight = s->addr[WEIGHT][i];

	frame(s, MT_EV_OP, "aten::linear", 0);
	arg(s, 0, 0, in, 0);
	s->making = WEIGHT;
	arg(s, 0, 1, weight, MT_FLOW_F_WEIGHT);
	frame(s, MT_EV_OP, "aten::addmm", 1);
	arg(s, 1, 1, in, 0);
	arg(s, 1, 2, weight, 0);
	allocated(s, OUT, i, 2);
	frame(s, MT_EV_OP, "aten::relu_", 0);
	arg(s, 0, 0, s->addr[OUT][i], MT_FLOW_F_WRITTEN);
}

static void backward(struct soak *s, uint32_t i)
{
	uint64_t incoming = i + 1 < LAYERS ? s->addr[DETAIL][i + 1] : s->addr[SEED][0];

	frame(s, MT_EV_NODE, "AddmmBackward0", 0);
	frame(s, MT_EV_APPLY, "AddmmBackward0", 1);
	arg(s, 1, 0, incoming, 0);
	frame(s, MT_EV_OP, "aten::mm", 2);
	arg(s, 2, 0, incoming, 0);
	arg(s, 2, 1, s->addr[WEIGHT][i], 0);
	allocated(s, DETAIL, i, 3);
	frame(s, MT_EV_OP, "aten::mm", 2);
	arg(s, 2, 0, incoming, 0);
	arg(s, 2, 1, s->addr[OUT][i], 0);
	allocated(s, GRAD, i, 3);
	frame(s, MT_EV_NODE, "ReluBackward0", 0);
	frame(s, MT_EV_APPLY, "ReluBackward0", 1);
	arg(s, 1, 0, s->addr[DETAIL][i], 0);
	frame(s, MT_EV_NODE, "torch::autograd::AccumulateGrad", 0);
	frame(s, MT_EV_ACC, "torch::autograd::AccumulateGrad", 1);
	arg(s, 1, 0, s->addr[WEIGHT][i], 0);
	arg(s, 1, 2, s->addr[GRAD][i], 0);
	frame(s, MT_EV_OP, "aten::detach", 2);
	arg(s, 2, 0, s->addr[GRAD][i], 0);
	if (i + 1 < LAYERS)
		dies(s, DETAIL, i + 1, 0);
}

static void adam(struct soak *s, uint32_t i)
{
	static const enum kind state[] = { MEAN, SQUARE };

	for (int k = 0; k < 2; k++) {
		if (!s->addr[state[k]][i]) {
			frame(s, MT_EV_OP, "aten::zeros_like", 0);
			arg(s, 0, 0, s->addr[WEIGHT][i], 0);
			allocated(s, state[k], i, 1);
		}
		frame(s, MT_EV_OP, k ? "aten::addcmul_" : "aten::lerp_", 0);
		arg(s, 0, 0, s->addr[state[k]][i], MT_FLOW_F_WRITTEN);
		arg(s, 0, 1, s->addr[GRAD][i], 0);
	}
	frame(s, MT_EV_OP, "aten::addcdiv_", 0);
	arg(s, 0, 0, s->addr[WEIGHT][i], MT_FLOW_F_WRITTEN);
	arg(s, 0, 1, s->addr[MEAN][i], 0);
	allocated(s, SCRATCH, 0, 1);
	frame(s, MT_EV_OP, "aten::sqrt_", 1);
	arg(s, 1, 0, s->addr[SCRATCH][0], MT_FLOW_F_WRITTEN);
	dies(s, SCRATCH, 0, 1);
	dies(s, GRAD, i, 0);
}

static bool trains(uint64_t n)
{
	return n % 7 != 6;
}

static void optimizer(struct soak *s, bool traced)
{
	put(s, (struct event){ .kind = MT_EV_REGION_BEGIN, .name = names__add(s->names, "Optimizer.step#Adam.step") });
	for (uint32_t i = 0; traced && i < LAYERS; i++)
		adam(s, i);
	put(s, (struct event){ .kind = MT_EV_REGION_END });
}

/* Another thread reads a file: memory that is no tensor, and an operator that stays open for long. */
static void other_thread(struct soak *s, uint64_t step)
{
	uint32_t tid = s->tid, seq = s->seq, seqs[8];

	memcpy(seqs, s->seqs, sizeof(seqs));
	s->tid = PID + 1 + (uint32_t)(step / 64 % 4);
	allocated(s, SCRATCH, 1, 0);
	dies(s, SCRATCH, 1, 0);
	s->making = BATCH;
	frame(s, MT_EV_OP, "aten::size", 0);
	s->tid = tid;
	s->seq = seq;
	memcpy(s->seqs, seqs, sizeof(seqs));
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

static void level(struct soak *s, enum ev_level_state state, enum mt_level least)
{
	put(s, (struct event){ .kind = EV_LEVEL, .flags = (uint8_t)state, .depth = (uint8_t)least, .aux = PID,
			       .addr = s->windows, .size = WINDOW });
}

/* What is told of step n: all of it, or, between windows, that the optimizer stepped. Returns whether all of it. */
static bool traces(struct soak *s, uint64_t n, uint64_t every)
{
	uint64_t window;
	uint8_t state = model__level_of(s->m, &window);

	if (!every)
		return true;
	s->ts += STEP_NS;
	if (n % every == 0 && n) {
		s->windows++;
		level(s, EV_LEVEL_ARMED, MT_LEVEL_FULL);
	} else if (state == EV_LEVEL_TAIL || !n) {
		level(s, EV_LEVEL_GAP, MT_LEVEL_WATCH);
		level(s, EV_LEVEL_REST, MT_LEVEL_WATCH);
	}
	if (model__level_of(s->m, &window) >= EV_LEVEL_ARMED)
		return true;
	if (trains(n))
		optimizer(s, false);
	return false;
}

static void step(struct soak *s, uint64_t n)
{
	bool shared = n % 5 == 3;
	uint64_t batch = 0x7f0000000000u + n % 3 * 0x100000;

	frame(s, MT_EV_OP, "aten::randn", 0);
	s->making = BATCH;
	if (!shared)
		batch = allocated(s, BATCH, 0, 1);
	frame(s, MT_EV_OP, "aten::div_", 0);
	arg(s, 0, 0, batch, MT_FLOW_F_WRITTEN);
	for (uint32_t i = 0; i < LAYERS; i++)
		forward(s, i, batch);
	if (n % 16 == 0)
		other_thread(s, n);
	if (trains(n)) {
		frame(s, MT_EV_OP, "aten::ones_like", 0);
		arg(s, 0, 0, s->addr[OUT][LAYERS - 1], 0);
		allocated(s, SEED, 0, 1);
		for (uint32_t i = LAYERS; i--;)
			backward(s, i);
		dies(s, DETAIL, 0, 0);
		dies(s, SEED, 0, 0);
		optimizer(s, true);
	}
	for (uint32_t i = 0; i < LAYERS; i++)
		dies(s, OUT, i, 0);
	if (shared)
		put(s, (struct event){ .kind = MT_EV_MUNMAP, .addr = batch & ~0xfffull, .size = 0x2000 });
	else
		dies(s, BATCH, 0, 0);
}

/* --- what must hold ------------------------------------------------------------------------------------------------ */

static uint64_t rss_bytes(void)
{
	unsigned long pages = 0, all = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu %lu", &all, &pages) != 2)
		fail("no /proc/self/statm");
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of the process: series and heaps of fixed size fill up during the first steps, a byte a step would be too much. */
static void check_flat(const char *what, uint64_t early, uint64_t now, uint64_t allowed)
{
	uint64_t more = now > early ? now - early : 0;
	char text[128];

	snprintf(text, sizeof(text), "%s grew from %" PRIu64 " KiB after %u traced steps to %" PRIu64 " KiB", what,
		 early >> 10, WARM, now >> 10);
	if (more > allowed)
		fail(text);
}

static void check_windows(const struct soak *s, const struct report_sampling *said, uint64_t steps)
{
	printf("soak_model: %.1f hours, %" PRIu64 " of %" PRIu64 " steps traced in %" PRIu64 " windows; %" PRIu64
	       " blocks ended in a gap\n", (double)s->ts / 3.6e12, said->steps_traced, said->steps_seen, said->windows,
	       said->unseen_blocks);
	if (said->windows != s->windows || said->steps_seen < steps / 7 * 6 - 1 ||
	    said->steps_traced < s->windows * WINDOW - WINDOW)
		fail("steps or windows are missing");
}

/* steps: that were traced; of: how many there were, where not all were traced, else 0 */
static void check_end(struct soak *s, uint64_t steps, uint64_t of)
{
	const struct device_cat *cats = s->m->devs[0]->cats;
	struct report *r = NULL;

	model__check(s->m);
	if (model__report(s->m, 10, &r) < 0)
		fail("no report");
	if (cats[CAT_PARAMETER].live != LAYERS * SIZE || cats[CAT_OPTIMIZER_STATE].live != 2 * LAYERS * SIZE ||
	    r->devs[0].live != 3 * LAYERS * SIZE)
		fail("parameters and state are not what is live");
	if (r->flow.output_twice || r->flow.nodes < 20 * steps || r->flow.unmapped < steps / 5)
		fail("the graph's own counts");
	if (of)
		check_windows(s, &r->sampling, of);
	for (int i = 0; i < MT_LOSS_MAX; i++)
		if (r->run.lost[i])
			fail("something was lost");
	report__free(r);
	if (model__end(s->m) < 0)
		fail("model__end failed");
	if (s->wrong || s->finals < steps * (2 * LAYERS + 2) || s->nodes < 20 * steps)
		fail("last words are wrong or missing");
}

int main(int argc, char **argv)
{
	uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000, graph = 0, rss = 0;
	bool with_rss = argc > 2 && !strcmp(argv[2], "rss");
	uint64_t every = argc > 3 ? strtoull(argv[3], NULL, 0) : 0, warm = every ? WARM / WINDOW * every : WARM;
	struct soak *s = calloc(1, sizeof(*s));
	struct model_opts opts = { .timeline = hear, .timeline_ctx = s, .timeline_nodes = 1 };
	double t;

	if (s)
		memset(s->waits, 1, sizeof(s->waits)); /* ours, not the model's */
	if (steps <= warm)
		fail("too few steps");
	if (!s || !(s->names = names__new()) || !(s->m = model__new(s->names, &opts)))
		fail("no memory");
	s->tid = PID;
	for (uint32_t i = 0; i < ADDRS; i++)
		s->freed[s->freed_cnt++] = 0x10000 + i * 0x2000ull;
	for (uint32_t i = 0; i < LAYERS; i++)
		s->addr[WEIGHT][i] = 0x4000000 + i * 0x10000ull;
	for (uint64_t n = 0; n < steps; n++) {
		if (traces(s, n, every))
			step(s, n);
		if (n + 1 == warm) {
			graph = graph__bytes(s->m->graph);
			rss = rss_bytes();
		} else if (n > warm && n % (steps / 8) == 0) {
			check_flat("the graph", graph, graph__bytes(s->m->graph), graph / 50);
			if (with_rss)
				check_flat("memory", rss, rss_bytes(), 1 << 20);
		}
	}
	t = (double)clock() / CLOCKS_PER_SEC; /* of CPU time, also what it took to make the events */
	check_flat("the graph", graph, graph__bytes(s->m->graph), graph / 50);
	if (with_rss)
		check_flat("memory", rss, rss_bytes(), 1 << 20);
	printf("soak_model: %" PRIu64 " steps, %.1f M events at %.1f M/s of CPU time; graph %" PRIu64
	       " KiB after %u traced steps, %zu at the end; RSS %" PRIu64 " KiB, %" PRIu64 "; %" PRIu64 " nodes, %" PRIu64
	       " last words, all right\n",
	       steps, (double)s->events / 1e6, (double)s->events / 1e6 / t, graph >> 10, WARM,
	       graph__bytes(s->m->graph) >> 10, rss >> 10, rss_bytes() >> 10, s->nodes, s->finals);
	check_end(s, every ? s->windows * WINDOW : steps, every ? steps : 0);
	model__free(s->m);
	names__free(s->names);
	free(s);
	return 0;
}
