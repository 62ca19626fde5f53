/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What a recording could have done with: planted lives with a known answer, random ones against a sum made slowly; the
 * graph of a step, and orders of nodes: every one that is found can run, and has the peak that is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/names.h"
#include "estimate/step.h"
#include "estimate/whatif.h"

#define PID 7u
#define CPU 1
#define GPU 16
#define MAKES (TL_EDGE_ALLOCATED)
#define USES (TL_EDGE_IN | TL_EDGE_GIVEN)
#define WRITES (USES | TL_EDGE_WRITTEN)
#define SCRATCH (TL_EDGE_ALLOCATED | TL_EDGE_FREED)

static struct names *names;
static struct recorded rec;
static struct recorded_kept kept;
static struct step step;
static struct step_result res;

static int setup(void **state)
{
	(void)state;
	names = names__new();
	recorded__init(&rec);
	rec.names = names;
	kept = (struct recorded_kept){ 0 };
	step = (struct step){ 0 };
	res = (struct step_result){ 0 };
	return !names;
}

static int teardown(void **state)
{
	(void)state;
	step_result__done(&res);
	step__done(&step);
	recorded_kept__done(&kept);
	recorded__done(&rec);
	names__free(names);
	return 0;
}

static void tell(struct tl_event ev)
{
	ev.pid = PID;
	ev.dev = ev.dev ? ev.dev : CPU;
	ev.tid = ev.tid ? ev.tid : PID;
	assert_int_equal(recorded__event(&rec, &ev), 0);
	if (step.r)
		assert_int_equal(step__event(&step, &ev), 0);
}

static void allocated(uint64_t ts, uint64_t id, uint64_t size, const char *op)
{
	tell((struct tl_event){ .kind = TL_CREATE, .ts_ns = ts, .id = id, .size = size, .op = names__add(names, op) });
}

static void died(uint64_t ts, uint64_t id)
{
	tell((struct tl_event){ .kind = TL_DESTROY, .ts_ns = ts, .id = id });
}

struct e {
	uint64_t id;
	unsigned flags;
};

/* A node: pairs of id and flags up to an id of 0. */
static void node_(uint64_t ts, const char *op, const struct e *e)
{
	struct tl_edge edges[8];
	uint32_t cnt = 0;

	for (; e[cnt].id; cnt++)
		edges[cnt] = (struct tl_edge){ .id = e[cnt].id, .flags = (uint8_t)e[cnt].flags, .dev = CPU };
	tell((struct tl_event){ .kind = TL_NODE, .ts_ns = ts, .op = names__add(names, op), .edges = edges, .edges_cnt = cnt });
}
#define NODE(ts, op, ...) node_(ts, op, (struct e[]){ __VA_ARGS__, { 0 } })

static void finish(void)
{
	recorded__end(&rec);
	assert_int_equal(recorded_kept__init(&kept, &rec, recorded__dev(&rec)), 0);
}

/* a (100) is used last by relu and freed after cat: the peak is 100 + 50 + 200, the lowest 50 + 200. */
static void planted(void)
{
	allocated(10, 1, 100, "ones");
	NODE(10, "ones", { 1, MAKES });
	allocated(20, 2, 50, "relu");
	NODE(20, "relu", { 1, USES }, { 2, MAKES });
	allocated(31, 3, 200, "cat");
	NODE(30, "cat", { 2, USES }, { 3, MAKES });
	NODE(40, "sum", { 3, USES });
	died(50, 1);
	died(51, 2);
	NODE(60, "", { 1, TL_EDGE_IN | TL_EDGE_FREED });
	allocated(90, 4, 1, "last"); /* lives */
}

static void test_planted(void **state)
{
	(void)state;
	planted();
	finish();
	assert_int_equal(kept.dev, CPU);
	assert_int_equal(kept.peak, 350);
	assert_int_equal(kept.peak_ns, 31);
	assert_int_equal(kept.lowest, 250);
	assert_int_equal(kept.kept_at_peak, 100);
	assert_int_equal(kept.kept_bytes, 150); /* 3 lives: it may be used again */
	assert_int_equal(kept.rows_cnt, 2);
	assert_string_equal(names__get(names, kept.rows[0].op), "ones");
	assert_string_equal(names__get(names, kept.rows[0].last_op), "relu");
	assert_int_equal(kept.rows[0].at_peak, 100);
	assert_true(kept.rows[0].byte_ns == 100.0 * (50 - 30)); /* relu ended when cat began */
	assert_true(kept.rows[1].byte_ns == 50.0 * (51 - 40));
	assert_false(kept.has_step);
	assert_int_equal(kept.pid, PID);
}

/* Of one thread the end is what its next node says, whatever the others do; a freed block that nothing used stays as it was. */
static void test_threads_and_unused(void **state)
{
	(void)state;
	allocated(10, 1, 100, "a");
	NODE(10, "a", { 1, MAKES });
	allocated(12, 2, 10, "x"); /* no node has it */
	tell((struct tl_event){ .kind = TL_NODE, .ts_ns = 20, .tid = 99, .op = names__add(names, "b"), .edges_cnt = 1,
				.edges = &(struct tl_edge){ .id = 1, .flags = USES, .dev = CPU } });
	NODE(25, "c", { 9, USES }); /* an id that there is not */
	tell((struct tl_event){ .kind = TL_NODE, .ts_ns = 70, .tid = 99, .op = names__add(names, "d") });
	died(80, 1);
	died(81, 2);
	died(82, 2);
	finish();
	assert_int_equal(recorded_block__free_ns(&rec.blocks[1]), 70);
	assert_int_equal(recorded_block__free_ns(&rec.blocks[2]), 81);
	assert_int_equal(kept.kept_blocks, 1);
	assert_int_equal(kept.lowest, 110);
}

static void test_devices_steps_and_caps(void **state)
{
	(void)state;
	assert_int_equal(recorded__dev(&rec), 0);
	allocated(5, 1, 1000, "a");
	assert_int_equal(recorded__dev(&rec), CPU);
	tell((struct tl_event){ .kind = TL_PREEXISTING, .ts_ns = 6, .id = 2, .size = 10, .dev = GPU });
	tell((struct tl_event){ .kind = TL_PREEXISTING, .ts_ns = 6, .id = 3, .size = TL_SIZE_UNKNOWN, .dev = GPU });
	assert_int_equal(recorded__dev(&rec), GPU);
	allocated(7, RECORDED_BLOCKS_MAX, 1, "a");
	assert_int_equal(rec.left_out, 1);
	assert_int_equal(rec.devs[CPU].peak, 1000);
	/* regions of the optimizer, until there is a mark */
	tell((struct tl_event){ .kind = TL_REGION, .ts_ns = 8, .region = names__add(names, "Optimizer.step#SGD.step") });
	assert_int_equal(rec.steps_cnt, 1);
	tell((struct tl_event){ .kind = TL_STEP, .ts_ns = 3 });
	tell((struct tl_event){ .kind = TL_REGION, .ts_ns = 9, .region = names__add(names, "Optimizer.step#SGD.step") });
	tell((struct tl_event){ .kind = TL_STEP, .ts_ns = 20 });
	assert_int_equal(rec.steps_cnt, 2);
	finish();
	assert_true(kept.has_step);
	assert_int_equal(kept.step_from, 3);
	assert_int_equal(kept.step_to, 20);
}

/* The same sum, made slowly: at every allocation, all blocks that are not free by then. */
static void test_random_lives(void **state)
{
	(void)state;
	srand(3);
	for (int round = 0; round < 200; round++) {
		uint64_t lowest = 0, ts = 100;
		unsigned cnt = 1 + (unsigned)rand() % 30;

		for (unsigned id = 1; id <= cnt; id++) {
			ts += 1 + (unsigned)rand() % 5;
			allocated(ts, id, 1 + (unsigned)rand() % 100, "op");
			if (rand() % 4)
				NODE(ts, "op", { id, MAKES }, { 1 + (unsigned)rand() % id, USES });
			if (rand() % 2)
				died(ts + 1, 1 + (unsigned)rand() % id);
		}
		finish();
		for (unsigned at = 1; at <= cnt; at++) {
			uint64_t sum = 0;

			for (unsigned id = 1; id <= at; id++) {
				uint64_t end = recorded_block__free_ns(&rec.blocks[id]);

				sum += !end || end > rec.blocks[at].alloc_ns ? rec.blocks[id].size : 0;
			}
			lowest = sum > lowest ? sum : lowest;
		}
		assert_int_equal(kept.lowest, lowest);
		assert_true(kept.lowest <= kept.peak && kept.peak - kept.lowest <= kept.kept_bytes);
		assert_int_equal(teardown(NULL) + setup(NULL), 0);
	}
}

/* --- the step's graph ---------------------------------------------------------------------------------------------- */

/* Tells all of `lives` twice: to find the peak, then to collect the step. */
static void two_passes(void (*lives)(void))
{
	struct recorded first;

	lives();
	finish();
	first = rec; /* the second pass reads the first one's blocks */
	recorded__init(&rec);
	rec.names = names;
	step__init(&step, &first, &kept);
	lives();
	assert_int_equal(step_result__init(&res, &step), 0);
	recorded__done(&rec);
	rec = first;
}

static void test_step(void **state)
{
	(void)state;
	two_passes(planted);
	/* ones 100 | relu 150, frees 100 | cat 250, frees 50 | sum: 3 lives on; `last` has no node */
	static const int64_t want[] = { 0, 100, 100, 150, 50, 250, 200, 200, 200 };

	assert_int_equal(res.profile.cnt, 9);
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(res.profile.at[i], want[i]);
	assert_int_equal(res.measured, 350);
	assert_int_equal(res.operators, 4);
	assert_int_equal(res.order.peak, 250);
	assert_string_equal(res.order.rule, "recorded");
}

/* Four blocks of 100, made one after the other and then summed: one at a time is enough. */
static void in_a_row(void)
{
	for (unsigned i = 1; i <= 4; i++) {
		allocated(10 * i, i, 100, "ones");
		NODE(10 * i, "ones", { i, MAKES });
	}
	for (unsigned i = 1; i <= 4; i++) {
		allocated(100 + 10 * i, 10 + i, 1, "sum");
		NODE(100 + 10 * i, "sum", { i, USES }, { 10 + i, MAKES });
		died(101 + 10 * i, i);
	}
	for (unsigned i = 1; i <= 4; i++)
		died(200 + i, 10 + i);
}

static void test_better_order(void **state)
{
	(void)state;
	two_passes(in_a_row);
	assert_int_equal(res.measured, 401);
	assert_int_equal(res.order.peak_there_is, 401);
	assert_int_equal(res.order.peak, 104); /* nobody uses the sums: in torch's words never freed */
	assert_int_equal(res.order.cnt, 8);
}

/* The same, but every sum is written into one block, after which the next one reads it: no other order. */
static void chained(void)
{
	allocated(1, 20, 1, "zeros");
	NODE(1, "zeros", { 20, MAKES });
	for (unsigned i = 1; i <= 4; i++) {
		allocated(10 * i, i, 100, "ones_like");
		NODE(10 * i, "ones_like", { i, MAKES }, { 20, USES }); /* reads what no sum has changed yet */
	}
	for (unsigned i = 1; i <= 4; i++)
		NODE(100 + 10 * i, "sum_", { i, USES }, { 20, WRITES });
	for (unsigned i = 1; i <= 4; i++)
		died(200 + i, i);
	died(300, 20);
}

static void test_writes_keep_their_place(void **state)
{
	(void)state;
	two_passes(chained);
	assert_int_equal(res.order.peak_there_is, 401);
	assert_int_equal(res.order.peak, 401);
	assert_string_equal(res.order.rule, "recorded");
}

/* Scratch of an operator counts for orders and not for torch's estimate; several new blocks are freed one by one. */
static void with_scratch(void)
{
	allocated(10, 1, 10, "a");
	NODE(10, "a", { 1, MAKES });
	allocated(20, 2, 500, "b");
	allocated(21, 3, 70, "b");
	died(22, 2);
	allocated(23, 4, 300, "b");
	died(24, 4);
	allocated(25, 5, 1000, "b");
	NODE(20, "b", { 1, USES }, { 2, SCRATCH }, { 3, MAKES }, { 4, SCRATCH }, { 5, MAKES });
	NODE(30, "c", { 5, USES });
	died(31, 5);
	NODE(40, "d", { 3, USES });
	died(41, 3);
	died(42, 1);
	allocated(43, 6, 2, "e");
	NODE(43, "e", { 6, MAKES });
}

static void test_scratch(void **state)
{
	(void)state;
	two_passes(with_scratch);
	assert_int_equal(res.scratch_max, 500);
	assert_int_equal(res.measured, 1080);
	assert_int_equal(res.profile.peak, 1080);
	assert_int_equal(res.order.peak_there_is, 1580); /* its scratch and all it makes at once: an upper bound */
	assert_int_equal(res.profile.end, 2);
}

static void nothing(void)
{
	allocated(10, 1, 10, "a");
	died(20, 1);
}

static void test_no_node(void **state)
{
	(void)state;
	nothing();
	finish();
	step__init(&step, &rec, &kept);
	assert_int_equal(step_result__init(&res, &step), -ENODATA);
}

/* --- what if ------------------------------------------------------------------------------------------------------- */

static void final(uint64_t id, enum category cat)
{
	tell((struct tl_event){ .kind = TL_FINAL, .id = id, .cat = (uint8_t)cat });
}

/* Steps with a parameter of 100, its state of 200, an activation of 10 a sample, scratch of 7, and 50 in the optimizer. */
static void job(unsigned batch, int has_extra)
{
	uint64_t ts = 10, id = 3;

	allocated(1, 1, 100, "empty");
	allocated(2, 2, 200, "zeros_like");
	NODE(3, "linear", { 1, USES });
	for (unsigned i = 0; i < 4; i++, ts += 100) {
		tell((struct tl_event){ .kind = TL_STEP, .ts_ns = ts });
		if (has_extra)
			allocated(ts + 1, id++, 3, "extra");
		allocated(ts + 2, id, 10 * batch, "linear");
		NODE(ts + 2, "linear", { 1, USES }, { id, MAKES });
		final(id, CAT_ACTIVATION);
		allocated(ts + 3, ++id, 7, "scratch");
		died(ts + 5, id - 1);
		died(ts + 6, id);
		tell((struct tl_event){ .kind = TL_CREATE, .ts_ns = ts + 8, .id = ++id, .size = 50,
					.op = names__add(names, "sqrt"),
					.region = names__add(names, "Optimizer.step#Adam.step") });
		NODE(ts + 8, "sqrt", { 2, USES }, { id, MAKES });
		final(id, CAT_TEMPORARY);
		died(ts + 9, id++);
	}
	final(1, CAT_PARAMETER);
	final(2, CAT_OPTIMIZER_STATE);
}

static uint64_t ask(struct whatif_opts o, struct whatif *w)
{
	struct recorded first;
	struct recorded_kept first_kept;
	int r;

	job(4, 0);
	finish();
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	assert_int_equal(kept.step_from, 210);
	assert_int_equal(kept.step_to, 310);
	first = rec;
	first_kept = kept;
	recorded__init(&rec);
	rec.names = names;
	job(8, 1);
	finish();
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	o.a = &first;
	o.a_kept = &first_kept;
	o.b = &rec;
	o.b_kept = &kept;
	r = whatif__run(w, &o);
	recorded__done(&first);
	recorded_kept__done(&first_kept);
	recorded_kept__done(&kept);
	recorded__done(&rec);
	recorded__init(&rec);
	rec.names = names;
	return r ? (uint64_t)-r : w->peak;
}

static void test_what_if(void **state)
{
	struct whatif w;

	(void)state;
	/* 350: parameter, state, and the optimizer's temporary, which is more than 40 + 7 */
	assert_int_equal(ask((struct whatif_opts){ 0 }, &w), 350);
	assert_int_equal(w.recorded, 350);
	assert_int_equal(w.parameters, 100);
	assert_int_equal(w.state, 200);
	assert_int_equal(ask((struct whatif_opts){ .batch_a = 4, .batch_b = 8, .batch = 16, .budget = 1000 }, &w), 467);
	assert_int_equal(w.mates.alone, 0);
	assert_int_equal(w.largest_batch, 69);
	assert_int_equal(w.at_largest, 997);
	assert_int_equal(ask((struct whatif_opts){ .batch_a = 4, .batch_b = 8, .batch = 1, .budget = 300 }, &w), 350);
	assert_int_equal(w.largest_batch, 0);
	assert_int_equal(ask((struct whatif_opts){ .batch_a = 4, .batch_b = 4, .batch = 1 }, &w), EDOM);
	assert_int_equal(ask((struct whatif_opts){ .optimizer = WHATIF_SGD }, &w), 147);
	assert_int_equal(ask((struct whatif_opts){ .optimizer = WHATIF_MOMENTUM }, &w), 247);
	assert_int_equal(ask((struct whatif_opts){ .optimizer = WHATIF_ADAMW }, &w), 350);
	assert_int_equal(ask((struct whatif_opts){ .optimizer = WHATIF_8BIT }, &w), 201); /* 100 + 50.8 + 50 */
	assert_int_equal(ask((struct whatif_opts){ .dtype = 0.5 }, &w), 177); /* 50 + 100 + 20 + 7 of scratch, which stays */
}

/* What an operator makes in float whatever its inputs are (user/estimate/recorded.h) does so in another dtype, too. */
static void test_what_stays_wide(void **state)
{
	struct whatif_opts o = { .a = &rec, .a_kept = &kept, .dtype = 0.5 };
	struct whatif w;

	(void)state;
	job(4, 0);
	for (uint64_t id = 1; id <= rec.last_id; id++)
		rec.blocks[id].is_wide = rec.blocks[id].size == 40;
	finish();
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	assert_int_equal(whatif__run(&w, &o), 0);
	assert_int_equal(w.peak, 197); /* 50 + 100 + 40 + 7, and not 20 for the activation */
	whatif__done(&w);
}

static void test_optimizer_of_nothing(void **state)
{
	struct whatif_opts o = { .a = &rec, .a_kept = &kept, .optimizer = WHATIF_ADAMW };
	struct whatif w;

	(void)state;
	job(4, 0);
	final(1, CAT_ACTIVATION);
	finish();
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	assert_int_equal(whatif__run(&w, &o), -ENODATA);
	whatif__done(&w);
}

/* --- orders ------------------------------------------------------------------------------------------------------------ */

struct random_graph {
	struct est_doc d;
	struct est_graph *g;
	struct est_pair_of before[64];
	size_t before_cnt;
	uint64_t scratch[64];
};

static void random_graph(struct random_graph *r)
{
	unsigned cnt = 2 + (unsigned)rand() % 40;
	char name[16];

	r->before_cnt = 0;
	assert_int_equal(est_doc__init(&r->d) + est_doc__graph(&r->d, &r->g) + est_doc__device(&r->d, "x", 1), 0);
	for (unsigned i = 0; i < cnt; i++) {
		struct est_node n = { .op = i == cnt - 1 ? EST_OUTPUT : rand() % 6 ? EST_COMPUTE : EST_PLACEHOLDER };

		for (int k = rand() % 4; i && n.op != EST_PLACEHOLDER && k > 0; k--)
			est_graph__in(r->g, (uint32_t)rand() % i);
		if (r->d.storages_cnt && rand() % 3 == 0) /* a view of something that its input may not even be */
			est_graph__out(r->g, (uint32_t)rand() % (uint32_t)r->d.storages_cnt);
		if (n.op != EST_OUTPUT) {
			assert_int_equal(est_doc__storage(&r->d, (uint64_t)rand() % 100, 0), 0);
			est_graph__out(r->g, (uint32_t)r->d.storages_cnt - 1);
		}
		if (i > 1 && rand() % 4 == 0 && n.op == EST_COMPUTE)
			r->before[r->before_cnt++] = (struct est_pair_of){ (uint32_t)rand() % i, i };
		r->scratch[i] = rand() % 5 ? 0 : (uint64_t)rand() % 50;
		snprintf(name, sizeof(name), "%s%u", rand() % 4 ? "n" : "primals", i);
		est_doc__node(&r->d, r->g, &n, name, strlen(name));
	}
	assert_int_equal(est_doc__finish(&r->d, NULL), 0);
}

static size_t place_of(const struct est_order *o, uint32_t node)
{
	for (size_t i = 0; i < o->cnt; i++)
		if (o->nodes[i] == node)
			return i;
	return SIZE_MAX;
}

static void check_order(const struct random_graph *r, const struct est_order *o)
{
	size_t wanted = 0;

	for (uint32_t i = 0; i < r->g->nodes_cnt; i++) {
		size_t at = place_of(o, i);

		if (r->g->nodes[i].op == EST_OUTPUT)
			continue;
		wanted++;
		assert_true(at != SIZE_MAX);
		EST_FOR_INS(r->g, i, k)
			assert_true(place_of(o, r->g->ins[k]) < at);
	}
	assert_int_equal(o->cnt, wanted);
	for (size_t i = 0; i < r->before_cnt; i++)
		assert_true(place_of(o, r->before[i].first) < place_of(o, r->before[i].then));
	assert_true(o->peak <= o->peak_there_is);
}

static void test_random_orders(void **state)
{
	unsigned better = 0;

	(void)state;
	srand(5);
	for (int round = 0; round < 500; round++) {
		static struct random_graph r;
		struct est_rules rules = { .counts = 1 };
		struct est_alias a;
		struct est_order o;
		struct est_order_opts opts = { .before = r.before, .scratch = r.scratch };
		int e;

		random_graph(&r);
		opts.before_cnt = r.before_cnt;
		assert_int_equal(est_alias__init(&a, &r.d, r.g), 0);
		e = est_order__init(&o, &r.d, r.g, &a, &rules, &opts);
		if (!e) {
			check_order(&r, &o);
			better += o.peak < o.peak_there_is;
			est_order__done(&o);
		}
		est_alias__done(&a);
		est_doc__done(&r.d);
	}
	assert_true(better > 50);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_planted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads_and_unused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devices_steps_and_caps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_step, setup, teardown),
		cmocka_unit_test_setup_teardown(test_better_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_writes_keep_their_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_scratch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_node, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_if, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_stays_wide, setup, teardown),
		cmocka_unit_test_setup_teardown(test_optimizer_of_nothing, setup, teardown),
		cmocka_unit_test(test_random_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
