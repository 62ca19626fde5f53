/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Categories: each rule on a few events. The tables are those of torch.profiler's own tests. */
#include "unit/flow_help.h"

enum { X = 0x1000, WT = 0x2000, B = 0x3000, OUT = 0x4000, LOSS = 0x5000, SEED = 0x6000, GW = 0x7000, GB = 0x8000,
       M1 = 0x9000, M2 = 0xa000, TMP = 0xb000, Y = 0xc000, Z = 0xd000 };

static void forward(unsigned weight)
{
	make(X, "aten::randn");
	op(1, "aten::normal_", T(X, W | R));
	op(0, "aten::linear", T(X, R), T(WT, R | weight), T(B, weight));
	op(1, "aten::t", T(WT, R));
	op(1, "aten::addmm", T(B, R), T(X, R), T(WT, R));
	born(OUT, 2);
	make(LOSS, "aten::sum", T(OUT, R));
}

static void backward(void)
{
	make(SEED, "aten::ones_like", T(LOSS, R));
	op(1, "aten::fill_", T(SEED, W | R));
	apply(0, "SumBackward0", T(SEED));
	op(2, "aten::expand", T(SEED, R));
	apply(0, "AddmmBackward0", T(SEED));
	op(2, "aten::mm", T(SEED, R), T(X, R));
	born(GW, 3);
	op(2, "aten::sum.dim_IntList", T(SEED, R));
	born(GB, 3);
	accumulate(B, 0, GB);
	accumulate(WT, 0, GW);
}

static void sgd(void)
{
	step_begin();
	op(0, "aten::add_.Tensor", T(WT, W | R), T(GW, R));
	op(0, "aten::add_.Tensor", T(B, W | R), T(GB, R));
	step_end();
}

static void forget(void)
{
	static const uint64_t all[] = { X, OUT, LOSS, SEED, GW, GB };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		freed(all[i], 0);
}

static void check_step(void)
{
	assert_string_equal(cat(X), "INPUT");
	assert_string_equal(cat(WT), "PARAMETER");
	assert_string_equal(cat(B), "PARAMETER");
	assert_string_equal(cat(OUT), "ACTIVATION");
	assert_string_equal(cat(LOSS), "ACTIVATION");
	assert_string_equal(cat(SEED), "ACTIVATION");
	assert_string_equal(cat(GW), "GRADIENT");
	assert_string_equal(cat(GB), "GRADIENT");
}

/* Attached in mid-run: parameters are met as arguments. */
static void a_step_of_sgd(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	check_step();
	sgd();
	check_step();
	forget();
	assert_string_equal(last_cat(OUT), "ACTIVATION");
	assert_string_equal(last_cat(GW), "GRADIENT");
	assert_string_equal(last_cat(X), "INPUT");
	assert_int_equal(version(WT), 1);
}

/* No weight argument: known at the first backward pass, and the step before is told again at its end. */
static void parameters_found_late(void **state)
{
	(void)state;
	forward(0);
	backward();
	assert_string_equal(cat(WT), "PARAMETER");
	sgd();
	check_step();
}

/* Born in sight of the trace: a parameter once an optimizer writes it. */
static void parameters_from_the_start(void **state)
{
	(void)state;
	make(WT, "aten::empty");
	make(B, "aten::empty");
	tick();
	forward(WEIGHT);
	backward();
	sgd();
	check_step();
}

/* Labels are back-dated: every byte and nanosecond of the step has one. */
static void labels_are_back_dated(void **state)
{
	uint64_t known = 0, t0;

	(void)state;
	forward(0);
	backward();
	sgd();
	tick();
	for (int c = 1; c < CAT_MAX; c++)
		known += byte_ns((enum category)c);
	t0 = block(WT)->born_ts_ns;
	assert_int_equal(byte_ns(CAT_PARAMETER), 2 * SIZE * (m->now_ns - t0));
	assert_int_equal(byte_ns(CAT_GRADIENT), SIZE * (2 * m->now_ns - block(GW)->born_ts_ns - block(GB)->born_ts_ns));
	assert_int_equal(byte_ns(CAT_INPUT), SIZE * (m->now_ns - block(X)->born_ts_ns));
	/* what tick() made is an operator-less block: unknown */
	assert_int_equal(byte_ns(CAT_UNKNOWN), SIZE * stride);
	assert_int_equal(m->devs[0]->cats[CAT_PARAMETER].live, 2 * SIZE);
	assert_true(known > 0);
}

static void leaf_inputs_are_no_parameters(void **state)
{
	(void)state;
	make(X, "aten::randn");
	make(Y, "aten::mul", T(X, R), T(WT, R | WEIGHT));
	accumulate(X, 0, Y);
	assert_string_not_equal(cat(X), "PARAMETER");
}

static void adam_makes_state(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	step_begin();
	make(M1, "aten::zeros_like", T(WT, R));
	op(1, "aten::zero_", T(M1, W | R));
	op(0, "aten::lerp_", T(M1, W | R), T(GW, R));
	make(TMP, "aten::sqrt", T(M1, R));
	op(0, "aten::add_", T(TMP, W | R));
	op(0, "aten::addcdiv_", T(WT, W | R), T(M1, R), T(TMP, R));
	freed(TMP, 0);
	assert_string_equal(category_name(block(M1)->cat), "OPTIMIZER_STATE"); /* a good guess */
	step_end();
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	check_step();
}

/* State that is older than the trace, or made in a constructor: what an optimizer writes and keeps. */
static void state_is_what_an_optimizer_writes(void **state)
{
	(void)state;
	make(M2, "aten::full_like", T(WT, R));
	forward(WEIGHT);
	backward();
	step_begin();
	op(0, "aten::_fused_adam_", T(WT, W), T(GW, W), T(M1, W), T(M2, W));
	step_end();
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	assert_string_equal(cat(M2), "OPTIMIZER_STATE");
	assert_string_equal(cat(WT), "PARAMETER");
	assert_string_equal(cat(GW), "GRADIENT");
}

/* Attached between backward and step: the gradient looks like state, until it is freed. */
static void a_written_gradient_is_no_state(void **state)
{
	(void)state;
	step_begin();
	op(0, "aten::_fused_adam_", T(WT, W), T(GW, W), T(M1, W));
	step_end();
	assert_string_equal(cat(GW), "OPTIMIZER_STATE");
	freed(GW, 0);
	assert_string_equal(last_cat(GW), "GRADIENT");
	accumulate(WT, 0, GB);
	assert_string_equal(cat(WT), "PARAMETER");
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
}

static void gradients_are_accumulated(void **state)
{
	(void)state;
	apply(0, "MulBackward0", T(Y));
	op(2, "aten::mul", T(Y, R), T(X, R));
	born(TMP, 3);
	assert_string_equal(category_name(block(TMP)->cat), "AUTOGRAD_DETAIL");
	accumulate(WT, GW, TMP); /* GW is older than the trace */
	freed(TMP, 2);
	assert_string_equal(cat(GW), "GRADIENT");
	assert_int_equal(version(GW), 1);
	assert_string_equal(last_cat(TMP), "AUTOGRAD_DETAIL");
}

/* zero_grad(set_to_none=False): the same block goes on as the gradient. */
static void zeroed_gradients_stay_gradients(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	op(0, "aten::zero_", T(GW, W | R));
	assert_string_equal(cat(GW), "GRADIENT");
	assert_int_equal(version(GW), 1);
}

/* A gradient that is copied on the way into .grad (not contiguous, or sparse). */
static void a_cloned_gradient(void **state)
{
	(void)state;
	frame(MT_EV_NODE, "torch::autograd::AccumulateGrad", 0);
	frame(MT_EV_ACC, "torch::autograd::AccumulateGrad", 1);
	arg_of(1, WT, 0, 0, SIZE);
	arg_of(1, TMP, 2, 0, SIZE);
	op(2, "aten::new_empty_strided", T(TMP, R));
	born(GW, 3);
	op(2, "aten::copy_", T(GW, W | R), T(TMP, R));
	assert_string_equal(cat(GW), "GRADIENT");
	assert_string_not_equal(cat(TMP), "GRADIENT");
}

static void what_lives_in_one_node_is_temporary(void **state)
{
	(void)state;
	op(0, "aten::softmax", T(X, R));
	op(1, "aten::exp", T(X, R));
	born(TMP, 2);
	op(1, "aten::div", T(TMP, R));
	born(Y, 2);
	freed(TMP, 1);
	assert_string_equal(last_cat(TMP), "TEMPORARY");
	tick();
	assert_string_equal(last_cat(0xf000), "unknown");
}

/* Scratch of a kernel, a random generator's state: no operator was ever given it. */
static void blocks_no_op_touched_stay_unknown(void **state)
{
	(void)state;
	op(0, "aten::conv2d", T(X, R), T(WT, R | WEIGHT));
	born(TMP, 1);
	born(Y, 1);
	make(Z, "aten::relu", T(Y, R));
	freed(TMP, 0);
	assert_string_equal(last_cat(TMP), "unknown");
	assert_string_equal(cat(Y), "ACTIVATION");
}

/* Nothing of the graph is there before the first tensor of the job is told. */
static void first_tensor(void)
{
	op(0, "aten::relu", T(0xe000, R));
}

static void in_place_operators_make_versions(void **state)
{
	(void)state;
	first_tensor();
	forward(WEIGHT);
	op(0, "aten::relu_", T(OUT, W | R));
	op(1, "aten::clamp_min_", T(OUT, W | R)); /* inside: the same version */
	assert_int_equal(version(OUT), 1);
	op(0, "aten::relu_", T(OUT, W | R));
	assert_int_equal(version(OUT), 2);
	assert_string_equal(cat(OUT), "ACTIVATION");
	assert_int_equal(version(X), 0); /* written where it was made */
}

/* A tensor that passes through a backward node which runs no operator on it. */
static void pass_through_nodes_make_versions(void **state)
{
	(void)state;
	apply(0, "MulBackward0", T(Y));
	op(2, "aten::mul", T(Y, R));
	born(TMP, 3);
	apply(0, "AddBackward0", T(TMP));
	assert_int_equal(version(TMP), 1);
	assert_int_equal(version(Y), 0);
	assert_string_equal(cat(TMP), "AUTOGRAD_DETAIL");
}

/* What an input was made from is an input, also if it is gone by then. */
static void inputs_have_sources(void **state)
{
	(void)state;
	first_tensor();
	make(X, "aten::randn");
	make(Y, "aten::mul", T(X, R));
	make(Z, "aten::add", T(Y, R));
	freed(X, 0);
	op(0, "aten::linear", T(Z, R), T(WT, R | WEIGHT));
	born(OUT, 1);
	assert_string_equal(cat(Z), "INPUT");
	assert_string_equal(cat(Y), "INPUT");
	assert_string_equal(last_cat(X), "INPUT"); /* guessed; it stays so */
	step_begin();
	step_end();
	assert_int_equal(byte_ns(CAT_INPUT) >= 3 * SIZE * stride, 1);
	assert_string_equal(cat(Y), "INPUT");
}

/* What nothing that is trained ever uses is not called anything (torch.profiler's simple_fwd). */
static void unused_data_is_unknown(void **state)
{
	(void)state;
	first_tensor();
	make(X, "aten::randn");
	make(Y, "aten::mul", T(X, R));
	tick();
	step_begin();
	step_end();
	assert_string_equal(cat(X), "unknown");
	assert_string_equal(cat(Y), "unknown");
}

static void sparse_tensors_make_an_op_transparent(void **state)
{
	(void)state;
	op(0, "aten::add_", T(0, W | R | MT_FLOW_F_NO_STORAGE), T(WT, R));
	op(1, "aten::mul", T(X, R), T(WT, R | WEIGHT));
	born(Y, 2);
	op(1, "aten::exp", T(Y, R));
	freed(Y, 2);
	/* mul and exp are nodes of their own: not born and freed in one */
	assert_string_equal(last_cat(Y), "ACTIVATION");
	op(0, "aten::clamp", T(X, R), T(0, MT_FLOW_F_NO_STORAGE)); /* optional: as ever */
	op(1, "aten::min", T(X, R));
	born(Z, 2);
	op(1, "aten::max", T(Z, R));
	freed(Z, 1);
	assert_string_equal(last_cat(Z), "TEMPORARY");
}

static void wrapped_scalars(void **state)
{
	(void)state;
	born_of(Z, 0, 8);
	op(0, "aten::mul", T(WT, R | WEIGHT));
	arg_of(0, Z, 1, R, 8);
	born(Y, 1);
	assert_string_equal(cat(Z), "INPUT");
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_int_equal(block(Z)->size, 8);
}

static void frozen_weights_by_their_name(void **state)
{
	(void)state;
	make(WT, "aten::empty"); /* not preexisting: in two steps, or twice where there are none */
	forward(WEIGHT);
	assert_string_not_equal(cat(WT), "PARAMETER");
	assert_string_equal(cat(B), "PARAMETER");
	make(Y, "aten::linear", T(OUT, R), T(WT, R | WEIGHT));
	assert_string_equal(cat(WT), "PARAMETER");
}

/* Weights used in backward or in an optimizer say nothing. */
static void weights_of_backward_do_not_count(void **state)
{
	(void)state;
	apply(0, "ConvolutionBackward0", T(Y));
	op(2, "aten::convolution_backward", T(Y, R), T(OUT, R), T(M1, R | WEIGHT));
	step_begin();
	op(0, "aten::linear", T(Y, R), T(M2, R | WEIGHT));
	step_end();
	assert_string_not_equal(cat(M1), "PARAMETER");
	assert_string_not_equal(cat(M2), "PARAMETER");
}

static void python_functions_are_backward_nodes(void **state)
{
	(void)state;
	frame(MT_EV_NODE, "autograd node", 0);
	op(1, "aten::mul", T(Y, R));
	born(TMP, 2);
	op(1, "aten::exp", T(TMP, R));
	assert_string_equal(cat(TMP), "AUTOGRAD_DETAIL");
}

/* Buckets of DistributedDataParallel. */
static void what_backward_writes_and_an_optimizer_reads(void **state)
{
	(void)state;
	apply(0, "AddBackward0", T(Y));
	op(2, "aten::copy_", T(M1, W | R), T(Y, R));
	step_begin();
	op(0, "aten::add_", T(WT, W | R), T(M1, R));
	step_end();
	assert_string_equal(cat(M1), "GRADIENT");
}

static void met_blocks_are_live(void **state)
{
	struct report *r = NULL;

	(void)state;
	op(0, "aten::relu", T(X, R));
	assert_int_equal(tl[0].kind, TL_PREEXISTING);
	assert_int_equal(tl[0].size, SIZE);
	born(Y, 1);
	op(0, "aten::relu", T(Y + 8, R)); /* inside another block */
	freed(X, 0);
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->devs[0].preexisting_blocks, 1);
	assert_int_equal(r->devs[0].preexisting_bytes, SIZE);
	assert_int_equal(r->devs[0].peak, 2 * SIZE);
	assert_int_equal(r->devs[0].live, SIZE);
	assert_int_equal(r->devs[0].allocs, 1);
	assert_int_equal(r->devs[0].preexisting_frees, 0);
	report__free(r);
}

/* Batches in shared memory: no birth, no free; another size at the address is another one. */
static void a_met_block_is_replaced(void **state)
{
	uint64_t first;

	(void)state;
	op(0, "aten::relu", T(X, R));
	first = block(X)->id;
	op(0, "aten::relu");
	arg_of(0, X, 0, R, 2 * SIZE);
	assert_int_not_equal(block(X)->id, first);
	assert_int_equal(block(X)->size, 2 * SIZE);
	assert_int_equal(m->devs[0]->live, 2 * SIZE);
}

/* A label that comes late moves the share at the peak, too. */
static void the_peak_is_relabelled(void **state)
{
	const struct device *d;

	(void)state;
	forward(0);
	backward();
	freed(OUT, 0);
	freed(X, 0);
	sgd();
	tick();
	d = m->devs[0];
	assert_int_equal(d->peak, 8 * SIZE);
	assert_int_equal(device_cat__at_peak(&d->cats[CAT_PARAMETER], d->epoch), 2 * SIZE);
	assert_int_equal(device_cat__at_peak(&d->cats[CAT_ACTIVATION], d->epoch), 3 * SIZE);
	assert_int_equal(device_cat__at_peak(&d->cats[CAT_GRADIENT], d->epoch), 2 * SIZE);
	assert_int_equal(device_cat__at_peak(&d->cats[CAT_INPUT], d->epoch), SIZE);
	assert_int_equal(d->cats[CAT_ACTIVATION].live, 2 * SIZE);
}

static void memory_is_bounded(void **state)
{
	size_t after = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		forward(WEIGHT);
		make(M2, "aten::mul", T(M1, R)); /* a chain that nothing trained ever uses */
		freed(M1, 0);
		make(M1, "aten::clone", T(M2, R));
		freed(M2, 0);
		backward();
		sgd();
		forget();
		if (i == 100)
			after = graph__bytes(m->graph);
		tl_cnt = 0;
	}
	assert_int_equal(graph__bytes(m->graph), after);
	assert_int_equal(m->lost[MT_LOSS_BLOCKS], 0);
}

/* No optimizer, no step: windows that fill are given up. */
static void memory_is_bounded_without_steps(void **state)
{
	size_t after = 0;

	(void)state;
	make(M1, "aten::randn");
	for (int i = 0; i < 200000; i++) {
		make(M2, "aten::mul", T(M1, R));
		freed(M1, 0);
		make(M1, "aten::clone", T(M2, R));
		freed(M2, 0);
		if (i == 100000)
			after = graph__bytes(m->graph);
		tl_cnt = 0;
	}
	assert_in_range(graph__bytes(m->graph), 1, after);
}

static void processes_end(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	send((struct event){ .kind = EV_GONE });
	model__check(m);
	assert_int_equal(m->devs[0]->live, 0);
	assert_string_equal(last_cat(WT), "PARAMETER");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_step_of_sgd), TEST(parameters_found_late), TEST(parameters_from_the_start),
		TEST(labels_are_back_dated), TEST(leaf_inputs_are_no_parameters), TEST(adam_makes_state),
		TEST(state_is_what_an_optimizer_writes), TEST(a_written_gradient_is_no_state),
		TEST(gradients_are_accumulated), TEST(zeroed_gradients_stay_gradients), TEST(a_cloned_gradient),
		TEST(what_lives_in_one_node_is_temporary), TEST(blocks_no_op_touched_stay_unknown),
		TEST(in_place_operators_make_versions), TEST(pass_through_nodes_make_versions),
		TEST(inputs_have_sources), TEST(unused_data_is_unknown), TEST(sparse_tensors_make_an_op_transparent),
		TEST(wrapped_scalars), TEST(frozen_weights_by_their_name), TEST(weights_of_backward_do_not_count),
		TEST(python_functions_are_backward_nodes), TEST(what_backward_writes_and_an_optimizer_reads),
		TEST(met_blocks_are_live), TEST(a_met_block_is_replaced), TEST(the_peak_is_relabelled),
		TEST(memory_is_bounded), TEST(memory_is_bounded_without_steps), TEST(processes_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
