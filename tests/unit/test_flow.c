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
	allocated(OUT, 2);
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
	allocated(GW, 3);
	op(2, "aten::sum.dim_IntList", T(SEED, R));
	allocated(GB, 3);
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

/* Attached in mid-run: parameters are seen late as arguments. */
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

/* Allocated in sight of the trace: a parameter once an optimizer writes it. */
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
	t0 = block(WT)->allocated_ts_ns;
	assert_int_equal(byte_ns(CAT_PARAMETER), 2 * SIZE * (m->now_ns - t0));
	assert_int_equal(byte_ns(CAT_GRADIENT),
			 SIZE * (2 * m->now_ns - block(GW)->allocated_ts_ns - block(GB)->allocated_ts_ns));
	assert_int_equal(byte_ns(CAT_INPUT), SIZE * (m->now_ns - block(X)->allocated_ts_ns));
	/* what tick() made is an operator-less block: unknown */
	assert_int_equal(byte_ns(CAT_UNKNOWN), SIZE * stride);
	assert_int_equal(m->devs[0]->cats[CAT_PARAMETER].live, 2 * SIZE);
	assert_true(known > 0);
}

/* No optimizer and no end of a step: the trace's end is one. */
static void the_end_is_the_end_of_a_step(void **state)
{
	(void)state;
	forward(0);
	backward();
	assert_string_not_equal(cat(OUT), "ACTIVATION");
	send((struct event){ .kind = EV_END });
	model__check(m);
	assert_string_equal(cat(X), "INPUT");
	assert_string_equal(cat(WT), "PARAMETER");
	assert_string_equal(cat(OUT), "ACTIVATION");
}

/* What comes before the first tensor, and before the first operator, belongs to the graph, too. */
static void begins_before_the_first_tensor(void **state)
{
	(void)state;
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "flow"), .addr = 3, .size = 3 });
	assert_null(m->graph);
	allocated(Y, 0);
	frame(MT_EV_OP, "aten::ones", 0);
	allocated(X, 1);
	op(1, "aten::fill_", T(X, W | R), T(Y, R));
	assert_int_equal(version(X), 0);
	assert_true(block(Y)->tracked && block(X)->tracked);
}

static void no_graph_without_flow(void **state)
{
	(void)state;
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "ops"), .addr = 3, .size = 3 });
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "flow"), .addr = 3, .size = 0 });
	allocated(Y, 0);
	frame(MT_EV_OP, "aten::ones", 0);
	allocated(X, 1);
	send((struct event){ .kind = EV_END });
	assert_null(m->graph);
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

static void adagrad(void)
{
	step_begin();
	op(0, "aten::addcmul_", T(M1, W | R), T(GW, R), T(GW, R));
	make(TMP, "aten::sqrt", T(M1, R));
	allocated_of(Z, 0, 8);
	op(0, "aten::add_", T(TMP, W | R));
	arg_of(0, Z, 1, R, 8);
	op(0, "aten::addcdiv_", T(WT, W | R), T(GW, R), T(TMP, R));
	freed(TMP, 0);
	freed(Z, 0);
	step_end();
}

/* While probes are being set a gradient looks like an input, and state like an activation; not for ever. */
static void state_is_no_activation_for_ever(void **state)
{
	(void)state;
	forward(WEIGHT);
	for (int i = 0; i < 2; i++) {
		step_begin();
		op(0, "aten::addcmul_", T(M1, W | R), T(GW, R), T(GW, R));
		step_end();
	}
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	accumulate(WT, 0, GW);
	for (int i = 0; i < 3; i++)
		adagrad();
	accumulate(Y, 0, M2); /* a new parameter: the window is labelled again */
	adagrad();
	adagrad();
	assert_string_equal(last_cat(TMP), "PARAMETER"); /* torch.profiler's word for it */
}

/* An optimizer a parameter, called when its gradient is there: by a hook inside of AccumulateGrad, or after it. */
static void hook_steps(uint64_t variable, uint64_t grad, uint64_t state, unsigned depth)
{
	const uint8_t kinds[] = { MT_EV_REGION_BEGIN, MT_EV_REGION_END };

	accumulate(variable, 0, grad);
	for (int i = 0; i < 2; i++) {
		ts += stride;
		send((struct event){ .kind = kinds[i], .name = names__add(names, "Optimizer.step#Adam.step"),
				     .depth = (uint8_t)depth });
		if (i)
			break;
		op(depth, "aten::lerp_", T(state, W | R), T(grad, R));
		op(depth, "aten::sqrt", T(state, R));
		allocated(TMP, depth + 1);
		op(depth, "aten::addcdiv_", T(variable, W | R), T(state, R), T(TMP, R));
		freed(TMP, depth);
	}
}

static void an_optimizer_in_backward(void **state)
{
	(void)state;
	for (unsigned depth = 1; depth <= 2; depth++) {
		for (int i = 0; i < 2; i++) {
			forward(WEIGHT);
			allocated(GB, 0);
			hook_steps(B, GB, M2, depth);
			allocated(GW, 0);
			hook_steps(WT, GW, M1, depth);
			forget();
		}
		assert_string_equal(cat(M1), "OPTIMIZER_STATE");
		assert_string_equal(cat(M2), "OPTIMIZER_STATE");
		assert_string_equal(cat(WT), "PARAMETER");
		assert_string_equal(cat(B), "PARAMETER");
		assert_string_equal(last_cat(GW), "GRADIENT");
		assert_string_equal(last_cat(OUT), "ACTIVATION");
		/* as many as backward passes that began after another one */
		assert_int_equal(m->graph->procs[0]->steps, 2 * depth - 1);
	}
}

/* Copied and given back by every step (kept on another device in between): used for one step, and still no gradient. */
static void state_of_one_step(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	for (int i = 0; i < 3; i++) {
		allocated(M1, 0);
		op(0, "aten::copy_", T(M1, W | R), T(WT, R));
		allocated_of(Z, 0, 8);
		step_begin();
		op(0, "aten::add_", T(M1, W | R));
		arg_of(0, Z, 1, R, 8);
		op(0, "aten::addcdiv_", T(WT, W | R), T(M1, R), T(GW, R));
		step_end();
		freed(Z, 0);
		freed(M1, 0);
		assert_string_equal(last_cat(M1), "OPTIMIZER_STATE");
	}
}

/* Nothing is trained: what is filled with results is no parameter. */
static void a_cache_at_inference(void **state)
{
	(void)state;
	make(M1, "aten::zeros");
	for (int i = 0; i < 3; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::linear", T(X, R), T(WT, R | WEIGHT), T(B, WEIGHT));
		op(0, "aten::copy_", T(M1, W | R), T(OUT, R));
		make(Y, "aten::scaled_dot_product_attention", T(OUT, R), T(M1, R), T(M1, R));
		make(Z, "aten::relu", T(Y, R));
		assert_string_equal(cat(M1), "ACTIVATION");
		assert_string_equal(cat(Y), "ACTIVATION");
		assert_string_equal(cat(WT), "PARAMETER");
		freed(X, 0);
		freed(OUT, 0);
		freed(Y, 0);
		freed(Z, 0);
	}
	assert_int_equal(byte_ns(CAT_INPUT) > SIZE * stride, 1); /* the cache until it was filled, too */
}

/* Without an optimizer a step is over at the next backward pass, not when one takes its time. */
static void a_slow_backward_is_one_step(void **state)
{
	(void)state;
	forward(0);
	stride = 3000000;
	backward();
	freed(OUT, 0);
	freed(LOSS, 0);
	for (uint64_t i = 1; i < 6; i++) {
		allocated(GW + i * 0x100000, 0);
		accumulate(WT + i * 0x100000, 0, GW + i * 0x100000);
	}
	assert_int_equal(m->graph->procs[0]->steps, 0);
	send((struct event){ .kind = EV_END });
	assert_string_equal(cat(X), "INPUT");
	assert_string_equal(cat(WT), "PARAMETER");
	assert_int_equal(byte_ns(CAT_ACTIVATION) > SIZE * stride, 1); /* OUT's, known when it was gone */
}

/* And at the next pass however fast it comes: a variable gets its gradient again. */
static void a_fast_pass_is_a_step(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		forward(0);
		tl_cnt = 0;
		backward();
		for (size_t k = 0; k < tl_cnt; k++) /* what is guessed of this pass's blocks is not over with the step before */
			assert_false(tl[k].kind == TL_LABEL && tl[k].ptr == GW && tl[k].cat == CAT_UNKNOWN);
		freed(OUT, 0);
		freed(LOSS, 0);
		assert_int_equal(m->graph->procs[0]->steps, i);
	}
}

/* What one pass comes to twice, with its own nodes alone between, is of one step; nor do other threads' operators end it. */
static void a_variable_twice_in_a_pass(void **state)
{
	(void)state;
	forward(0);
	backward();
	accumulate(WT, GW, GB);
	tid = 7;
	make(Y, "aten::pin_memory", T(X, R));
	tid = PID;
	stride = 3000000;
	accumulate(M1, 0, GB);
	assert_int_equal(m->graph->procs[0]->steps, 0);
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
	allocated(TMP, 3);
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
	allocated(GW, 3);
	op(2, "aten::copy_", T(GW, W | R), T(TMP, R));
	assert_string_equal(cat(GW), "GRADIENT");
	assert_string_not_equal(cat(TMP), "GRADIENT");
}

static void accumulates(void)
{
	frame(MT_EV_NODE, "torch::autograd::AccumulateGrad", 0);
	frame(MT_EV_ACC, "torch::autograd::AccumulateGrad", 1);
	arg_of(1, WT, 0, 0, SIZE);
}

/* Taken as it is: indices, which are the batch, and values. The operators that used the batch are judged as before. */
static void a_sparse_gradient(void **state)
{
	(void)state;
	allocated(X, 0);
	make(Y, "aten::embedding", T(WT, R | WEIGHT), T(X, R));
	op(0, "aten::sum", T(Y, R));
	frame(MT_EV_NODE, "EmbeddingBackward0", 0);
	allocated(TMP, 1);
	op(1, "aten::mul", T(TMP, W | R));
	accumulates();
	op(2, "aten::_sparse_coo_tensor_unsafe", T(X, R), T(TMP, R));
	assert_string_equal(cat(X), "GRADIENT");
	assert_string_equal(cat(TMP), "GRADIENT");
	tick();
	step_begin();
	step_end();
	assert_string_equal(cat(X), "GRADIENT");
	assert_string_equal(cat(TMP), "GRADIENT");
	assert_string_equal(cat(Y), "ACTIVATION");
}

/* What a job keeps and reads in each step stays that, though a gradient has it as indices. */
static void a_sparse_gradient_of_what_lasts(void **state)
{
	(void)state;
	allocated(X, 0);
	for (int i = 0; i < 3; i++) {
		make(Y, "aten::embedding", T(WT, R | WEIGHT), T(X, R));
		freed(Y, 0);
		step_begin();
		step_end();
	}
	accumulates();
	op(2, "aten::_sparse_coo_tensor_unsafe", T(X, R), T(TMP, R));
	assert_string_equal(cat(X), "INPUT");
	assert_string_equal(cat(TMP), "GRADIENT");
}

/* Added up: both are made anew in the first operator, which is given nothing with memory. */
static void sparse_gradients_added_up(void **state)
{
	(void)state;
	accumulates();
	frame(MT_EV_OP, "aten::add_", 2);
	for (unsigned i = 0; i < 2; i++)
		send((struct event){ .kind = EV_ARG, .seq = seqs[2], .depth = 3, .flags = MT_CLASS_SPARSE,
				     .aux = i | (R | MT_FLOW_F_NO_STORAGE) << 8 });
	allocated(TMP, 3);
	op(3, "aten::cat", T(GW, R), T(TMP, R));
	allocated(Y, 3);
	op(3, "aten::cat", T(GW, R), T(Y, R));
	frame(MT_EV_NODE, "other", 0);
	assert_string_equal(cat(TMP), "GRADIENT");
	assert_string_equal(cat(Y), "GRADIENT");
}

static void what_lives_in_one_node_is_temporary(void **state)
{
	(void)state;
	op(0, "aten::softmax", T(X, R));
	op(1, "aten::exp", T(X, R));
	allocated(TMP, 2);
	op(1, "aten::div", T(TMP, R));
	allocated(Y, 2);
	freed(TMP, 1);
	assert_string_equal(last_cat(TMP), "TEMPORARY");
	tick();
	assert_string_equal(last_cat(0xf000), "unknown");
}

/* torch.profiler has no word for it; plain words have, at the peak. */
static void scratch_has_a_plain_word(void **state)
{
	struct report *r;

	(void)state;
	op(0, "aten::conv2d", T(X, R));
	allocated(TMP, 1);
	allocated(Y, 1);
	freed(TMP, 1);
	op(0, "aten::relu", T(Y, R));
	tick();
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->devs[0].cats[CAT_WORKSPACE].plain, SIZE);
	assert_int_equal(r->devs[0].cats[CAT_UNKNOWN].plain, -(int64_t)SIZE);
	report__free(r);
	model__check(m);
}

/* Scratch of a kernel, a random generator's state: no operator was ever given it. */
static void blocks_no_op_touched_stay_unknown(void **state)
{
	(void)state;
	op(0, "aten::conv2d", T(X, R), T(WT, R | WEIGHT));
	allocated(TMP, 1);
	allocated(Y, 1);
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
	allocated(TMP, 3);
	apply(0, "AddBackward0", T(TMP));
	assert_int_equal(version(TMP), 1);
	assert_int_equal(version(Y), 0);
	assert_string_equal(cat(TMP), "AUTOGRAD_DETAIL");
}

/* … and one that only makes a view of it, which has no probe by default. */
static void view_nodes_make_none(void **state)
{
	static const char *const nodes[] = { "TBackward0", "TransposeBackward1", "SumBackward0", "CatBackward0" };

	(void)state;
	apply(0, "MulBackward0", T(Y));
	op(2, "aten::mul", T(Y, R));
	allocated(TMP, 3);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		apply(0, nodes[i], T(TMP));
	apply(0, "MulBackward0", T(Y));
	op(2, "aten::mul", T(Y, R));
	assert_int_equal(version(TMP), 0);
	apply(0, "TanhBackward0", T(TMP));
	apply(0, "MulBackward0", T(Y));
	assert_int_equal(version(TMP), 1);
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
	allocated(OUT, 1);
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
	allocated(Y, 2);
	op(1, "aten::exp", T(Y, R));
	freed(Y, 2);
	/* mul and exp are nodes of their own: not allocated and freed in one */
	assert_string_equal(last_cat(Y), "ACTIVATION");
	op(0, "aten::clamp", T(X, R), T(0, MT_FLOW_F_NO_STORAGE)); /* optional: as ever */
	op(1, "aten::min", T(X, R));
	allocated(Z, 2);
	op(1, "aten::max", T(Z, R));
	freed(Z, 1);
	assert_string_equal(last_cat(Z), "TEMPORARY");
}

static void wrapped_scalars(void **state)
{
	(void)state;
	allocated_of(Z, 0, 8);
	op(0, "aten::mul", T(WT, R | WEIGHT));
	arg_of(0, Z, 1, R, 8);
	allocated(Y, 1);
	assert_string_equal(cat(Z), "INPUT");
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_int_equal(block(Z)->size, 8);
}

/* M2 = 0.99 M2 + 0.01 WT, as averages of weights are kept. */
static void average(void)
{
	allocated_of(Z, 0, 8);
	op(0, "aten::mul", T(M2, R));
	arg_of(0, Z, 1, R, 8);
	allocated(TMP, 1);
	allocated_of(Z + SIZE, 0, 8);
	op(0, "aten::mul", T(WT, R));
	arg_of(0, Z + SIZE, 1, R, 8);
	allocated(M1, 1);
	make(Y, "aten::add", T(TMP, R), T(M1, R));
	op(0, "aten::copy_", T(M2, W | R), T(Y, R));
	freed(Z, 0);
	freed(Z + SIZE, 0);
	freed(TMP, 0);
	freed(M1, 0);
	freed(Y, 0);
}

/*
 * Attached amid an optimizer's step: the weight, which it is seen to write, looks like state until the next backward pass. What
 * the average was before it was written depends on nothing, also when the step is told again, and so it is no parameter.
 */
static void an_average_late_amid_a_step(void **state)
{
	(void)state;
	step_begin();
	op(0, "aten::_fused_adam_", T(WT, W), T(GW, W));
	step_end();
	average();
	for (int i = 0; i < 3; i++) {
		forward(0);
		backward();
		sgd();
		average();
		assert_string_equal(cat(WT), "PARAMETER");
		assert_string_equal(cat(M2), "ACTIVATION"); /* torch.profiler's word for it */
		forget();
	}
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
	/* one without a name, and those that Python named, whatever it is */
	static const char *const nodes[] = { "autograd node", "SwishBackward", "torch::autograd::AccumulateGrad" };

	for (int i = 0; i < 3; i++) {
		frame_of(MT_EV_NODE, nodes[i], 0, i ? MT_NODE_PYTHON : 0);
		op(1, "aten::mul", T(Y, R));
		allocated(TMP, 2);
		op(1, "aten::exp", T(TMP, R));
		assert_string_equal(cat(TMP), "AUTOGRAD_DETAIL");
		freed(TMP, 1);
	}
}

/* Buckets of DistributedDataParallel. */
static void level(uint8_t state)
{
	ts += stride;
	send((struct event){ .kind = EV_LEVEL, .flags = state, .depth = MT_LEVEL_FULL, .aux = PID, .size = 3 });
}

/* Probes come during a backward pass: what it made is read by the optimizer, to write what is as large. */
static void gradients_of_a_backward_that_nobody_saw(void **state)
{
	(void)state;
	op(0, "aten::mul", T(0x9000));
	level(EV_LEVEL_GAP);
	allocated(0x1000, 0); /* two gradients, an activation, and a scale that is not as large */
	allocated(0x2000, 0);
	allocated(0x3000, 0);
	allocated_of(0x4000, 0, 4);
	level(EV_LEVEL_ARMED);
	step_begin();
	op(0, "aten::add", T(0x3000));
	op(0, "aten::lerp_", T(0x5000, W), T(0x1000));
	op(0, "aten::add_", T(0x6000, W), T(0x2000));
	frame(MT_EV_OP, "aten::mul_", 0);
	arg_of(0, 0x6000, 0, W, SIZE);
	arg_of(0, 0x4000, 1, 0, 4);
	op(0, "aten::mul_", T(0x6000, W), T(0x9000));
	step_end();
	assert_string_equal(cat(0x1000), "GRADIENT");
	assert_string_equal(cat(0x2000), "GRADIENT");
	assert_string_not_equal(cat(0x3000), "GRADIENT");
	assert_string_not_equal(cat(0x4000), "GRADIENT");
	assert_string_not_equal(cat(0x9000), "GRADIENT"); /* it was there before */
}

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

static void late_blocks_are_live(void **state)
{
	struct report *r = NULL;

	(void)state;
	op(0, "aten::relu", T(X, R));
	assert_int_equal(tl[0].kind, TL_PREEXISTING);
	assert_int_equal(tl[0].size, SIZE);
	allocated(Y, 1);
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

/* Batches in shared memory: no allocation, no free; another size at the address is another one. */
static void a_late_block_is_replaced(void **state)
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

/* NumPy's memory: no allocation, no free. Where an allocator gives a block out nothing else lives, and nothing was lost. */
static void late_blocks_end_under_an_allocation(void **state)
{
	(void)state;
	for (uint64_t x = 0x20000; x < 0x20000 + 5 * SIZE; x += SIZE)
		op(0, "aten::relu", T(x, R));
	allocated_of(0x20000 + SIZE + 8, 1, 2 * SIZE); /* the end of one, another, the beginning of a third */
	assert_non_null(block(0x20000));
	assert_null(block(0x20000 + SIZE));
	assert_null(block(0x20000 + 2 * SIZE));
	assert_null(block(0x20000 + 3 * SIZE));
	assert_non_null(block(0x20000 + 4 * SIZE));
	assert_int_equal(m->devs[0]->live, 4 * SIZE);
	allocated(0x20000, 1);
	assert_int_equal(m->devs[0]->live, 4 * SIZE);
	freed(0x20000 + SIZE + 8, 1);
	op(0, "aten::relu", T(0x20000 + SIZE + 16, R)); /* in none of them any more */
	assert_non_null(block(0x20000 + SIZE + 16));
	allocated_of(UINT64_MAX - 8, 1, 64);
	assert_int_equal(m->lost[MT_LOSS_REUSE], 0);
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

/* --- several threads -------------------------------------------------------------------------------------- */

/* Nodes of two threads on the same blocks, open at the same time: an edge a block and node, exact sums. */
static void threads_overlap(void **state)
{
	struct report *r = NULL;
	uint32_t a0;

	(void)state;
	op(0, "aten::mul", T(X, R), T(Y, R)); /* thread A, stays open */
	a0 = seq;
	tid = PID + 1;
	op(0, "aten::add", T(X, R), T(Z, R)); /* thread B marks the same blocks */
	allocated(OUT, 1);
	tick(); /* B's is over */
	tid = PID;
	seqs[0] = a0;
	op(1, "aten::mul", T(X, R), T(Y, R)); /* inside A's, which knows them */
	allocated(M1, 2);
	model__check(m);
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->flow.nodes, 1);
	assert_int_equal(r->flow.edges, 3);
	report__free(r);
	r = NULL;
	tick();
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->flow.nodes, 2);
	assert_int_equal(r->flow.edges, 3 + 3); /* X, Y, M1: each once */
	assert_int_equal(r->flow.input_stale, 0);
	report__free(r);
}

/* Both write X: two versions, where torch.profiler's own check would have failed. */
static void threads_write_the_same(void **state)
{
	struct report *r = NULL;

	(void)state;
	op(0, "aten::mul_", T(X, W | R));
	tid = PID + 1;
	op(0, "aten::add_", T(X, W | R), T(Y, R));
	tick();
	tid = PID;
	assert_int_equal(version(X), 2);
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->has_flow, 1);
	assert_int_equal(r->flow.versions, 2);
	assert_int_equal(r->flow.output_twice, 1);
	report__free(r);
}

static void a_thread_reads_what_another_one_writes(void **state)
{
	struct report *r = NULL;

	(void)state;
	op(0, "aten::mul", T(X, R));
	allocated(Y, 1);
	tid = PID + 1;
	op(0, "aten::add_", T(X, W | R));
	tick();
	tid = PID;
	tick();
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->flow.input_stale, 1);
	assert_int_equal(r->flow.output_twice, 0);
	assert_int_equal(r->flow.versions, 1);
	report__free(r);
}

/* A step ends while another thread is in the middle of a node: what it makes is not forgotten. */
static void a_step_ends_in_anothers_node(void **state)
{
	(void)state;
	forward(WEIGHT);
	tid = PID + 1;
	apply(0, "MulBackward0", T(OUT));
	op(2, "aten::mul", T(OUT, R));
	allocated(M1, 3);
	op(2, "aten::add_", T(M1, W | R));
	tid = PID;
	step_begin();
	step_end();
	assert_string_equal(category_name(block(M1)->cat), "AUTOGRAD_DETAIL");
	step_begin();
	step_end();
	tid = PID + 1;
	assert_string_equal(cat(M1), "AUTOGRAD_DETAIL");
}

/* A thread that was silent for long closes a node that began before all of the window: a replay for late
 * parameters must not take the labels of what left the window meanwhile. */
static void an_old_node_is_closed_late(void **state)
{
	(void)state;
	tid = PID + 1;
	op(0, "aten::relu", T(Y, R));
	allocated(Z, 1);
	tid = PID;
	for (int i = 0; i < 3; i++) {
		if (i == 1) {
			apply(0, "MulBackward0", T(OUT));
			op(2, "aten::mul", T(OUT, R));
			allocated(TMP, 3);
			op(2, "aten::add_", T(TMP, W | R));
		}
		forward(WEIGHT);
		backward();
		sgd();
		forget();
	}
	assert_string_equal(cat(TMP), "AUTOGRAD_DETAIL");
	tid = PID + 1;
	tick(); /* the old node is over; it has the window's first place two steps later */
	tid = PID;
	step_begin();
	step_end();
	op(0, "aten::mul", T(TMP, R), T(WT, R));
	accumulate(M2, 0, M1); /* a new parameter */
	step_begin();
	step_end();
	assert_string_equal(cat(TMP), "AUTOGRAD_DETAIL");
}

/* Replicas of one model: forward passes of two threads, event by event in turn, then backward passes. */
static void replicas_in_two_threads(void **state)
{
	enum { FAR = 0x100000 };
	struct report *r = NULL;
	uint32_t frames[2][2];

	(void)state;
	for (int i = 0; i < 20; i++) {
		for (unsigned k = 0; k < 2; k++) {
			tid = PID + k;
			op(0, "aten::randn");
			allocated(X + k * FAR, 1);
			op(0, "aten::linear", T(X + k * FAR, R), T(WT, R | WEIGHT));
			frames[k][0] = seqs[0];
		}
		for (unsigned k = 0; k < 2; k++) {
			tid = PID + k;
			seqs[0] = frames[k][0];
			op(1, "aten::addmm", T(X + k * FAR, R), T(WT, R));
			allocated(OUT + k * FAR, 2);
		}
		for (unsigned k = 0; k < 2; k++) {
			tid = PID + k;
			apply(0, "AddmmBackward0", T(OUT + k * FAR));
			frames[k][0] = seqs[0];
			frames[k][1] = seqs[1];
		}
		for (unsigned k = 0; k < 2; k++) {
			tid = PID + k;
			seqs[0] = frames[k][0];
			seqs[1] = frames[k][1];
			op(2, "aten::mm", T(OUT + k * FAR, R), T(X + k * FAR, R));
			allocated(GW + k * FAR, 3);
		}
		for (unsigned k = 0; k < 2; k++) {
			tid = PID + k;
			accumulate(WT, k ? GW : 0, GW + k * FAR);
			tick();
		}
		tid = PID;
		freed(GW + FAR, 0);
		op(0, "aten::zero_", T(GW, W | R));
		assert_string_equal(cat(X + FAR), "INPUT");
		assert_string_equal(cat(OUT), "ACTIVATION");
		assert_string_equal(cat(OUT + FAR), "ACTIVATION");
		assert_string_equal(cat(GW), "GRADIENT");
		assert_string_equal(cat(WT), "PARAMETER");
		assert_string_equal(last_cat(GW + FAR), "AUTOGRAD_DETAIL");
		step_begin();
		op(0, "aten::add_.Tensor", T(WT, W | R), T(GW, R));
		step_end();
		for (unsigned k = 0; k < 2; k++) {
			freed(X + k * FAR, 0);
			freed(OUT + k * FAR, 0);
		}
		freed(GW, 0);
		model__check(m);
	}
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->flow.output_twice, 0);
	assert_int_equal(r->devs[0].live, SIZE);
	report__free(r);
}

/* Threads whose end nobody tells, one after the other. */
static void threads_come_and_go(void **state)
{
	(void)state;
	forward(WEIGHT);
	for (uint32_t i = 0; i < 5000; i++) {
		tid = 1000 + i;
		tl_cnt = 0;
		make(Y, "aten::linear", T(X, R), T(WT, R | WEIGHT));
		op(0, "aten::relu_", T(Y, W | R));
		freed(Y, 0);
		if (i == 0) { /* busy for all the time: it stays */
			op(0, "aten::mul", T(X, R), T(WT, R));
			allocated(Z, 1);
		}
	}
	assert_int_equal(m->lost[MT_LOSS_THREADS], 0);
	assert_string_equal(last_cat(Y), "ACTIVATION");
	tid = 1000;
	assert_string_equal(cat(Z), "ACTIVATION");
	tl_cnt = 0;
}

/* Past the most that are kept the one that was silent for the longest time goes, and what it had open is over. */
static void a_thread_gives_its_place_up(void **state)
{
	(void)state;
	forward(WEIGHT);
	tid = 1000;
	op(0, "aten::mul", T(X, R), T(WT, R));
	allocated(Z, 1);
	assert_int_equal(m->graph->procs[0]->open_nodes, 2);
	for (uint32_t i = 0; i < THREADS_MAX + 100; i++) {
		tid = 2000 + i;
		tl_cnt = 0;
		make(Y, "aten::relu", T(X, R), T(WT, R));
		freed(Y, 0);
	}
	assert_int_equal(m->graph->procs[0]->open_nodes, 0);
	assert_int_equal(m->graph->threads_cnt, THREADS_MAX);
	assert_int_equal(m->lost[MT_LOSS_THREADS], 2);
	assert_string_equal(cat(Z), "ACTIVATION");
	tl_cnt = 0;
}

/* --- storages that move ------------------------------------------------------------------------------------- */

static uint64_t moved(void)
{
	struct report *r = NULL;
	uint64_t v;

	assert_int_equal(model__report(m, 10, &r), 0);
	v = r->flow.moved;
	report__free(r);
	return v;
}

/* p.data = x */
static void a_tensor_gets_anothers_storage(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	sgd();
	make(M1, "aten::clone", T(WT, R));
	op(0, "aten::_has_compatible_shallow_copy_type", T(WT, R), T(M1, R));
	assert_string_equal(cat(M1), "PARAMETER");
	assert_string_equal(cat(WT), "PARAMETER");
	assert_int_equal(moved(), 1);
	make(M2, "aten::clone", T(GW, R));
	op(0, "aten::set_.source_Tensor", T(GW, W | R), T(M2, R));
	assert_string_equal(cat(M2), "GRADIENT");
	op(0, "aten::_has_compatible_shallow_copy_type", T(X, R), T(X, R)); /* nothing moves */
	assert_false(m->graph->procs[0]->news); /* each step of some jobs does that: no reason to label all again */
	assert_int_equal(moved(), 2);
}

/* resize_: a new block, then the old one goes; or the other way round. */
static void a_tensor_is_resized(void **state)
{
	(void)state;
	forward(WEIGHT);
	backward();
	op(0, "aten::resize_", T(WT, W | R));
	allocated(M1, 1);
	freed(WT, 1);
	assert_string_equal(cat(M1), "PARAMETER");
	assert_int_equal(moved(), 1);
	op(0, "aten::resize_", T(GW, W | R));
	freed(GW, 1);
	allocated(M2, 1);
	assert_string_equal(cat(M2), "GRADIENT");
	assert_int_equal(moved(), 2);
	op(0, "aten::add_", T(M1, W | R)); /* what it makes and leaves alone is its own */
	allocated(TMP, 1);
	tick();
	assert_string_not_equal(cat(TMP), "PARAMETER");
	assert_int_equal(moved(), 2);
}

static uint64_t unmapped(void)
{
	struct report *r = NULL;
	uint64_t v;

	assert_int_equal(model__report(m, 10, &r), 0);
	v = r->flow.unmapped;
	report__free(r);
	return v;
}

static void unmap(uint64_t addr, uint64_t size, uint8_t flags)
{
	ts += stride;
	send((struct event){ .kind = MT_EV_MUNMAP, .addr = addr, .size = size, .flags = flags });
}

/* Batches that a worker put into shared memory: no free, but their mapping goes. */
static void late_blocks_end_with_their_mapping(void **state)
{
	(void)state;
	forward(WEIGHT);
	op(0, "aten::linear", T(0x20040, R), T(WT, R | WEIGHT));
	assert_string_equal(cat(0x20040), "INPUT");
	unmap(0x1f000, 0x1040, 0);	    /* ends where it begins */
	unmap(0x20041, 0x1000, 0);	    /* begins inside it */
	unmap(0x20000, 0x40 + SIZE - 1, 0); /* not all of it */
	unmap(0x20000, 0x1000, MT_MAP_REMAP); /* it grows, or moves with what is in it */
	unmap(UINT64_MAX - 10, 0x40000, 0);
	assert_non_null(block(0x20040));
	unmap(0x20000, 0x1000, 0);
	assert_null(block(0x20040));
	assert_string_equal(last_cat(0x20040), "INPUT");
	assert_int_equal(unmapped(), 1);
	unmap(0, UINT64_MAX, 0); /* late ones only; blocks that were allocated have a free of their own */
	model__check(m);
	assert_int_equal(unmapped(), 3); /* WT, B */
	assert_non_null(block(OUT));
	assert_int_equal(m->devs[0]->frees, 3 + 1); /* tick's */
}

/* Cheap with thousands of them, and bounded. */
static void many_late_blocks(void **state)
{
	enum { CNT = LATESET_MAX + 100 };

	(void)state;
	for (uint32_t i = 0; i < CNT; i++)
		op(0, "aten::relu", T(0x1000000 + (uint64_t)(i * 40503u % 65537u + (i > 65536 ? 65537 + i : 0)) * 0x1000, R));
	assert_in_range(m->lost[MT_LOSS_BLOCKS], 1, 200);
	for (uint32_t i = 0; i < 1000000; i++)
		unmap(0x1000000 + (uint64_t)i * 0x1000 + 0x800, 0x100, 0);
	assert_int_equal(unmapped(), 0);
	for (uint32_t i = 0; i < 1000; i++)
		unmap(0x1000000 + (uint64_t)i * 0x1000, 0x1000, 0);
	assert_int_equal(unmapped(), 1000);
	tl_cnt = 0;
}

/* --- devices, classes, losses --------------------------------------------------------------------------------- */

static void late_blocks_have_a_device(void **state)
{
	(void)state;
	op(0, "aten::relu");
	send((struct event){ .kind = EV_ARG, .addr = X, .size = SIZE, .seq = seqs[0], .depth = 1, .aux = R << 8,
			     .dev = MT_DEV_CUDA0 + 1, .flags = MT_CLASS_PLAIN });
	send((struct event){ .kind = EV_ARG, .addr = Y, .size = SIZE, .seq = seqs[0], .depth = 1, .aux = 1 | R << 8,
			     .dev = MT_DEV_CPU, .flags = MT_CLASS_PLAIN });
	send((struct event){ .kind = EV_ARG, .addr = Z, .size = SIZE, .seq = seqs[0], .depth = 1, .aux = 2 | R << 8 });
	send((struct event){ .kind = EV_ARG, .addr = M1, .size = SIZE, .seq = seqs[0], .depth = 1, .aux = 3 | R << 8,
			     .dev = MT_DEV_HOST }); /* the wire says it, no tensor is there */
	assert_non_null(blocks__find(m->blocks, PID, MT_DEV_CUDA0 + 1, X));
	assert_non_null(block(Y));
	assert_non_null(block(Z)); /* recordings of old do not say it */
	assert_int_equal(m->devs_cnt, 2);
	model__check(m);
}

static void tensors_without_storage_are_counted(void **state)
{
	struct report *r = NULL;

	(void)state;
	op(0, "aten::add", T(X, R));
	for (int i = 0; i < 3; i++)
		send((struct event){ .kind = EV_ARG, .seq = seqs[0], .depth = 1, .aux = 1 | MT_FLOW_F_NO_STORAGE << 8,
				     .flags = MT_CLASS_SPARSE });
	send((struct event){ .kind = EV_ARG, .seq = seqs[0], .depth = 1, .aux = 1, .flags = 250 });
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->flow.by_class[MT_CLASS_SPARSE], 3);
	assert_int_equal(r->flow.by_class[MT_CLASS_UNKNOWN], 1);
	assert_int_equal(r->flow.by_class[MT_CLASS_PLAIN], 0);
	report__free(r);
}

/* --- nodes and final labels ------------------------------------------------------------------------------------ */

/* As torch's own tests print them: "aten::mul  1(v0), 2(v0) -> 3(v0)"; a * behind what died. */
static char *graph_text(void)
{
	static char buf[8192];
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < tl_cnt; i++) {
		const char *sep = "  ";

		if (tl[i].kind != TL_NODE)
			continue;
		n += (size_t)sprintf(buf + n, "%s", tl[i].op.v ? names__get(names, tl[i].op) : "[memory]");
		for (uint32_t k = 0; k < tl[i].edges_cnt; k++) {
			const struct tl_edge *e = &tl[i].edges[k];

			if (e->flags & TL_EDGE_IN) {
				n += (size_t)sprintf(buf + n, "%s%u(v%u%s)", sep, (unsigned)e->id, e->version,
						     e->flags & TL_EDGE_FREED ? "*" : "");
				sep = ", ";
			}
		}
		sep = " -> ";
		for (uint32_t k = 0; k < tl[i].edges_cnt; k++) {
			const struct tl_edge *e = &tl[i].edges[k];

			if ((e->flags & TL_EDGE_WRITTEN) ||
			    (e->flags & (TL_EDGE_ALLOCATED | TL_EDGE_FREED)) == TL_EDGE_ALLOCATED) {
				n += (size_t)sprintf(buf + n, "%s%u(v%u)", sep, (unsigned)e->id, e->out_version);
				sep = ", ";
			}
		}
		n += (size_t)sprintf(buf + n, "\n");
	}
	return buf;
}

/* test_data_flow_graph_complicated: x = ones; y = x.mul(2).add_(2); sin(y, out=empty_like(y)) */
static void nodes_as_in_torchs_tests(void **state)
{
	enum { S1 = 0x10000, S2 = 0x10040, S3 = 0x10080, S4 = 0x100c0 };

	(void)state;
	first_tensor(); /* id 1 */
	make(X, "aten::ones");
	op(1, "aten::empty.memory_format");
	op(1, "aten::fill_.Scalar", T(X, W | R));
	allocated(S1, 0); /* a wrapped scalar */
	op(0, "aten::mul.Tensor", T(X, R), T(S1, R));
	op(1, "aten::to.dtype", T(S1, R));
	op(2, "aten::_to_copy", T(S1, R));
	allocated(S2, 3);
	op(3, "aten::copy_", T(S2, W | R), T(S1, R));
	allocated(Y, 1);
	freed(S2, 1);
	freed(S1, 0);
	allocated(S3, 0);
	op(0, "aten::add_.Tensor", T(Y, W | R), T(S3, R));
	op(1, "aten::_to_copy", T(S3, R));
	allocated(S4, 2);
	op(2, "aten::copy_", T(S4, W | R), T(S3, R));
	freed(S4, 1);
	freed(S3, 0);
	op(0, "aten::empty_like", T(Y, R));
	allocated(Z, 1);
	op(0, "aten::sin.out", T(Y, R), T(Z, W | R));
	tick();
	assert_string_equal(graph_text(), ""); /* labels may still change */
	assert_int_equal(model__end(m), 0);
	assert_string_equal(graph_text(),
			    "aten::relu  1(v0)\n"
			    "aten::ones -> 2(v0)\n"
			    "[memory] -> 3(v0)\n"
			    "aten::mul.Tensor  2(v0), 3(v0) -> 5(v0)\n"
			    "[memory]  3(v0*)\n"
			    "[memory] -> 6(v0)\n"
			    "aten::add_.Tensor  5(v0), 6(v0) -> 5(v1)\n"
			    "[memory]  6(v0*)\n"
			    "aten::empty_like  5(v1) -> 8(v0)\n"
			    "aten::sin.out  5(v1), 8(v0) -> 8(v1)\n");
}

static const struct tl_event *reported(uint8_t kind, const char *name, size_t nth)
{
	for (size_t i = 0; i < tl_cnt; i++)
		if (tl[i].kind == kind && !strcmp(names__get(names, tl[i].op), name) && !nth--)
			return &tl[i];
	return NULL;
}

static const struct tl_edge *edge_of(const struct tl_event *ev, uint64_t id)
{
	for (uint32_t i = 0; ev && i < ev->edges_cnt; i++)
		if (ev->edges[i].id == id)
			return &ev->edges[i];
	return NULL;
}

/* Told two steps later, with what each version turned out to be. */
static void nodes_have_settled_labels(void **state)
{
	uint64_t x, wt, out, gw;
	const struct tl_event *n;

	(void)state;
	forward(0);
	x = block(X)->id;
	wt = block(WT)->id;
	out = block(OUT)->id;
	backward();
	gw = block(GW)->id;
	tl_cnt = 0;
	sgd();
	forget();
	assert_null(reported(TL_NODE, "aten::linear", 0));
	forward(0);
	backward();
	sgd();
	n = reported(TL_NODE, "aten::linear", 0);
	assert_non_null(n);
	assert_int_equal(n->tid, PID);
	assert_int_equal(n->pid, PID);
	assert_int_equal(n->depth, 0);
	assert_true(n->ts_ns < ts);
	assert_int_equal(edge_of(n, x)->cat, CAT_INPUT);
	assert_int_equal(edge_of(n, x)->flags, TL_EDGE_IN | TL_EDGE_GIVEN);
	assert_int_equal(edge_of(n, wt)->cat, CAT_PARAMETER);
	assert_int_equal(edge_of(n, out)->out_cat, CAT_ACTIVATION);
	assert_int_equal(edge_of(n, out)->flags, TL_EDGE_ALLOCATED);
	assert_int_equal(edge_of(n, out)->dev, MT_DEV_CPU);
	n = reported(TL_NODE, "AddmmBackward0", 0);
	assert_non_null(n);
	assert_string_equal(names__get(names, n->region), "AddmmBackward0");
	assert_int_equal(n->depth, 1);
	assert_int_equal(edge_of(n, gw)->out_cat, CAT_GRADIENT);
	assert_non_null(reported(TL_NODE, "torch::autograd::AccumulateGrad", 1));
	n = reported(TL_NODE, "aten::add_.Tensor", 0);
	assert_non_null(n);
	assert_string_equal(names__get(names, n->region), "Optimizer.step#SGD.step");
	assert_int_equal(edge_of(n, wt)->flags, TL_EDGE_IN | TL_EDGE_GIVEN | TL_EDGE_WRITTEN);
	assert_int_equal(edge_of(n, wt)->version, 0);
	assert_int_equal(edge_of(n, wt)->out_version, 1);
}

static size_t finals_of(uint64_t id, char *buf)
{
	size_t cnt = 0;

	*buf = '\0';
	for (size_t i = 0; i < tl_cnt; i++) {
		if (tl[i].kind != TL_FINAL || tl[i].id != id)
			continue;
		buf += sprintf(buf, "%s%u %s", cnt++ ? ", " : "", tl[i].version, category_name(tl[i].cat));
	}
	return cnt;
}

static void the_last_word_by_version(void **state)
{
	uint64_t tmp, x, wt, untouched;
	char buf[256];

	(void)state;
	forward(0);
	x = block(X)->id;
	wt = block(WT)->id;
	backward();
	allocated(Z, 0);
	untouched = block(Z)->id;
	apply(0, "MulBackward0", T(OUT));
	op(2, "aten::mul", T(OUT, R));
	allocated(TMP, 3);
	op(0, "aten::mul_", T(TMP, W | R)); /* outside of backward: no category has it */
	tmp = block(TMP)->id;
	freed(TMP, 0);
	freed(Z, 0);
	sgd();
	forget();
	assert_int_equal(finals_of(x, buf), 0);
	assert_int_equal(finals_of(tmp, buf), 0);
	step_begin();
	step_end();
	finals_of(tmp, buf);
	assert_string_equal(buf, "0 AUTOGRAD_DETAIL, 1 unknown");
	assert_int_equal(finals_of(x, buf), 0); /* died in the second step, which is still kept */
	step_begin();
	step_end();
	finals_of(x, buf);
	assert_string_equal(buf, "0 INPUT");
	assert_int_equal(finals_of(wt, buf), 0); /* it lives */
	assert_int_equal(model__end(m), 0);
	finals_of(wt, buf);
	assert_string_equal(buf, "0 PARAMETER");
	assert_int_equal(finals_of(untouched, buf), 0);
	tl_cnt = 0;
	assert_int_equal(model__end(m), 0); /* once */
	assert_int_equal(tl_cnt, 0);
}

/* Held against the report: byte·time by the last words is what the report says, to the byte and nanosecond. */
static void last_words_add_up(void **state)
{
	uint64_t sum[CAT_MAX] = { 0 }, all = 0, since[256] = { 0 };
	uint32_t ver[256] = { 0 };
	uint8_t cats[256][8];

	(void)state;
	for (int i = 0; i < 5; i++) {
		forward(i & 1 ? WEIGHT : 0);
		make(Z, "aten::mul", T(X, R));
		op(0, "aten::mul_", T(Z, W | R), T(WT, R));
		op(0, "aten::add_", T(Z, W | R), T(WT, R));
		backward();
		apply(0, "MulBackward0", T(OUT));
		op(2, "aten::mul", T(OUT, R));
		allocated(TMP, 3);
		apply(0, "AddBackward0", T(TMP));
		op(0, "aten::mul_", T(TMP, W | R));
		freed(Z, 0);
		freed(TMP, 0);
		sgd();
		forget();
	}
	op(0, "aten::linear", T(OUT, R), T(WT, R | WEIGHT)); /* cut in the middle of a node */
	allocated(Y, 1);
	send((struct event){ .kind = EV_GONE });
	assert_int_equal(model__end(m), 0);
	assert_true(tl_cnt < sizeof(tl) / sizeof(tl[0]));
	memset(cats, 0, sizeof(cats));
	for (size_t i = 0; i < tl_cnt; i++) {
		assert_true(tl[i].id < 256 && tl[i].version < 8);
		for (uint32_t v = tl[i].version; tl[i].kind == TL_FINAL && v < 8; v++)
			cats[tl[i].id][v] = tl[i].cat;
	}
	/* INCREMENT_VERSION is told when it is seen; the version began with its node */
	for (size_t i = 0; i < tl_cnt; i++) {
		const struct tl_event *e = &tl[i];
		uint64_t at = e->ts_ns;

		for (size_t k = 0; e->kind == TL_VERSION && k < tl_cnt; k++)
			for (uint32_t x = 0; tl[k].kind == TL_NODE && x < tl[k].edges_cnt; x++)
				if (tl[k].edges[x].id == e->id && (tl[k].edges[x].flags & TL_EDGE_WRITTEN) &&
				    tl[k].edges[x].out_version == e->version)
					at = tl[k].ts_ns;
		if (e->kind == TL_VERSION || e->kind == TL_DESTROY)
			sum[cats[e->id][ver[e->id]]] += SIZE * (at - since[e->id]);
		if (e->kind == TL_CREATE || e->kind == TL_PREEXISTING || e->kind == TL_VERSION) {
			since[e->id] = at;
			ver[e->id] = e->version;
		}
	}
	for (int c = 0; c < CAT_MAX; c++) {
		assert_int_equal(sum[c], byte_ns((enum category)c));
		all += sum[c];
	}
	assert_true(all > 0 && sum[CAT_ACTIVATION] && sum[CAT_GRADIENT] && sum[CAT_AUTOGRAD_DETAIL]);
}

/* Nothing is told late for ever, and memory stays bounded. */
static void nodes_are_bounded(void **state)
{
	size_t after = 0;

	(void)state;
	make(M1, "aten::randn");
	for (int i = 0; i < 100000; i++) {
		make(M2, "aten::mul", T(M1, R));
		allocated(TMP, 0);
		freed(TMP, 0);
		freed(M1, 0);
		make(M1, "aten::clone", T(M2, R));
		freed(M2, 0);
		if (i == 60000)
			after = graph__bytes(m->graph);
		tl_cnt = tl_edges_cnt = 0;
	}
	assert_in_range(graph__bytes(m->graph), 1, after);
	assert_in_range(tl_nodes, 250000, 400000); /* the rest waits */
	assert_int_equal(model__end(m), 0);
	assert_int_equal(tl_nodes, 400000); /* 2 operators and 2 frees each; what no operator was given is no edge */
	assert_int_equal(m->lost[MT_LOSS_BLOCKS], 0);
}

static void nodes_are_not_reported_unasked(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		forward(WEIGHT);
		backward();
		sgd();
		forget();
	}
	assert_int_equal(model__end(m), 0);
	for (size_t i = 0; i < tl_cnt; i++)
		assert_true(tl[i].kind != TL_NODE && tl[i].kind != TL_FINAL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define NODES(f) cmocka_unit_test_setup_teardown(f, setup_nodes, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_step_of_sgd), TEST(parameters_found_late), TEST(parameters_from_the_start),
		TEST(labels_are_back_dated), TEST(the_end_is_the_end_of_a_step),
		TEST(begins_before_the_first_tensor), TEST(no_graph_without_flow),
		TEST(leaf_inputs_are_no_parameters), TEST(adam_makes_state),
		TEST(state_is_what_an_optimizer_writes), TEST(state_is_no_activation_for_ever),
		TEST(an_optimizer_in_backward), TEST(a_slow_backward_is_one_step),
		TEST(a_fast_pass_is_a_step), TEST(a_variable_twice_in_a_pass),
		TEST(state_of_one_step), TEST(a_cache_at_inference),
		TEST(a_written_gradient_is_no_state),
		TEST(gradients_are_accumulated), TEST(zeroed_gradients_stay_gradients), TEST(a_cloned_gradient),
		TEST(a_sparse_gradient), TEST(a_sparse_gradient_of_what_lasts), TEST(sparse_gradients_added_up),
		TEST(what_lives_in_one_node_is_temporary), TEST(blocks_no_op_touched_stay_unknown),
		TEST(scratch_has_a_plain_word),
		TEST(in_place_operators_make_versions), TEST(pass_through_nodes_make_versions), TEST(view_nodes_make_none),
		TEST(inputs_have_sources), TEST(unused_data_is_unknown), TEST(sparse_tensors_make_an_op_transparent),
		TEST(wrapped_scalars), TEST(an_average_late_amid_a_step), TEST(frozen_weights_by_their_name),
		TEST(weights_of_backward_do_not_count),
		TEST(python_functions_are_backward_nodes), TEST(what_backward_writes_and_an_optimizer_reads),
		TEST(gradients_of_a_backward_that_nobody_saw),
		TEST(late_blocks_are_live), TEST(a_late_block_is_replaced), TEST(late_blocks_end_under_an_allocation),
		TEST(the_peak_is_relabelled),
		TEST(memory_is_bounded), TEST(memory_is_bounded_without_steps), TEST(processes_end),
		TEST(threads_overlap), TEST(threads_write_the_same), TEST(a_thread_reads_what_another_one_writes),
		TEST(a_step_ends_in_anothers_node), TEST(an_old_node_is_closed_late), TEST(replicas_in_two_threads),
		TEST(threads_come_and_go), TEST(a_thread_gives_its_place_up),
		TEST(a_tensor_gets_anothers_storage), TEST(a_tensor_is_resized), TEST(late_blocks_end_with_their_mapping),
		TEST(many_late_blocks), TEST(late_blocks_have_a_device), TEST(tensors_without_storage_are_counted),
		NODES(nodes_as_in_torchs_tests), NODES(nodes_have_settled_labels), NODES(the_last_word_by_version),
		NODES(last_words_add_up), NODES(nodes_are_bounded), TEST(nodes_are_not_reported_unasked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
