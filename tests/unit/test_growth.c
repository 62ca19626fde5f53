/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Trends, and through the model: jobs with planted leaks, which must be named first, and clean ones that must not be. */
#include <stdio.h>

#include "model/state.h"
#include "timeline/trend.h"
#include "unit/model_help.h"

#define PID 100u
#define MS 1000000ull
#define STEP "Optimizer.step#Adam.step"

/* --- trends ------------------------------------------------------------------------------------------------ */

static struct trend trend_from(size_t cnt, uint64_t (*at)(size_t i))
{
	uint64_t points[TREND_POINTS_MAX];

	for (size_t i = 0; i < cnt; i++)
		points[i] = at(i);
	return trend_of(points, cnt);
}

static uint64_t line(size_t i)
{
	return 1000 + 7 * i;
}

static uint64_t jump(size_t i)
{
	return i < 3 ? 0 : 500;
}

static uint64_t fills(size_t i)
{
	return i < 16 ? 100 * i : 1600;
}

static uint64_t breathes(size_t i)
{
	return 100 + 13 * (i * 7 % 5);
}

static uint64_t saw(size_t i)
{
	return 40 * (i % 6);
}

static uint64_t stairs(size_t i)
{
	return i / 3;
}

static uint64_t falls(size_t i)
{
	return 10000 - 9 * i;
}

static uint64_t noisy(size_t i)
{
	return 1000 + 50 * i + (i * 37 % 11) * 5;
}

static void test_trend(void **state)
{
	struct trend t = trend_from(24, line);

	(void)state;
	assert_true(t.slope == 7 && t.tau == 1 && t.growth == 23 * 7 && !t.fall && t.recent == 6 * 7);
	assert_true(t.z > 6.8 && t.z < 7.0); /* 276 / sqrt(24 · 23 · 53 / 18) = 6.85 */
	assert_true(trend__grows(&t, 23 * 7));
	assert_false(trend__grows(&t, 23 * 7 + 1));
	t = trend_from(TREND_POINTS_MIN, line);
	assert_true(trend__grows(&t, 4));
	t = trend_from(TREND_POINTS_MIN - 1, line);
	assert_false(trend__grows(&t, 4));
	t = trend_from(24, stairs);
	assert_true(trend__grows(&t, 4) && t.slope > 0.3 && t.slope < 0.36);
	t = trend_from(24, noisy);
	assert_true(trend__grows(&t, 4) && t.slope > 48 && t.slope < 52);
	t = trend_from(24, falls);
	assert_true(t.slope == -9 && t.tau == -1 && !t.growth && t.fall == 23 * 9);
}

static void test_no_trend(void **state)
{
	uint64_t (*const still[])(size_t i) = { jump, fills, breathes, saw, falls };

	(void)state;
	for (size_t k = 0; k < sizeof(still) / sizeof(still[0]); k++)
		for (size_t cnt = 24; cnt <= TREND_POINTS_MAX; cnt++) {
			struct trend t = trend_from(cnt, still[k]);

			assert_false(trend__grows(&t, 4));
		}
}

/* --- jobs -------------------------------------------------------------------------------------------------- */

static uint64_t ts, next_ptr;
static uint32_t seq, pid;

static int setup(void **state)
{
	(void)state;
	ts = 1000 * MS;
	next_ptr = 0x1000;
	seq = 0;
	pid = PID;
	return model_begin(NULL);
}

static void send(struct event ev)
{
	ev.pid = ev.tid = pid;
	ev.ts_ns = ts;
	assert_int_equal(model__handle(m, &ev), 0);
}

static uint64_t allocated_on(uint8_t dev, const char *op, uint64_t size)
{
	uint64_t ptr = next_ptr += 0x1000;

	if (op)
		send((struct event){ .kind = MT_EV_OP, .name = names__add(names, op), .seq = ++seq });
	send((struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = dev, .depth = op != NULL,
			     .seq = op ? seq : 0 });
	return ptr;
}

static uint64_t allocated(const char *op, uint64_t size)
{
	return allocated_on(MT_DEV_CPU, op, size);
}

/* A tree of three leaves under one root: "leaf 2" to "leaf 4" at lines 20 to 40. */
static void tell_stacks(void)
{
	for (uint32_t i = 1; i <= 4; i++) {
		char function[16];

		snprintf(function, sizeof(function), i == 1 ? "main" : "leaf %u", i);
		send((struct event){ .kind = EV_STACK, .seq = i, .size = i > 1, .name = names__add(names, function),
				     .addr = names__add(names, "train.py").v, .aux = 10 * i, .flags = EV_FRAME_PYTHON });
	}
}

static uint64_t allocated_at(uint32_t stack, const char *op, uint64_t size)
{
	send((struct event){ .kind = EV_STACK_AT, .addr = next_ptr + 0x1000, .size = stack });
	return allocated(op, size);
}

/* Told of the next allocation at next_ptr + 0x1000, as --stacks is not on. */
static uint64_t caught_at(uint32_t stack, const char *op, uint64_t size)
{
	send((struct event){ .kind = EV_CAUGHT, .addr = next_ptr + 0x1000, .dev = MT_DEV_CPU, .size = stack });
	return allocated(op, size);
}

static void died(uint64_t ptr)
{
	send((struct event){ .kind = MT_EV_FREE, .addr = ptr, .dev = MT_DEV_CPU });
}

static void step_ends(void)
{
	send((struct event){ .kind = MT_EV_REGION_BEGIN, .name = names__add(names, STEP) });
	send((struct event){ .kind = MT_EV_REGION_END });
	ts += 10 * MS;
}

static const struct report_leaks *leaks(void)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return &rep->leaks;
}

/* What every training step does: activations that die in it, a loss that is replaced, and nothing left. */
static void clean_step(unsigned step)
{
	static uint64_t loss;
	uint64_t act[20];

	for (size_t i = 0; i < 20; i++)
		act[i] = allocated("aten::addmm", 4096 * (i + 1 + step % 3));
	if (step)
		died(loss);
	loss = allocated("aten::nll_loss", 4);
	for (size_t i = 0; i < 20; i++)
		died(act[i]);
	if (step == 1)
		for (size_t i = 0; i < 12; i++)
			(void)allocated("aten::zeros_like", 1 << 16); /* the optimizer's state */
	if (step >= 1 && step < 6)
		(void)allocated("aten::cat", 1000); /* warming up */
}

static void test_planted(void **state)
{
	const struct report_leaks *l;

	(void)state;
	for (unsigned step = 0; step < 200; step++) {
		clean_step(step);
		(void)allocated("aten::tanh", 4096);
		(void)allocated("aten::tanh", 1024);
		if (step % 7 == 0)
			(void)allocated("aten::exp", 500);
		step_ends();
	}
	l = leaks();
	assert_int_equal(l->total, 2);
	assert_int_equal(l->cnt, 2);
	assert_false(l->too_short);
	assert_int_equal(l->ticks, 199); /* the first one began the count */
	assert_string_equal(l->rows[0].op, "aten::tanh");
	assert_true(l->rows[0].bytes_slope == 5120 && l->rows[0].blocks_slope == 2 && l->rows[0].per_step);
	assert_int_equal(l->rows[0].sure, SURE_HIGH);
	assert_int_equal(l->rows[0].live, 200 * 5120);
	assert_int_equal(l->rows[0].blocks, 400);
	assert_int_equal(l->rows[0].pid, PID);
	assert_int_equal(l->rows[0].first_ts_ns, 1000 * MS);
	assert_int_equal(l->rows[0].last_ts_ns, (1000 + 199 * 10) * MS);
	assert_string_equal(l->rows[1].op, "aten::exp");
	assert_true(l->rows[1].bytes_slope > 60 && l->rows[1].bytes_slope < 82); /* 500 / 7 = 71.4 */
}

static size_t wanted_of(struct model_wanted *v)
{
	size_t cnt;

	assert_int_equal(model__wanted(m, PID, v, &cnt), 0);
	return cnt;
}

/*
 * Whose allocations are wanted: those of what grows, until enough of what lives of them was caught. It stays one growing
 * place.
 */
static void test_caught(void **state)
{
	struct model_wanted v[MODEL_WANTED_MAX];
	const struct report_leaks *l;
	size_t cnt;

	(void)state;
	tell_stacks();
	for (unsigned step = 0; step < 60; step++) {
		assert_int_equal(step < 9 ? wanted_of(v) : 0, 0);
		clean_step(step);
		(void)allocated("aten::tanh", 4096);
		(void)allocated("aten::tanh", 1024);
		(void)allocated("aten::exp", 100 + step); /* each of another size */
		step_ends();
	}
	assert_int_equal(wanted_of(v), 3);
	assert_true(v[0].min == 1024 && v[0].max == 1024 && v[1].min == 4096 && v[1].max == 4096);
	assert_true(v[2].min == 100 && v[2].max == 159 && v[2].dev == MT_DEV_CPU);
	assert_string_equal(names__get(names, v[0].op), "aten::tanh");
	assert_string_equal(names__get(names, v[2].op), "aten::exp");
	assert_int_equal(model__wanted(m, PID + 1, v, &cnt), 0);
	assert_int_equal(cnt, 0);
	/* What dies says nothing; nor does another block, or one that was told of another place. */
	for (unsigned i = 0; i < 20; i++) {
		died(caught_at(4, "aten::tanh", 4096));
		(void)caught_at(2, "aten::mm", 4096);
	}
	send((struct event){ .kind = EV_CAUGHT, .addr = 0x123, .dev = MT_DEV_CPU, .size = 2 });
	(void)allocated("aten::tanh", 4096);
	(void)caught_at(99, "aten::tanh", 4096); /* no such stack */
	l = leaks();
	assert_true(l->rows[0].caught == 0 && !l->rows[0].frames);
	for (unsigned i = 0; i < 7; i++)
		(void)caught_at(i == 3 ? 2 : 3, "aten::tanh", 4096);
	assert_int_equal(wanted_of(v), 3);
	(void)caught_at(3, "aten::tanh", 1024);
	assert_int_equal(wanted_of(v), 1);
	assert_string_equal(names__get(names, v[0].op), "aten::exp");
	l = leaks();
	assert_int_equal(l->total, 2);
	assert_string_equal(l->rows[0].op, "aten::tanh");
	assert_true(l->rows[0].caught == 8 && l->rows[0].caught_here == 7 && l->rows[0].frames_cnt == 2);
	assert_string_equal(l->rows[0].frames[0].function, "leaf 3");
	assert_true(l->rows[1].caught == 0 && !l->rows[1].frames);
	assert_int_equal(rep->stacks.total, 0); /* no block has a stack for that */
	model__check(m);
}

/* An interpreter frees what leaked before it exits: its line is known all the same. What a step before freed is not counted. */
static void test_caught_and_freed_at_the_end(void **state)
{
	uint64_t kept[60];
	const struct report_leaks *l;

	(void)state;
	pid = PID + 1; /* its places are the first ones */
	(void)allocated("aten::exp", 64);
	pid = PID;
	tell_stacks();
	for (unsigned step = 0; step < 60; step++) {
		kept[step] = step < 40 ? allocated("aten::tanh", 4096) : caught_at(3, "aten::tanh", 4096);
		step_ends();
	}
	died(kept[59]);
	died(kept[58]);
	step_ends(); /* a boundary later */
	l = leaks();
	assert_true(l->cnt == 1 && l->rows[0].caught == 18);
	died(caught_at(2, "aten::tanh", 4096)); /* it never lived at one */
	for (unsigned step = 0; step < 58; step++)
		died(kept[step]);
	model__check(m);
	pid = PID + 1; /* another one ends meanwhile */
	send((struct event){ .kind = EV_GONE });
	pid = PID;
	model__check(m);
	send((struct event){ .kind = EV_GONE });
	l = leaks();
	assert_true(l->cnt == 1 && l->rows[0].is_over);
	assert_true(l->rows[0].caught == 18 && l->rows[0].caught_here == 18);
	assert_string_equal(l->rows[0].frames[0].function, "leaf 3");
	assert_int_equal(m->caught.blocks.cnt, 0);
	model__check(m);
}

/* Freed ones make room first. */
static void test_caught_and_freed_are_the_first_to_go(void **state)
{
	uint64_t old[100], lives;

	(void)state;
	tell_stacks();
	lives = caught_at(2, "aten::tanh", 64);
	for (unsigned i = 0; i < 100; i++)
		old[i] = caught_at(2, "aten::tanh", 64);
	step_ends();
	step_ends();
	for (unsigned i = 0; i < 100; i++)
		died(old[i]);
	assert_int_equal(m->caught.freed, 100);
	for (unsigned i = 0; i < CAUGHT_MAX - 101; i++)
		(void)caught_at(2, "aten::tanh", 64);
	assert_int_equal(m->caught.blocks.cnt, CAUGHT_MAX);
	(void)caught_at(2, "aten::tanh", 64);
	assert_int_equal(m->caught.freed, 0);
	assert_int_equal(m->caught.blocks.cnt, CAUGHT_MAX - 100 + 1);
	died(lives);
	model__check(m);
}

/* More than there is room for: the newest are kept. */
static void test_caught_without_end(void **state)
{
	(void)state;
	tell_stacks();
	for (unsigned i = 0; i < 3 * CAUGHT_MAX; i++)
		(void)caught_at(2, "aten::tanh", 64);
	assert_int_equal(m->caught.blocks.cnt, CAUGHT_MAX);
	model__check(m);
	send((struct event){ .kind = EV_GONE });
	assert_int_equal(m->caught.blocks.cnt, 0);
	for (pid = PID; pid < PID + 100; pid++) /* threads that never have their allocation */
		send((struct event){ .kind = EV_CAUGHT, .addr = 0x1000, .dev = MT_DEV_CPU, .size = 2 });
	assert_int_equal(m->caught.waiting_cnt, CAUGHT_WAITING_MAX);
}

static void say_held(uint64_t ptr, const char *path, uint64_t items)
{
	send((struct event){ .kind = EV_HELD, .addr = ptr, .dev = MT_DEV_CPU, .size = items, .name = names__add(names, path),
			     .type = names__add(names, "list"), .key = names__add(names, "main (train.py:3)"),
			     .flags = items ? 0 : EV_HELD_UNSEEN });
}

/*
 * What is looked for in Python are the blocks of growing places; what was found is told of the growing place that has the
 * block.
 */
static void test_held(void **state)
{
	struct model_growing *growing;
	uint64_t tanh = 0, loss = 0;
	const struct report_leaks *l;
	size_t cnt, of[2] = { 0 };

	(void)state;
	for (unsigned step = 0; step < 60; step++) {
		clean_step(step);
		tanh = allocated("aten::tanh", 4096);
		loss = allocated("aten::nll_loss_forward", 4);
		step_ends();
	}
	assert_int_equal(model__growing(m, PID + 1, &growing, &cnt), 0);
	assert_int_equal(cnt, 0);
	assert_null(growing);
	assert_int_equal(model__growing(m, PID, &growing, &cnt), 0);
	assert_int_equal(cnt, 120);
	for (size_t i = 0; i < cnt; i++) {
		assert_true(!i || growing[i].addr > growing[i - 1].addr);
		assert_true(growing[i].set < 2 && growing[i].dev == MT_DEV_CPU);
		of[growing[i].set]++;
	}
	assert_true(of[0] == 60 && of[1] == 60);
	free(growing);
	assert_int_equal(leaks()->rows[0].held, HELD_UNKNOWN);
	say_held(tanh, "", 0);
	l = leaks();
	assert_int_equal(l->rows[0].held, HELD_UNSEEN);
	assert_null(l->rows[0].held_by);
	say_held(loss, "losses", 60);
	l = leaks();
	assert_int_equal(l->rows[1].held, HELD_ITSELF);
	assert_string_equal(l->rows[1].held_by, "losses");
	assert_int_equal(l->rows[0].held, HELD_GRAPH); /* with the loss its graph */
	assert_string_equal(l->rows[0].held_by, "losses");
	assert_int_equal(l->rows[0].held_items, 60);
	ts += MS;
	died(loss);
	next_ptr = loss - 0x1000;
	assert_int_equal(allocated("aten::nll_loss_forward", 4), loss); /* another one: of it nothing was said */
	assert_int_equal(leaks()->rows[1].held, HELD_UNKNOWN);
	for (unsigned i = 0; i < 3 * HOLDERS_MAX; i++)
		say_held(0x10 + i, "x", 4);
	assert_int_equal(m->holders.cnt, HOLDERS_MAX);
	model__check(m);
}

/* One operator in three places: two leak, one breathes so much that all of them together would look like no leak. */
static void test_by_stack(void **state)
{
	uint64_t queue[600];
	size_t cnt = 0;
	const struct report_leaks *l;

	(void)state;
	tell_stacks();
	for (unsigned step = 0; step < 100; step++) {
		(void)allocated_at(2, "aten::tanh", 4096);
		if (step % 2)
			(void)allocated_at(3, "aten::tanh", 4096);
		while (cnt && step % 5 == 0)
			died(queue[--cnt]);
		for (unsigned i = 0; i < 100 && step % 5; i++)
			queue[cnt++] = allocated_at(4, "aten::tanh", 4096);
		step_ends();
		model__check(m);
	}
	l = leaks();
	assert_int_equal(l->total, 2);
	assert_true(l->rows[0].bytes_slope == 4096 && l->rows[1].bytes_slope == 2048);
	assert_int_equal(l->rows[0].blocks, 100);
	assert_int_equal(l->rows[0].frames_cnt, 2);
	assert_string_equal(l->rows[0].frames[0].function, "leaf 2");
	assert_string_equal(l->rows[0].frames[0].file, "train.py");
	assert_int_equal(l->rows[0].frames[0].line, 20);
	assert_string_equal(l->rows[0].frames[1].function, "main");
	assert_string_equal(l->rows[1].frames[0].function, "leaf 3");
}

/* Without a stack nothing is told of one, also where others have one. */
static void test_no_stack(void **state)
{
	(void)state;
	tell_stacks();
	for (unsigned step = 0; step < 100; step++) {
		(void)allocated("aten::tanh", 4096);
		died(allocated_at(2, "aten::tanh", 4096));
		step_ends();
	}
	assert_int_equal(leaks()->total, 1);
	assert_true(leaks()->rows[0].bytes_slope == 4096 && !leaks()->rows[0].frames && !leaks()->rows[0].frames_cnt);
}

/* Numbers do not depend on how long the trace is: slots double, slopes stay. */
static void test_long(void **state)
{
	const struct report_leaks *l;

	(void)state;
	for (unsigned step = 0; step < 5000; step++) {
		uint64_t p = allocated("aten::mm", 64);

		(void)allocated("aten::tanh", 4096);
		died(p);
		step_ends();
		if (step % 911 == 0)
			model__check(m);
	}
	l = leaks();
	assert_int_equal(l->total, 1);
	assert_true(l->rows[0].bytes_slope == 4096);
	assert_in_range(l->rows[0].history_cnt, GROWTH_SLOTS / 2, GROWTH_SLOTS);
}

/* Steps have marks before operators have probes: what was not to be seen then is no part of the trend. */
static void test_steps_of_an_attach(void **state)
{
	const struct report_leaks *l;
	struct model_growing *growing;
	size_t cnt;

	(void)state;
	send((struct event){ .kind = EV_PROC, .flags = EV_PROC_ATTACHED, .size = 1, .name = names__add(names, "python") });
	step_ends();
	send((struct event){ .kind = EV_ATTACH, .flags = EV_ATTACH_BEGINS });
	for (unsigned step = 0; step < 600; step++) { /* of a quick job */
		(void)allocated(NULL, 4096);
		step_ends();
	}
	assert_int_equal(model__growing(m, PID, &growing, &cnt), 0);
	assert_true(!cnt && !growing); /* who holds what has no operator yet would be said of another place */
	send((struct event){ .kind = EV_ATTACH, .addr = 3000, .aux = 20 });
	for (unsigned step = 0; step < 8; step++) {
		(void)allocated("aten::tanh", 4096);
		step_ends();
	}
	assert_true(leaks()->too_short);
	for (unsigned step = 0; step < 32; step++) {
		(void)allocated("aten::tanh", 4096);
		step_ends();
	}
	send((struct event){ .kind = EV_ATTACH, .flags = EV_ATTACH_BEGINS }); /* a library that came late */
	send((struct event){ .kind = EV_ATTACH, .addr = 30, .aux = 2 });
	l = leaks();
	assert_int_equal(l->cnt, 1);
	assert_int_equal(l->ticks, 40);
	assert_true(l->rows[0].bytes_slope == 4096 && l->rows[0].blocks_slope == 1 && l->rows[0].sure == SURE_MEDIUM);
}

static void test_clean(void **state)
{
	uint64_t cache[64] = { 0 }, queue[8] = { 0 };

	(void)state;
	for (unsigned step = 0; step < 400; step++) {
		clean_step(step);
		if (step < 64)
			cache[step] = allocated("aten::clone", 777); /* a cache that fills and stays */
		if (queue[step * 5 % 8])
			died(queue[step * 5 % 8]);
		queue[step * 5 % 8] = step % 3 ? allocated("aten::empty", 8192) : 0; /* a queue that breathes */
		step_ends();
		if (step >= 100) /* while the cache fills it looks like a leak: nobody could know */
			assert_int_equal(leaks()->total, 0);
	}
	assert_true(cache[63]);
	assert_int_equal(leaks()->total, 0);
	assert_false(leaks()->too_short);
}

static void test_warm_up_of_five_steps(void **state)
{
	(void)state;
	for (unsigned step = 0; step < 40; step++) {
		clean_step(step);
		step_ends();
		assert_int_equal(leaks()->total, 0);
	}
}

static void test_too_short(void **state)
{
	(void)state;
	for (unsigned step = 0; step <= GROWTH_TICKS_MIN; step++) {
		(void)allocated("aten::tanh", 4096);
		assert_true(leaks()->too_short && !leaks()->total);
		step_ends();
	}
	assert_false(leaks()->too_short);
	assert_int_equal(leaks()->total, 1);
	assert_int_equal(leaks()->rows[0].sure, SURE_LOW);
}

/* 1000 bytes that stay in each tenth of a second. */
static void serve_for(unsigned seconds)
{
	for (unsigned i = 0; i < 100 * seconds; i++) {
		uint64_t p = allocated("aten::mm", 1 << 20);

		if (i % 10 == 0)
			(void)allocated("aten::tanh", 1000);
		ts += 10 * MS;
		died(p);
	}
}

/* In its first minute it may load; what is over has done what it did. */
static void test_without_steps(void **state)
{
	const struct report_leaks *l;

	(void)state;
	serve_for(59);
	l = leaks();
	assert_true(l->too_short && !l->total && !l->per_step && l->ticks_least == 120);
	serve_for(2);
	l = leaks();
	assert_false(l->too_short);
	assert_int_equal(l->total, 1);
	assert_false(l->rows[0].per_step || l->per_step);
	assert_true(l->rows[0].bytes_slope > 9900 && l->rows[0].bytes_slope < 10100); /* 10 a second */
	ts += 600000 * MS; /* nothing happens: the leak is over */
	send((struct event){ .kind = EV_TICK });
	assert_int_equal(leaks()->total, 0);
}

static void test_without_steps_and_over(void **state)
{
	(void)state;
	serve_for(20);
	assert_true(leaks()->too_short && !leaks()->total);
	send((struct event){ .kind = EV_END });
	assert_int_equal(leaks()->total, 1);
	assert_true(!leaks()->too_short && leaks()->ticks_least == GROWTH_TICKS_MIN);
}

/* What a service fills once does not grow, however it is looked at behind its first minute. */
static void test_a_service_has_loaded(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 500; i++) { /* 50 s */
		(void)allocated("aten::empty", 1 << 20);
		ts += 100 * MS;
	}
	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(leaks()->total, 0);
		for (unsigned k = 0; k < 100; k++) {
			uint64_t p = allocated("aten::mm", 1 << 20);

			ts += 10 * MS;
			died(p);
		}
	}
	assert_false(leaks()->too_short);
}

/* At the end of time boundaries do not come round again. */
static void test_end_of_time(void **state)
{
	(void)state;
	ts = UINT64_MAX - 700 * MS;
	died(allocated("aten::mm", 64));
	(void)allocated("aten::tanh", 1000);
	ts += 600 * MS;
	(void)allocated("aten::tanh", 1000);
	ts += 50 * MS;
	died(next_ptr);
	model__check(m);
	died(next_ptr - 0x1000);
	model__check(m);
}

/* Steps begin late: what was counted by time does not mix with them; marks are better than optimizers. */
static void test_better_steps(void **state)
{
	const struct report_leaks *l;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		(void)allocated("aten::tanh", 1000);
		ts += 100 * MS;
	}
	assert_int_equal(leaks()->total, 0); /* it may load */
	step_ends();
	assert_true(leaks()->too_short && leaks()->per_step);
	for (unsigned i = 0; i < 50; i++) {
		(void)allocated("aten::tanh", 1000);
		step_ends();
	}
	assert_true(leaks()->rows[0].bytes_slope == 1000);
	for (unsigned i = 0; i < 50; i++) {
		(void)allocated("aten::tanh", 1000);
		step_ends();
		step_ends();
		send((struct event){ .kind = MT_EV_STEP, .addr = i });
	}
	l = leaks();
	assert_int_equal(l->ticks, 49);
	assert_true(l->rows[0].bytes_slope == 1000 && l->rows[0].per_step);
	assert_int_equal(l->rows[0].blocks, 200);
}

static void test_layers_and_late(void **state)
{
	const struct report_leaks *l;

	(void)state;
	for (unsigned step = 0; step < 100; step++) {
		(void)allocated("aten::tanh", 1000);
		(void)allocated_on(MT_DEV_HOST, "aten::tanh", 1064); /* below the tensor */
		(void)allocated_on(MT_DEV_HOST, NULL, 333);		/* C code that forgets */
		/* a data set that was there before: each sample is seen once */
		send((struct event){ .kind = MT_EV_OP, .name = names__add(names, "aten::stack"), .seq = ++seq });
		send((struct event){ .kind = EV_ARG, .addr = next_ptr += 0x10000, .size = 1 << 16, .depth = 1, .seq = seq });
		step_ends();
	}
	l = leaks();
	assert_int_equal(l->total, 2);
	assert_int_equal(l->rows[0].dev, MT_DEV_CPU);
	assert_int_equal(l->rows[1].dev, MT_DEV_HOST);
	assert_string_equal(l->rows[1].op, "");
	assert_true(l->rows[1].bytes_slope == 333);
}

/* A free that was lost looks like a leak: then nothing is sure. */
static void test_losses(void **state)
{
	static const uint8_t reasons[] = { MT_LOSS_RING, MT_LOSS_SHARE, MT_LOSS_RECORDING, MT_LOSS_STALLED };

	(void)state;
	for (unsigned step = 0; step < 200; step++) {
		(void)allocated("aten::tanh", 1000);
		step_ends();
	}
	assert_int_equal(leaks()->rows[0].sure, SURE_HIGH);
	for (size_t i = 0; i < sizeof(reasons); i++) {
		send((struct event){ .kind = EV_LOSS, .aux = reasons[i], .size = 1000 });
		assert_int_equal(leaks()->rows[0].sure, SURE_LOW);
		send((struct event){ .kind = EV_LOSS, .aux = reasons[i], .size = 0 });
		assert_int_equal(leaks()->rows[0].sure, SURE_HIGH);
	}
}

static void test_processes(void **state)
{
	(void)state;
	for (unsigned step = 0; step < 100; step++)
		for (pid = PID; pid < PID + 3; pid++) {
			(void)allocated("aten::tanh", pid);
			step_ends();
		}
	assert_int_equal(leaks()->total, 3);
	assert_int_equal(leaks()->rows[0].pid, PID + 2);
	pid = PID + 2;
	send((struct event){ .kind = EV_GONE });
	model__check(m);
	assert_int_equal(m->growth.cnt, 2);
	assert_int_equal(leaks()->total, 3); /* what grew in it is known */
	assert_int_equal(leaks()->rows[0].pid, PID + 1); /* behind those that live */
	assert_int_equal(leaks()->rows[2].pid, PID + 2);
	assert_int_equal(leaks()->rows[2].blocks, 100);
}

/* At its end a program frees everything, what has grown, too. */
static void test_a_process_that_ends(void **state)
{
	uint64_t kept[100];

	(void)state;
	for (unsigned step = 0; step < 100; step++) {
		kept[step] = allocated("aten::tanh", 1000);
		died(allocated("aten::relu", 5000));
		step_ends();
	}
	say_held(kept[50], "__main__.kept", 51);
	for (unsigned step = 0; step < 100; step++)
		died(kept[step]);
	assert_int_equal(leaks()->total, 0);
	send((struct event){ .kind = EV_GONE });
	model__check(m);
	assert_int_equal(leaks()->total, 1);
	assert_true(leaks()->rows[0].is_over && leaks()->rows[0].first_ts_ns && leaks()->rows[0].last_ts_ns <= ts);
	assert_string_equal(leaks()->rows[0].op, "aten::tanh");
	assert_true(leaks()->rows[0].bytes_slope == 1000 && leaks()->rows[0].live == 97000);
	assert_int_equal(leaks()->rows[0].blocks, 97); /* a point is four steps, and the least in them */
	assert_string_equal(leaks()->rows[0].held_by, "__main__.kept");
	assert_int_equal(leaks()->rows[0].held_items, 51);
}

/* What a program let go of itself, long before its end, is no leak. */
static void test_a_process_that_cleared_it(void **state)
{
	uint64_t kept[100];

	(void)state;
	for (unsigned step = 0; step < 100; step++) {
		kept[step] = allocated("aten::tanh", 1000);
		step_ends();
	}
	assert_int_equal(leaks()->total, 1);
	for (unsigned step = 0; step < 100; step++)
		died(kept[step]);
	ts += 60000 * MS;
	send((struct event){ .kind = EV_GONE });
	assert_int_equal(leaks()->total, 0);
}

static void test_full(void **state)
{
	char op[32];
	uint64_t last = 0;

	(void)state;
	for (unsigned i = 0; i < GROWTH_ROWS_MAX + 5; i++) {
		snprintf(op, sizeof(op), "op%u", i);
		last = allocated(op, 10);
	}
	assert_int_equal(leaks()->not_watched, 5);
	model__check(m);
	died(last);	/* was not watched */
	died(0x1000 + 0x1000); /* that row has no block any more: it gives its place up */
	for (unsigned i = 0; i < 4 * GROWTH_ROWS_MAX / 16; i++) {
		snprintf(op, sizeof(op), "new%u", i);
		died(allocated(op, 10));
	}
	model__check(m);
	assert_int_equal(m->growth.cnt, GROWTH_ROWS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trend),
		cmocka_unit_test(test_no_trend),
		cmocka_unit_test_setup_teardown(test_planted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_caught, setup, teardown),
		cmocka_unit_test_setup_teardown(test_caught_and_freed_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_caught_and_freed_are_the_first_to_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_caught_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_held, setup, teardown),
		cmocka_unit_test_setup_teardown(test_by_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_steps_of_an_attach, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clean, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warm_up_of_five_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_short, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_steps_and_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_service_has_loaded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_of_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_better_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_layers_and_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_losses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_process_that_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_process_that_cleared_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
