/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A recorded step as one of a sharded rank: a root and one unit whose bytes at each moment were summed by hand; paths of
 * units; what cannot be sharded is refused; attention that computes in float32 whatever it is given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/names.h"
#include "estimate/paths.h"
#include "estimate/whatif.h"

#define PID 7u
#define CPU 1

static struct names *names;
static struct recorded rec;
static struct recorded_kept kept;

static int setup(void **state)
{
	(void)state;
	names = names__new();
	recorded__init(&rec);
	rec.names = names;
	kept = (struct recorded_kept){ 0 };
	return !names;
}

static int teardown(void **state)
{
	(void)state;
	recorded_kept__done(&kept);
	recorded__done(&rec);
	names__free(names);
	return 0;
}

static void tell(struct tl_event ev)
{
	ev.pid = ev.tid = PID;
	ev.dev = CPU;
	assert_int_equal(recorded__event(&rec, &ev), 0);
}

static void allocated(uint64_t ts, uint64_t id, uint64_t size, enum phase phase, const char *module, enum category cat)
{
	tell((struct tl_event){ .kind = TL_CREATE, .ts_ns = ts, .id = id, .size = size, .op = names__add(names, "aten::empty"),
				.module = names__add(names, module), .root = names__add(names, module ? "Net" : ""),
				.phase = (uint8_t)phase });
	tell((struct tl_event){ .kind = TL_FINAL, .id = id, .cat = (uint8_t)cat });
}

static void died(uint64_t ts, uint64_t id)
{
	tell((struct tl_event){ .kind = TL_DESTROY, .ts_ns = ts, .id = id });
}

static void uses(uint64_t ts, uint64_t id)
{
	struct tl_edge e = { .id = id, .flags = TL_EDGE_IN | TL_EDGE_GIVEN, .dev = CPU };

	tell((struct tl_event){ .kind = TL_NODE, .ts_ns = ts, .op = names__add(names, "aten::mm"), .edges = &e,
				.edges_cnt = 1 });
}

static void parameter(uint64_t id, uint64_t size, const char *path, const char *type)
{
	allocated(id, id, size, PHASE_OTHER, "", CAT_PARAMETER);
	tell((struct tl_event){ .kind = TL_NAME, .ts_ns = id, .id = id, .op = names__add(names, path),
				.type = names__add(names, type), .depth = EV_TENSOR_PARAMETER });
}

/* Three rows of 40 bytes in a unit, ten of 4 in the root, and a copy that nothing uses. */
static void job(void)
{
	parameter(1, 120, "layers.0.weight", "float32[3,10]");
	parameter(2, 40, "head.weight", "float32[10]");
	parameter(3, 1000, "layers.0.weight", "float32[250]");
	for (uint64_t i = 0; i < 3; i++)
		tell((struct tl_event){ .kind = TL_STEP, .ts_ns = 100 + 100 * i });
	allocated(210, 10, 8, PHASE_FORWARD, "", CAT_ACTIVATION);
	allocated(220, 11, 16, PHASE_FORWARD, "layers.0.norm", CAT_ACTIVATION);
	uses(221, 1);
	allocated(230, 12, 8, PHASE_FORWARD, "head", CAT_ACTIVATION);
	uses(231, 2);
	allocated(240, 13, 4, PHASE_BACKWARD, "head", CAT_TEMPORARY);
	died(245, 12);
	died(245, 13);
	allocated(250, 14, 120, PHASE_BACKWARD, "layers.0", CAT_GRADIENT);
	died(255, 11);
	allocated(260, 15, 40, PHASE_BACKWARD, "", CAT_GRADIENT);
	uses(270, 1);
	died(270, 10);
	died(305, 14);
	died(305, 15);
	recorded__end(&rec);
	assert_int_equal(recorded_kept__init(&kept, &rec, CPU), 0);
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	assert_int_equal(kept.step_from, 200);
}

static int ask(struct whatif *w, struct whatif_opts o)
{
	o.a = &rec;
	o.a_kept = &kept;
	return whatif__run(w, &o);
}

/*
 * A rank has 80 (two rows of three) and 20, and the copy. The root is gathered to 40, the unit to 160 (padded).
 * Forward: 100, root 40, its buffer 40, 8 | the unit's buffer 160, without the root's, its parameters 160, 16: 484.
 * Backward: 100 + 40 + 24, the buffer 160 and then its parameters, 120 of gradients: 444; a buffer for them, 160, without the
 * parameters: the same; then without gradients but their part, 80.
 */
static void test_units(void **state)
{
	struct whatif w;

	(void)state;
	job();
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2 }), 0);
	assert_int_equal(w.peak, 1000 + 484);
	assert_int_equal(w.shard.units, 1);
	assert_true(w.shard.is_guess);
	assert_int_equal(w.shard.parameters, 160);
	assert_int_equal(w.shard.sharded, 100);
	assert_int_equal(w.shard.largest, 160);
	assert_int_equal(w.shard.root, 40);
	/* kept until backward: then all activations are there as well, and the unit's buffer until forward is over */
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2, .no_reshard = 1 }), 0);
	assert_int_equal(w.peak, 1000 + 492);
	/* gloo gathers into a buffer of its own: 100 + 40 + 40 + 8 + 160 + 160 */
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2, .is_cpu = 1 }), 0);
	assert_int_equal(w.peak, 1000 + 508);
	/* one row for each of three ranks: nothing is padded but the root's ten rows to twelve */
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 3 }), 0);
	assert_int_equal(w.shard.sharded, 40 + 16);
	assert_int_equal(w.shard.root, 48);
	/* half of all but of the copy, which no operator was given */
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2, .dtype = 0.5 }), 0);
	assert_int_equal(w.peak, 1000 + 242);
}

static void test_patterns(void **state)
{
	struct whatif w;

	(void)state;
	job();
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2, .units = "head,layers.*" }), 0);
	assert_int_equal(w.shard.units, 2);
	assert_int_equal(w.shard.root, 0);
	assert_false(w.shard.is_guess);
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2, .units = "weight,tail" }), -ENOENT);
	assert_int_equal(paths__unit("encoder.layers.12.mlp.0", NULL), strlen("encoder.layers.12"));
	assert_int_equal(paths__unit("encoder.layers", NULL), 0);
	assert_int_equal(paths__unit("layers1.x2", NULL), 0);
	assert_int_equal(paths__unit("a.b.c", "x,,a.?,a.b.c"), 3);
	assert_int_equal(paths__unit("a.b.c", ""), 0);
	assert_int_equal(paths__unit("", NULL), 0);
	assert_int_equal(paths__unit("..1", NULL), 3);
}

static void test_nothing_to_shard(void **state)
{
	struct whatif w;

	(void)state;
	allocated(1, 1, 10, PHASE_FORWARD, "layers.0", CAT_ACTIVATION);
	for (uint64_t i = 0; i < 3; i++)
		tell((struct tl_event){ .kind = TL_STEP, .ts_ns = 100 + 100 * i });
	recorded__end(&rec);
	assert_int_equal(recorded_kept__init(&kept, &rec, CPU), 0);
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	assert_int_equal(ask(&w, (struct whatif_opts){ .ranks = 2 }), -ENODATA);
}

/* One recording: what is no parameter, gradient or state goes with the batch, 2 of 4; 8 of it fit into 1200. */
static void test_one_recording(void **state)
{
	struct whatif w;

	(void)state;
	job();
	assert_int_equal(ask(&w, (struct whatif_opts){ .batch_a = 4, .batch = 2, .budget = 1320 }), 0);
	assert_int_equal(w.recorded, 1000 + 160 + 8 + 120 + 40);
	assert_int_equal(w.peak, 1000 + 160 + 4 + 120 + 40);
	assert_int_equal(w.largest_batch, 0);
	assert_int_equal(ask(&w, (struct whatif_opts){ .batch_a = 4, .budget = 1340 }), 0);
	assert_int_equal(w.peak, w.recorded);
	assert_int_equal(w.largest_batch, 10);
	assert_int_equal(w.at_largest, 1340);
}

/* Two modules that each keep 60, take 40 for a while and give 10 to the next; what the first is given is not kept. */
static void two_modules(void)
{
	parameter(1, 100, "head.weight", "float32[25]");
	for (uint64_t i = 0; i < 3; i++)
		tell((struct tl_event){ .kind = TL_STEP, .ts_ns = 100 + 100 * i });
	allocated(210, 10, 10, PHASE_FORWARD, "", CAT_ACTIVATION);
	uses(212, 10);
	for (uint64_t m = 0; m < 2; m++) {
		uint64_t at = 220 + 10 * m, id = 20 + 10 * m;
		const char *module = m ? "layers.1" : "layers.0";

		allocated(at, id, 60, PHASE_FORWARD, module, CAT_ACTIVATION);
		uses(at + 2, id);
		allocated(at + 4, id + 1, 40, PHASE_FORWARD, module, CAT_TEMPORARY);
		died(at + 6, id + 1);
		uses(at + 7, 1);
		allocated(at + 8, id + 2, 10, PHASE_FORWARD, module, CAT_ACTIVATION);
		if (!m)
			died(229, 10);
		uses(at + 11, id + 2);
	}
	allocated(242, 40, 5, PHASE_FORWARD, "", CAT_ACTIVATION);
	uses(243, 40);
	allocated(250, 50, 5, PHASE_BACKWARD, "layers.1", CAT_TEMPORARY);
	died(251, 32);
	died(251, 40);
	died(260, 30);
	died(262, 22);
	died(262, 50);
	allocated(265, 51, 5, PHASE_BACKWARD, "layers.0", CAT_TEMPORARY);
	died(270, 20);
	died(271, 51);
	recorded__end(&rec);
	assert_int_equal(recorded_kept__init(&kept, &rec, CPU), 0);
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
}

/*
 * The peak is in the second one's forward: 100 + 60 + 10 + 60 + 40. Without the first one's 60, but with what it was given,
 * 220. Both: 235 where the second runs again, with what both were given, its own 100 and the 5 behind it and 10 of its output.
 */
static void test_checkpoint(void **state)
{
	struct whatif w;

	(void)state;
	two_modules();
	assert_int_equal(ask(&w, (struct whatif_opts){ .checkpoint = "layers.*" }), 0);
	assert_int_equal(w.recorded, 270);
	assert_int_equal(w.peak, 235);
	assert_int_equal(w.recompute.cnt, 2);
	assert_int_equal(w.recompute.chosen, 2);
	assert_string_equal(w.recompute.modules[0].path, "layers.0");
	assert_true(w.recompute.modules[0].bytes == 60 && w.recompute.modules[1].bytes == 60);
	assert_int_equal(w.recompute.modules[0].time_ns, 10);
	assert_int_equal(w.recompute.modules[0].peak, 220);
	assert_int_equal(w.recompute.modules[1].peak, 235);
	whatif__done(&w);
	/* the random numbers' state of each */
	assert_int_equal(ask(&w, (struct whatif_opts){ .checkpoint = "layers.*", .is_cpu = 1 }), 0);
	assert_int_equal(w.peak, 235 + 2 * 5056);
	whatif__done(&w);
	assert_int_equal(ask(&w, (struct whatif_opts){ .checkpoint = "layers.1" }), 0);
	assert_int_equal(w.peak, 285); /* where it runs again: the other one's 60, and 15 behind it */
	whatif__done(&w);
}

/* The last of five steps waited for something: its module is not said to take so long. An evaluation is no step of it. */
static void test_median_time(void **state)
{
	static const uint64_t took[] = { 10, 50, 12, 11, 90, 0 };
	struct whatif w;

	(void)state;
	for (uint64_t i = 0; i < 6; i++) {
		uint64_t at = 1000 * (i + 1), id = 10 * (i + 1);

		tell((struct tl_event){ .kind = TL_STEP, .ts_ns = at });
		allocated(at + 500, id, 60, PHASE_FORWARD, "layers.0", CAT_ACTIVATION);
		uses(at + 505, id);
		allocated(at + 500 + took[i], id + 1, 8, PHASE_FORWARD, "", CAT_ACTIVATION);
		if (took[i])
			allocated(at + 700, id + 2, 8, PHASE_BACKWARD, "layers.0", CAT_TEMPORARY);
		for (uint64_t k = 0; k < 2 + (took[i] > 0); k++)
			died(at + 800, id + k);
	}
	recorded__end(&rec);
	assert_int_equal(recorded_kept__init(&kept, &rec, CPU), 0);
	assert_int_equal(recorded_kept__last_step(&kept, &rec), 0);
	assert_int_equal(kept.step_from, 5000);
	assert_int_equal(ask(&w, (struct whatif_opts){ .checkpoint = "layers.*" }), 0);
	assert_int_equal(w.recompute.modules[0].time_ns, 12);
	assert_int_equal(w.recompute.modules[0].steps, 5);
	assert_int_equal(w.recompute.time_ns, 12);
	whatif__done(&w);
}

static void test_budget(void **state)
{
	static const struct {
		uint64_t budget, peak;
		size_t chosen;
		int fits;
	} cases[] = { { 230, 220, 1, 1 }, { 270, 270, 0, 1 }, { 235, 220, 1, 1 }, { 219, 235, 2, 0 } };
	struct whatif w;

	(void)state;
	two_modules();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(ask(&w, (struct whatif_opts){ .checkpoint = "layers.*", .budget = cases[i].budget }), 0);
		assert_int_equal(w.peak, cases[i].peak);
		assert_int_equal(w.recompute.chosen, cases[i].chosen);
		assert_int_equal(w.recompute.fits, cases[i].fits);
		assert_true(w.recompute.is_exact);
		whatif__done(&w);
	}
	assert_int_equal(ask(&w, (struct whatif_opts){ .checkpoint = "tail" }), -ESRCH);
	whatif__done(&w);
}

static void op(uint64_t ts, const char *name, uint8_t depth)
{
	tell((struct tl_event){ .kind = TL_OP, .ts_ns = ts, .op = names__add(names, name), .depth = depth });
}

static void test_wide(void **state)
{
	static const char math[] = "aten::_scaled_dot_product_attention_math";
	static const uint8_t depths[] = { 1, 2, 3, 2, 1, 1 };

	(void)state;
	for (unsigned i = 0; i < sizeof(depths); i++) {
		uint64_t ts = 10 * (i + 1);

		if (i == 1)
			op(ts, math, 1);
		else
			op(ts, "aten::mul", (uint8_t)(depths[i] - 1));
		tell((struct tl_event){ .kind = TL_CREATE, .ts_ns = ts + 1, .id = i + 1, .size = 4, .depth = depths[i] });
	}
	assert_int_equal(rec.blocks[1].is_wide, 0);
	assert_int_equal(rec.blocks[2].is_wide, 1); /* its own */
	assert_int_equal(rec.blocks[3].is_wide, 1); /* of what it calls */
	assert_int_equal(rec.blocks[4].is_wide, 0); /* another one at its depth */
	assert_int_equal(rec.blocks[5].is_wide, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_units, setup, teardown),
		cmocka_unit_test_setup_teardown(test_patterns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_to_shard, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_recording, setup, teardown),
		cmocka_unit_test_setup_teardown(test_checkpoint, setup, teardown),
		cmocka_unit_test_setup_teardown(test_median_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wide, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
