/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Blocks of generated code, by what its file says of them (docs/compiled.md). */
#include "unit/train_help.h"

enum { TEMP = 0x8040, G = 0x1a040, LATER = 0x1b040, LEFT = 0x1c040, GIVEN = 0x1d040, WIDE = 0x1e040, PASSED = 0x1f040 };

static void allocated_at(const char *place, uint64_t ptr, unsigned depth)
{
	ts += stride;
	send((struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = SIZE, .dev = MT_DEV_CPU, .depth = (uint8_t)depth,
			     .seq = depth ? seqs[depth - 1] : 0, .name = names__add(names, place) });
}

static void tell_place(const char *place, uint8_t made)
{
	ts += stride;
	send((struct event){ .kind = EV_PLACE, .name = names__add(names, place), .addr = names__add(names, "inductor: a").v,
			     .flags = made, .size = made & EV_PLACE_GRAPH });
}

static void tell_places(void)
{
	tell_place("forward", EV_PLACE_FORWARD | EV_PLACE_OUTPUT);
	tell_place("forward's own", EV_PLACE_FORWARD);
	tell_place("backward", EV_PLACE_BACKWARD | EV_PLACE_OUTPUT);
	tell_place("backward's own", EV_PLACE_BACKWARD);
	tell_place("inference", EV_PLACE_INFERENCE | EV_PLACE_OUTPUT);
	tell_place("inference's own", EV_PLACE_INFERENCE);
	tell_place("no graph", EV_PLACE_OUTPUT);
}

/* The graph exists from the first operator with a tensor on. */
static void some_operator(void)
{
	op(0, "aten::relu", T(0xe040));
	tick();
}

static void by_graph_and_whether_it_returns_it(void **state)
{
	static const struct {
		const char *place, *cat;
	} wanted[] = {
		{ "forward", "ACTIVATION" }, { "forward's own", "TEMPORARY" }, { "backward", "AUTOGRAD_DETAIL" },
		{ "backward's own", "TEMPORARY" }, { "inference", "ACTIVATION" }, { "inference's own", "TEMPORARY" },
	};

	(void)state;
	some_operator();
	tell_places();
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		allocated_at(wanted[i].place, Y, 0);
		assert_string_equal(cat(Y), wanted[i].cat);
		step_begin(); /* what was guessed of untouched blocks is over with a step */
		step_end();
		assert_string_equal(cat(Y), wanted[i].cat);
		freed(Y, 0);
		assert_string_equal(last_cat(Y), wanted[i].cat);
	}
}

static void what_no_file_tells_of(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	allocated_at("no graph", Y, 0);
	allocated_at("never told", TEMP, 0);
	allocated(OUT, 0);
	step_begin();
	step_end();
	assert_string_equal(cat(Y), "unknown");
	assert_string_equal(cat(TEMP), "unknown");
	assert_string_equal(cat(OUT), "unknown");
	freed(TEMP, 0);
	assert_string_equal(last_cat(TEMP), "unknown");
}

/* Labels go back to the allocation, also of what is dead by then. */
static void reported_after_the_alloc(void **state)
{
	(void)state;
	some_operator();
	allocated_at("forward", Y, 0);
	allocated_at("forward's own", TEMP, 0);
	freed(TEMP, 0);
	step_begin();
	step_end();
	assert_string_equal(cat(Y), "unknown");
	assert_true(byte_ns(CAT_UNKNOWN) > 0);
	tell_places();
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_true(byte_ns(CAT_TEMPORARY) > 0);
	assert_int_equal(m->graph->unplaced[0].id, 0); /* told: nothing waits any more */
	for (unsigned i = 0; i < UNPLACED_MAX + 10; i++) /* those that wait are bounded */
		allocated_at("never told", 0x100000 + 0x100 * (uint64_t)i, 0);
	model__check(m);
}

/* An activation is one for what is made from it, whoever touches it; and it is no parameter because nothing else names it. */
static void data_flow_goes_on(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	accumulate(WT, 0, GW); /* it trains */
	allocated_at("forward's own", TEMP, 0);
	allocated_at("forward", Y, 0);
	make(OUT, "aten::mm", T(TEMP, R), T(Y, R));
	op(0, "aten::add", T(OUT, R), T(Y, R), T(X, R));
	assert_string_equal(cat(OUT), "ACTIVATION");
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_string_equal(cat(X), "INPUT");
	step_begin();
	step_end();
	step_begin();
	step_end();
	assert_string_equal(cat(OUT), "ACTIVATION");
	assert_string_equal(cat(Y), "ACTIVATION");
}

static uint64_t in_phase(enum phase phase)
{
	return m->modules.phases[phase].alloc_bytes;
}

/*
 * Compiled autograd: nothing says that its graph is a backward until an optimizer has read what that returned; from then on it
 * is one, with all its lines. Another graph of that kind stays what it is.
 */
static void an_inference_that_makes_gradients_is_a_backward(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	ts += stride;
	send((struct event){ .kind = EV_PLACE, .name = names__add(names, "another's"),
			     .addr = names__add(names, "inductor: b").v, .flags = EV_PLACE_INFERENCE, .size = 77 });
	for (unsigned step = 0; step < 3; step++) {
		allocated_at("forward", Y, 0);
		allocated_at("inference's own", TEMP, 0);
		allocated_at("inference", G, 0);
		freed(TEMP, 0);
		step_begin();
		op(0, "aten::add_", T(WT, R | W), T(G, R));
		step_end();
		allocated_at("another's", LATER, 0);
		freed(LATER, 0);
		assert_int_equal(in_phase(PHASE_BACKWARD), step * 2 * SIZE);
		freed(G, 0);
		freed(Y, 0);
	}
	assert_int_equal(m->modules.phases[PHASE_BACKWARD].entries, 2);
	model__check(m);
}

/* What data flow has a word for keeps it: torch.profiler's, right or wrong. */
static void as_torch_profiler(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	accumulate(WT, 0, GW);
	allocated_at("forward", Y, 0);
	allocated_at("forward", OUT, 0);
	allocated(TEMP, 0); /* the same without a file */
	allocated(G, 0);
	op(0, "aten::mm", T(WT, R), T(X, R), T(Y, W | R), T(TEMP, W | R));
	op(0, "aten::mm", T(WT, R), T(OUT, R), T(G, R));
	assert_string_equal(cat(Y), "PARAMETER");
	assert_string_equal(cat(OUT), "INPUT");
	assert_string_equal(cat(Y), cat(TEMP));
	assert_string_equal(cat(OUT), cat(G));
}

static void assert_plain(int64_t parameter, int64_t input, int64_t activation)
{
	struct report *r;

	tick();
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_true(r->devs[0].cats[CAT_PARAMETER].plain == parameter);
	assert_true(r->devs[0].cats[CAT_INPUT].plain == input);
	assert_true(r->devs[0].cats[CAT_ACTIVATION].plain == activation);
	report__free(r);
	model__check(m);
}

/* Of the peak it is known what the file says, whether the blocks live, are dead, or are forgotten; what has a role keeps it. */
static void at_the_peak_as_the_file_says(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	accumulate(WT, 0, GW);
	allocated_at("forward", Y, 0);
	allocated_at("forward", OUT, 0);
	allocated_at("forward", Z, 0);
	allocated(TEMP, 0); /* the peak */
	op(0, "aten::mm", T(WT, R), T(X, R), T(Y, W | R), T(TEMP, W | R), T(Z, W | R));
	op(0, "aten::mm", T(WT, R), T(OUT, R));
	assert_plain(-2 * (int64_t)SIZE, -(int64_t)SIZE, 3 * SIZE);
	accumulate(Z, 0, G2);
	step_begin(); /* a parameter, after all */
	op(0, "aten::add_", T(Z, W | R), T(G2, R));
	step_end();
	assert_string_equal(cat(Z), "PARAMETER");
	assert_plain(-(int64_t)SIZE, -(int64_t)SIZE, 2 * SIZE);
	freed(Y, 0);
	freed(OUT, 0);
	assert_plain(-(int64_t)SIZE, -(int64_t)SIZE, 2 * SIZE);
	for (unsigned i = 0; i < 6; i++) {
		step_begin();
		step_end();
	}
	assert_int_equal(m->devs[0]->plain[CAT_ACTIVATION], 2 * SIZE);
	assert_plain(-(int64_t)SIZE, -(int64_t)SIZE, 2 * SIZE);
	for (unsigned i = 0; i < 3; i++) /* another peak, without them */
		allocated(0x100000 + 0x1000 * (uint64_t)i, 0);
	assert_plain(0, 0, 0);
}

static void gradients(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	apply(0, "CompiledFunctionBackward", T(OUT));
	allocated_at("backward's own", TEMP, 2);
	allocated_at("backward", GW, 2);
	freed(TEMP, 2);
	assert_string_equal(cat(GW), "AUTOGRAD_DETAIL");
	accumulate(WT, 0, GW);
	assert_string_equal(cat(GW), "GRADIENT");
	assert_string_equal(last_cat(TEMP), "TEMPORARY");
	/* compiled autograd: no node is evaluated, an optimizer reads what the graph returned */
	allocated_at("inference", G, 0);
	assert_string_equal(cat(G), "ACTIVATION");
	step_begin();
	op(0, "aten::add_", T(WT, W | R), T(G, R));
	step_end();
	assert_string_equal(cat(G), "GRADIENT");
}

/* A convolution's backward is no kernel of inductor's: the graph hands it on, and returns what ATen allocated. */
static void gradients_of_operators_in_compiled_autograd(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	accumulate(WT, 0, GW);
	allocated_at("inference's own", TEMP, 0);
	make(PASSED, "aten::convolution_backward", T(TEMP, R), T(X, R), T(WT, R));
	make(G, "aten::convolution_backward", T(PASSED, R), T(X, R), T(WT, R)); /* of the layer before */
	make(LATER, "aten::convolution_backward", T(Y, R), T(X, R), T(WT, R)); /* of nothing that a graph made */
	make(WIDE, "aten::sum", T(TEMP, R));
	step_begin();
	op(0, "aten::add_", T(WT, W | R), T(G, R));
	op(0, "aten::add_", T(WT, W | R), T(LATER, R));
	step_end();
	assert_string_equal(cat(G), "GRADIENT");
	assert_string_not_equal(cat(LATER), "GRADIENT");
	assert_string_not_equal(cat(WIDE), "GRADIENT"); /* which no optimizer reads */
	model__check(m);
}

/* A batch is given to generated code past all operators; so is what operators in it leave. */
static void given_and_left(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	make(GIVEN, "aten::randn");
	op(0, "aten::normal_", T(GIVEN, W | R));
	allocated_at("forward", Y, 0);
	make(LEFT, "aten::convolution", T(Y, R));
	allocated(LATER, 0); /* like a random generator's state: no operator is given it */
	make(WIDE, "aten::randn");
	op(0, "aten::normal_", T(WIDE, W | R)); /* after the last forward */
	step_begin();
	step_end();
	assert_string_equal(cat(GIVEN), "INPUT");
	assert_string_equal(cat(LEFT), "ACTIVATION");
	assert_string_equal(cat(LATER), "unknown");
	assert_string_equal(cat(WIDE), "unknown");
	apply(0, "CompiledFunctionBackward", T(OUT));
	freed(LATER, 2);
	assert_string_equal(last_cat(LATER), "ACTIVATION");
}

/* A service's batch, too; where something is trained an inference may be a backward, and says nothing of what is there. */
static void given_to_an_inference(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	for (unsigned is_trained = 0; is_trained < 2; is_trained++) {
		if (is_trained) {
			step_begin();
			step_end();
		}
		make(GIVEN, "aten::randn");
		op(0, "aten::normal_", T(GIVEN, W | R));
		allocated_at("inference", Y, 0);
		/* past all guesses */
		assert_int_equal(graph__find(m->graph, block(GIVEN)->id)->made, is_trained ? 0 : MADE_GIVEN);
		freed(Y, 0);
		freed(GIVEN, 0);
	}
}

/* Nothing of that where no generated code runs. */
static void an_eager_job(void **state)
{
	(void)state;
	some_operator();
	make(GIVEN, "aten::randn");
	op(0, "aten::normal_", T(GIVEN, W | R));
	make(LEFT, "aten::convolution", T(Y, R));
	allocated(LATER, 0);
	step_begin();
	step_end();
	assert_string_equal(cat(GIVEN), "unknown");
	assert_string_equal(cat(LEFT), "unknown");
	apply(0, "MmBackward0", T(OUT));
	freed(LATER, 2);
	assert_string_equal(last_cat(LATER), "unknown");
}

/* What a file says holds for what data flow calls otherwise, too, but for roles. */
static void extended(void **state)
{
	(void)state;
	some_operator();
	tell_places();
	accumulate(WT, 0, GW);
	allocated_at("forward's own", TEMP, 0);
	op(0, "aten::mm", T(WT, R), T(TEMP, W | R));
	assert_string_equal(cat(TEMP), "TEMPORARY"); /* ACTIVATION by data flow */
	allocated_at("forward", Y, 0);
	apply(0, "CompiledFunctionBackward", T(Y));
	allocated_at("backward", G, 2);
	accumulate(WT, 0, G);
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_string_equal(cat(G), "GRADIENT");
}

/* A recording that begins later says it again. */
static void carried_on(void **state)
{
	struct event ev = { 0 };

	(void)state;
	some_operator();
	tell_places();
	allocated_at("forward's own", TEMP, 0);
	assert_true(graph__memory(m->graph, block(TEMP)->id, &ev));
	ev.kind = EV_WAS_FLOW;
	ev.dev = MT_DEV_CPU;
	ev.addr = Y;
	send((struct event){ .kind = EV_WAS, .dev = MT_DEV_CPU, .addr = Y, .size = SIZE });
	send(ev);
	step_begin();
	step_end();
	assert_string_equal(cat(Y), "TEMPORARY");
	ev.addr = OUT;
	ev.size = UINT64_MAX; /* bits that mean nothing */
	send((struct event){ .kind = EV_WAS, .dev = MT_DEV_CPU, .addr = OUT, .size = SIZE });
	send(ev);
	model__check(m);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(by_graph_and_whether_it_returns_it), TEST(what_no_file_tells_of), TEST(reported_after_the_alloc),
		TEST(gradients), TEST(an_inference_that_makes_gradients_is_a_backward), TEST(given_and_left),
		TEST(an_eager_job), TEST(carried_on), TEST(as_torch_profiler), TEST(at_the_peak_as_the_file_says),
		TEST(gradients_of_operators_in_compiled_autograd), TEST(given_to_an_inference),
		cmocka_unit_test_setup_teardown(data_flow_goes_on, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(extended, setup_extended, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
