/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Extended classes: each rule on a few events, and beside it what torch.profiler's words are. */
#include "unit/train_help.h"

#define RUNNING MT_FLOW_F_RUNNING

static void use_frozen(void)
{
	make(Y, "aten::linear", T(X, R), T(FIXED, R | WEIGHT));
	freed(Y, 0);
}

static void frozen_is_what_gets_no_gradient(void **state)
{
	(void)state;
	rounds(1, use_frozen);
	assert_string_equal(cat(FIXED), "PARAMETER"); /* its turn may still come */
	rounds(3, use_frozen);
	assert_string_equal(cat(FIXED), "FROZEN");
	assert_string_equal(cat(WT), "PARAMETER");
	accumulate(FIXED, 0, GW); /* thawed */
	assert_string_equal(cat(FIXED), "PARAMETER");
}

static void nothing_is_frozen_where_nothing_is_trained(void **state)
{
	(void)state;
	make(X, "aten::randn");
	for (int i = 0; i < 5; i++) {
		use_frozen();
		send((struct event){ .kind = MT_EV_STEP });
	}
	assert_string_equal(cat(FIXED), "PARAMETER");
}

/* Two optimizers are two steps a round: the weights of the other one are not frozen in between. */
static void steps_are_not_rounds(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::linear", T(X, R), T(WT, R | WEIGHT));
		make(Y, "aten::linear", T(X, R), T(W2, R | WEIGHT));
		for (int k = 0; k < 3; k++) {
			backward_of(k ? W2 : WT, GW);
			step_begin();
			op(0, "aten::add_", T(k ? W2 : WT, W | R), T(GW, R));
			step_end();
			freed(GW, 0);
		}
		assert_string_not_equal(cat(W2), "FROZEN");
		assert_string_not_equal(cat(X), "BUFFER");
		freed(X, 0);
		freed(OUT, 0);
		freed(Y, 0);
	}
	assert_string_equal(cat(WT), "PARAMETER");
	assert_string_equal(cat(W2), "PARAMETER");
}

static void use_buffers(void)
{
	op(0, "aten::batch_norm", T(OUT, R), T(MEAN, RUNNING));
	make(Y, "aten::mul", T(OUT, R), T(CONST, R));
	op(0, "aten::relu", T(Y, R));
	freed(Y, 0);
	op(0, "aten::lerp_", T(EMA, W | R), T(WT, R));
}

static void buffers_last(void **state)
{
	(void)state;
	rounds(1, use_buffers);
	assert_string_equal(cat(MEAN), "BUFFER"); /* by its name, at once */
	assert_string_not_equal(cat(EMA), "BUFFER");
	rounds(3, use_buffers);
	assert_string_equal(cat(CONST), "BUFFER");
	assert_string_equal(cat(EMA), "BUFFER");
	assert_string_equal(last_cat(X), "INPUT");
	assert_string_equal(last_cat(Y), "ACTIVATION");
}

/* An input that lives for one round and the next step is none. */
static void carry_over(void)
{
	if (block(Z)) {
		make(Y, "aten::mul", T(OUT, R), T(Z, R));
		freed(Y, 0);
		freed(Z, 0);
	}
	make(Z, "aten::randn");
	make(Y, "aten::mul", T(OUT, R), T(Z, R));
	freed(Y, 0);
}

static void what_is_carried_over_is_no_buffer(void **state)
{
	(void)state;
	rounds(5, carry_over);
	assert_string_equal(last_cat(Z), "INPUT");
	assert_string_equal(cat(Z), "INPUT");
}

/* A copy of a parameter that is used by the name weight, too. */
static void use_copy(void)
{
	use_buffers();
	make(Z, "aten::linear", T(X, R), T(EMA, R | WEIGHT));
	freed(Z, 0);
}

static void averaged_weights_are_buffers(void **state)
{
	(void)state;
	rounds(5, use_copy);
	assert_string_equal(cat(EMA), "BUFFER");
}

static void loader_region(const char *name, bool begin)
{
	region(begin ? MT_EV_REGION_BEGIN : MT_EV_REGION_END, begin ? name : "");
}

static void batches_of_a_loader(void **state)
{
	(void)state;
	rounds(1, NULL);
	loader_region("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", true);
	make(Y, "aten::stack", T(CONST, R));
	loader_region(NULL, false);
	make(Z, "aten::randn");
	make(OUT, "aten::addmm", T(Z, R), T(Y, R), T(WT, R));
	assert_string_equal(cat(Y), "DATALOADER");
	assert_string_equal(cat(Z), "INPUT");
	assert_string_equal(cat(CONST), "INPUT"); /* the data set: used by the loader alone */
}

static void next_of_workers(void)
{
	loader_region("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", true);
	loader_region(NULL, false);
}

static void use_shared(void)
{
	next_of_workers();
	make(Y, "aten::mm", T(SHARED, R | MT_FLOW_F_FOREIGN), T(WT, R));
	freed(Y, 0);
	make(Z, "aten::mul", T(OUT, R), T(CONST, R));
	freed(Z, 0);
}

/* Shared memory of workers: nobody gives it out, and the next batch lies at the same address. */
static void batches_of_workers(void **state)
{
	(void)state;
	rounds(4, use_shared);
	assert_string_equal(cat(SHARED), "DATALOADER");
	assert_string_equal(cat(CONST), "BUFFER");
}

/* An allocator's block may begin a page: one in 64 of the heap's. */
static void use_page_of_the_heap(void)
{
	next_of_workers();
	make(Y, "aten::mm", T(SHARED, R), T(WT, R));
	freed(Y, 0);
}

static void a_page_of_the_heap_is_no_batch(void **state)
{
	(void)state;
	rounds(4, use_page_of_the_heap);
	assert_string_equal(cat(SHARED), "BUFFER");
}

static void use_shared_without_workers(void)
{
	make(Y, "aten::mm", T(SHARED, R | MT_FLOW_F_FOREIGN), T(WT, R));
	freed(Y, 0);
}

static void a_page_of_ones_own_is_no_batch(void **state)
{
	(void)state;
	rounds(4, use_shared_without_workers);
	assert_string_equal(cat(SHARED), "BUFFER");
}

static void hook_without_ddp(void)
{
	backward_of(W2, G2);
	op(1, "aten::mul.out", T(BUCKET, W | R), T(G2, R));
	tick();
	freed(G2, 0);
}

/* DistributedDataParallel: after AccumulateGrad the gradient is copied into its bucket. */
static void fill_bucket(void)
{
	region(MT_EV_REGION_BEGIN, "DistributedDataParallel.forward");
	region(MT_EV_REGION_END, "");
	hook_without_ddp();
}

static void buckets_are_communication(void **state)
{
	(void)state;
	rounds(3, fill_bucket);
	assert_string_equal(cat(BUCKET), "COMMUNICATION");
	assert_string_equal(last_cat(G2), "GRADIENT");
	assert_string_equal(cat(W2), "PARAMETER");
}

static void hooks_alone_are_no_communication(void **state)
{
	(void)state;
	rounds(3, hook_without_ddp);
	assert_string_not_equal(cat(BUCKET), "COMMUNICATION");
}

/* gradient_as_bucket_view, and gradients that are not set to none: two variables, one block. */
static void gradients_that_are_views_of_a_bucket(void **state)
{
	(void)state;
	first_tensor();
	region(MT_EV_REGION_BEGIN, "DistributedDataParallel.forward");
	region(MT_EV_REGION_END, "");
	accumulate(WT, BUCKET, GW);
	assert_string_equal(cat(BUCKET), "GRADIENT");
	accumulate(W2, BUCKET, GW);
	assert_string_equal(cat(BUCKET), "COMMUNICATION");
}

/* FSDP: the shard is read where it gathers; what is made there is a buffer, what is copied out to is the parameter. */
static void gathered_weights(void **state)
{
	(void)state;
	first_tensor();
	make(X, "aten::randn");
	make(SHARD, "aten::empty");
	region(MT_EV_REGION_BEGIN, "FSDP::pre_forward (0)");
	region_at(MT_EV_REGION_BEGIN, "FSDP::all_gather (0)", 1);
	allocated(BUF, 0);
	op(0, "aten::_foreach_copy_", T(BUF, W | R), T(SHARD, R));
	tid = PID + 1; /* gloo's */
	allocated(TMP, 0);
	op(0, "aten::copy_", T(BUF, W | R), T(TMP, R));
	freed(TMP, 0);
	tid = PID;
	region_at(MT_EV_REGION_END, "", 1);
	region_at(MT_EV_REGION_BEGIN, "FSDP::all_gather_copy_out (0)", 1);
	allocated(Y, 0);
	op(0, "aten::split_with_sizes_copy", T(BUF, R), T(Y, W));
	region_at(MT_EV_REGION_END, "", 1);
	region(MT_EV_REGION_END, "");
	make(OUT, "aten::linear", T(X, R), T(Y, R | WEIGHT));
	assert_string_equal(cat(SHARD), "PARAMETER");
	assert_string_equal(cat(BUF), "COMMUNICATION");
	assert_string_equal(last_cat(TMP), "COMMUNICATION");
	assert_string_equal(cat(Y), "UNSHARDED");
	assert_string_equal(cat(OUT), "ACTIVATION");
	assert_string_equal(cat(X), "INPUT");
	make(Z, "aten::randn");
	op(0, "aten::copy_", T(Z, W | R), T(BUF, R)); /* out of a buffer makes none */
	assert_string_not_equal(cat(Z), "COMMUNICATION");
}

/* A world of one has no collective: the shard is copied in the hook itself. */
static void unsharded_without_a_collective(void **state)
{
	(void)state;
	first_tensor();
	make(SHARD, "aten::empty");
	make(X, "aten::randn");
	region(MT_EV_REGION_BEGIN, "FSDP::pre_backward (0)");
	allocated(Y, 0);
	op(0, "aten::copy_", T(Y, W | R), T(SHARD, R));
	op(0, "aten::view", T(X, R));
	region(MT_EV_REGION_END, "");
	assert_string_equal(cat(SHARD), "PARAMETER");
	assert_string_equal(cat(Y), "UNSHARDED");
	assert_string_not_equal(cat(X), "PARAMETER");
}

static void reduced_gradients(void **state)
{
	(void)state;
	first_tensor();
	region(MT_EV_REGION_BEGIN, "FSDP::post_backward_reduce (0)");
	allocated(BUF, 0);
	op(0, "aten::_chunk_cat", T(GW, R), T(BUF, W));
	allocated(Y, 0);
	allocated(TMP, 0); /* of another transport */
	op(0, "aten::copy_", T(Y, W | R), T(TMP, R));
	freed(TMP, 0);
	region_at(MT_EV_REGION_BEGIN, "Optimizer.step#Adam.step", 1); /* in a hook: its state is nobody's buffer */
	make(M1, "aten::zeros_like");
	region_at(MT_EV_REGION_END, "", 1);
	assert_string_equal(cat(Y), "COMMUNICATION"); /* not known before the end */
	region(MT_EV_REGION_END, "");
	assert_string_equal(cat(Y), "GRADIENT");
	assert_string_equal(cat(BUF), "COMMUNICATION");
	assert_string_equal(last_cat(TMP), "COMMUNICATION");
	assert_string_not_equal(cat(M1), "GRADIENT");
	assert_string_not_equal(cat(M1), "COMMUNICATION");
}

static void scratch_is_workspace(void **state)
{
	(void)state;
	op(0, "aten::conv2d", T(X, R), T(WT, R | WEIGHT));
	allocated(TMP, 1);
	allocated(Y, 1);
	freed(TMP, 1);
	op(0, "aten::relu", T(Y, R));
	assert_string_equal(last_cat(TMP), "WORKSPACE");
	allocated(Z, 1);
	tick();
	freed(Z, 0); /* outlived its operator: nobody knows what it was */
	assert_string_equal(last_cat(Z), "unknown");
	op(0, "aten::conv2d", T(X, R), T(WT, R | WEIGHT));
	allocated(TMP, 1);
	op(1, "aten::zero_", T(TMP, W | R));
	freed(TMP, 1);
	assert_string_equal(last_cat(TMP), "TEMPORARY");
}

/* cuBLAS's workspace: made in the first step, by an operator, and not freed. The CPU has none. */
static void kept_scratch_is_workspace(void **state)
{
	(void)state;
	where = MT_DEV_CUDA0;
	op(0, "aten::addmm", T(X, R), T(WT, R | WEIGHT));
	allocated(TMP, 1);
	where = MT_DEV_CPU;
	op(0, "aten::addmm", T(X, R), T(WT, R | WEIGHT));
	allocated(Z, 1);
	rounds(2, NULL);
	assert_string_equal(cat(Z), "unknown");
	where = MT_DEV_CUDA0;
	assert_string_equal(cat(TMP), "WORKSPACE");
	freed(TMP, 0);
	assert_string_equal(last_cat(TMP), "WORKSPACE");
	allocated(Y, 0); /* by no operator: somebody's own */
	where = MT_DEV_CPU;
	rounds(2, NULL);
	where = MT_DEV_CUDA0;
	assert_string_equal(cat(Y), "unknown");
	where = MT_DEV_CPU;
}

static void adam(void)
{
	step_begin();
	if (!block(M1))
		make(M1, "aten::zeros_like", T(WT, R));
	op(0, "aten::lerp_", T(M1, W | R), T(GW, R));
	op(0, "aten::mul_", T(M2, W | R), T(Z, R)); /* older than the trace: state when the region ends */
	make(TMP, "aten::sqrt", T(M2, R));
	allocated_of(Y, 0, 8);
	op(0, "aten::add_", T(TMP, W | R));
	arg_of(0, Y, 1, R, 8);
	op(0, "aten::addcdiv_", T(WT, W | R), T(M1, R), T(TMP, R));
	freed(TMP, 0);
	freed(Y, 0);
	step_end();
}

static void optimizer_arithmetic_is_temporary(void **state)
{
	(void)state;
	make(Z, "aten::ones");
	for (int i = 0; i < 3; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of(WT, GW);
		adam();
		freed(GW, 0);
		freed(X, 0);
		freed(OUT, 0);
		assert_int_equal(byte_ns(CAT_TEMPORARY) > (uint64_t)i * 3 * SIZE * stride, 1);
	}
	assert_string_equal(last_cat(TMP), "TEMPORARY");
	assert_string_equal(last_cat(Y), "TEMPORARY");
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	assert_string_equal(cat(M2), "OPTIMIZER_STATE");
	assert_string_equal(last_cat(OUT), "ACTIVATION");
}

/* LBFGS: forward and backward run inside the step; history lives on, and so do loss and gradients. */
static void a_closure_in_the_step(void **state)
{
	(void)state;
	rounds(1, NULL);
	step_begin();
	make(X, "aten::randn");
	make(OUT, "aten::mm", T(X, R), T(WT, R));
	make(TMP, "aten::tanh", T(OUT, R));
	op(0, "aten::relu", T(TMP, R));
	backward_of(WT, GW);
	freed(TMP, 0);
	make(M1, "aten::cat", T(GW, R));
	make(Y, "aten::neg", T(M1, R));
	op(0, "aten::add_", T(WT, W | R), T(Y, R));
	freed(Y, 0);
	step_end();
	assert_string_equal(last_cat(TMP), "ACTIVATION");
	assert_string_equal(last_cat(Y), "TEMPORARY");
	assert_string_equal(cat(OUT), "ACTIVATION"); /* what the closure returned */
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	assert_string_equal(cat(GW), "GRADIENT");
}

static void by_hand(void)
{
	if (!block(G2))
		return;
	op(0, "aten::lerp_", T(M1, W | R), T(G2, R));
	op(0, "aten::add_", T(W2, W | R), T(M1, R));
	freed(G2, 0);
}

static void train_by_hand(void)
{
	backward_of(W2, G2);
	by_hand();
}

static void state_of_an_optimizer_by_hand(void **state)
{
	(void)state;
	rounds(4, train_by_hand);
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	assert_string_equal(cat(W2), "PARAMETER");
}

/* SGD as torch writes it: decay adds the weights to a copy of the gradient, which the momentum gets. And a mean of norms. */
static void decay_by_hand(void)
{
	make(Z, "aten::add", T(GW, R), T(WT, R));
	op(0, "aten::mul_", T(M1, W | R));
	op(0, "aten::add_", T(M1, W | R), T(Z, R));
	op(0, "aten::add_", T(WT, W | R), T(M1, R));
	op(0, "aten::norm", T(GW, R));
	allocated_of(Y, 1, 4);
	op(0, "aten::lerp_", T(EMA, W | R), T(Y, R));
	freed(Z, 0);
	freed(Y, 0);
}

static void train_with_decay(void)
{
	for (int i = 0; i < 5; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of(WT, GW);
		decay_by_hand();
		send((struct event){ .kind = MT_EV_STEP });
		for (size_t k = 0; k < 3; k++)
			freed((uint64_t[]){ X, OUT, GW }[k], 0);
	}
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	assert_string_equal(cat(WT), "PARAMETER");
	assert_string_equal(last_cat(GW), "GRADIENT");
	assert_string_not_equal(last_cat(Z), "OPTIMIZER_STATE");
	assert_string_not_equal(cat(EMA), "OPTIMIZER_STATE");
}

static void state_of_an_optimizer_by_hand_with_decay(void **state)
{
	(void)state;
	train_with_decay();
}

/* An image is optimized, say: no data at all. torch.profiler has no word for what is made from parameters alone. */
static void activations_of_parameters_alone(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		make(OUT, "aten::tanh", T(WT, R));
		make(Y, "aten::neg", T(OUT, R)); /* not kept */
		make(M2, "aten::ones_like", T(Y, R));
		apply(0, "TanhBackward0", T(M2));
		op(2, "aten::tanh_backward", T(M2, R), T(OUT, R));
		allocated(GW, 3);
		accumulate(WT, 0, GW);
		if (i) /* the parameter is known */
			assert_string_equal(cat(OUT), m->classes == CLASSES_EXTENDED ? "ACTIVATION" : "unknown");
		make(Z, "aten::mul", T(GW, R)); /* a gradient's copy */
		step_begin();
		op(0, "aten::add_", T(WT, W | R), T(Z, R));
		step_end();
		for (size_t k = 0; k < 5; k++)
			freed((uint64_t[]){ OUT, Y, M2, GW, Z }[k], 0);
	}
	assert_string_equal(last_cat(OUT), m->classes == CLASSES_EXTENDED ? "ACTIVATION" : "unknown");
	assert_string_equal(last_cat(Y), "unknown");
	assert_string_equal(last_cat(GW), "GRADIENT");
	assert_string_not_equal(last_cat(Z), "ACTIVATION");
}

/* -exp(A_log) of a state-space model: made of a parameter alone, combined with data, needed by backward. */
static void a_factor_made_of_a_parameter(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::exp", T(WT, R));
		make(Y, "aten::neg", T(OUT, R));
		make(Z, "aten::mul", T(X, R), T(Y, R));
		make(M2, "aten::ones_like", T(Z, R));
		apply(0, "MulBackward0", T(M2));
		op(2, "aten::mul", T(M2, R), T(Y, R));
		op(2, "aten::mul", T(M2, R), T(X, R));
		allocated(GW, 3);
		accumulate(WT, 0, GW);
		step_begin();
		op(0, "aten::add_", T(WT, W | R), T(GW, R));
		step_end();
		for (size_t k = 0; k < 6; k++)
			freed((uint64_t[]){ X, OUT, Y, Z, M2, GW }[k], 0);
	}
	assert_string_equal(last_cat(Y), m->classes == CLASSES_EXTENDED ? "ACTIVATION" : "PARAMETER");
	assert_string_equal(last_cat(Z), "ACTIVATION");
	assert_string_equal(cat(WT), "PARAMETER");
}

/* A graph net: a product with a sparse matrix, and sums that are filled from zeros. */
static void activations_of_a_graph_net(void **state)
{
	const bool extended = m->classes == CLASSES_EXTENDED;

	(void)state;
	for (int i = 0; i < 3; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		op(0, "aten::mm");
		send((struct event){ .kind = EV_ARG, .seq = seqs[0], .depth = 1, .flags = MT_CLASS_SPARSE,
				     .aux = (R | MT_FLOW_F_NO_STORAGE) << 8 });
		arg_of(0, OUT, 1, R, SIZE);
		op(1, "aten::zeros");
		allocated(Y, 2);
		op(1, "aten::addmm_", T(Y, W | R));
		make(Z, "aten::zeros");
		op(0, "aten::index_add_", T(Z, W | R), T(OUT, R));
		make(M2, "aten::tanh", T(Z, R));
		op(0, "aten::dot", T(Y, R), T(M2, R));
		backward_of(WT, GW);
		step_begin();
		op(0, "aten::add_", T(WT, W | R), T(GW, R));
		step_end();
		for (size_t k = 0; k < 6; k++)
			freed((uint64_t[]){ X, OUT, Y, Z, M2, GW }[k], 0);
	}
	assert_string_equal(last_cat(OUT), "ACTIVATION");
	assert_string_equal(last_cat(Y), extended ? "ACTIVATION" : "INPUT");
	assert_string_equal(last_cat(Z), extended ? "ACTIVATION" : "PARAMETER");
	assert_string_equal(cat(WT), "PARAMETER");
}

/* The same in hooks, inside of AccumulateGrad or after it: a pass is a step, and the gradient is gone when backward ends. */
static void an_optimizer_by_hand_in_hooks(void **state)
{
	(void)state;
	for (unsigned depth = 1; depth <= 2; depth++) {
		for (int i = 0; i < 5; i++) {
			make(OUT, "aten::mm", T(X, R), T(W2, R));
			apply(0, "MmBackward0", T(OUT));
			op(2, "aten::mm", T(OUT, R), T(X, R));
			allocated(G2, 3);
			accumulate(W2, 0, G2);
			op(depth, "aten::lerp_", T(M1, W | R), T(G2, R));
			op(depth, "aten::add_", T(W2, W | R), T(M1, R));
			freed(G2, depth);
			freed(OUT, 0);
		}
		assert_string_equal(cat(M1), "OPTIMIZER_STATE");
		assert_string_equal(cat(W2), "PARAMETER");
		assert_string_equal(last_cat(G2), "GRADIENT");
		assert_int_equal(m->graph->procs[0]->steps, 5 * depth - 1);
		freed(M1, 0);
	}
}

static void site(uint32_t prog)
{
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python") });
	send((struct event){ .kind = EV_SITE, .name = names__add(names, "a function"), .aux = prog, .addr = 1, .size = 1 });
}

/* torch 1.13: no probe tells of the optimizer's step, so what it does is by hand for us, in compat as well. */
static void state_where_no_region_is_reported(void **state)
{
	(void)state;
	site(MT_PROG_FLOW_ACC);
	rounds(5, train_by_hand);
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	assert_string_equal(cat(W2), "PARAMETER");
}

static void state_with_decay_where_no_region_is_reported(void **state)
{
	(void)state;
	site(MT_PROG_FLOW_ACC);
	train_with_decay();
}

static void regions_tell_of_state_themselves(void **state)
{
	(void)state;
	site(MT_PROG_FLOW_ACC);
	site(MT_PROG_REGION_BEGIN);
	rounds(5, train_by_hand);
	assert_string_not_equal(cat(M1), "OPTIMIZER_STATE");
}

/* With torch.profiler's words nothing of all this is there. */
static void compat_has_none_of_them(void **state)
{
	(void)state;
	rounds(4, use_buffers);
	rounds(4, use_frozen);
	rounds(3, fill_bucket);
	rounds(2, use_shared);
	for (int c = CAT_COMPAT_MAX; c < CAT_MAX; c++)
		assert_int_equal(byte_ns((enum category)c), 0);
	for (size_t i = 0; i < tl_cnt; i++)
		assert_in_range(tl[i].cat, 0, CAT_COMPAT_MAX - 1);
	assert_string_equal(cat(FIXED), "PARAMETER");
}

static void memory_is_bounded(void **state)
{
	size_t after = 0;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		rounds(1, use_copy);
		make(M1, "aten::empty"); /* a weight of its own each time */
		make(Y, "aten::linear", T(X, R), T(M1, R | WEIGHT));
		make(Z, "aten::linear", T(X, R), T(M1, R | WEIGHT));
		freed(Y, 0);
		freed(Z, 0);
		freed(M1, 0);
		if (i == 200)
			after = graph__bytes(m->graph);
		tl_cnt = 0;
	}
	assert_int_equal(graph__bytes(m->graph), after);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_extended, teardown)
	const struct CMUnitTest tests[] = {
		TEST(frozen_is_what_gets_no_gradient), TEST(nothing_is_frozen_where_nothing_is_trained),
		TEST(steps_are_not_rounds), TEST(buffers_last), TEST(what_is_carried_over_is_no_buffer),
		TEST(averaged_weights_are_buffers), TEST(batches_of_a_loader), TEST(batches_of_workers),
		TEST(a_page_of_ones_own_is_no_batch), TEST(a_page_of_the_heap_is_no_batch), TEST(buckets_are_communication),
		TEST(hooks_alone_are_no_communication), TEST(gradients_that_are_views_of_a_bucket),
		TEST(gathered_weights), TEST(unsharded_without_a_collective), TEST(reduced_gradients),
		TEST(scratch_is_workspace), TEST(kept_scratch_is_workspace), TEST(optimizer_arithmetic_is_temporary),
		TEST(a_closure_in_the_step), TEST(state_of_an_optimizer_by_hand),
		TEST(state_of_an_optimizer_by_hand_with_decay),
		TEST(an_optimizer_by_hand_in_hooks), TEST(activations_of_parameters_alone),
		TEST(activations_of_a_graph_net), TEST(a_factor_made_of_a_parameter), TEST(memory_is_bounded),
		cmocka_unit_test_setup_teardown(compat_has_none_of_them, setup, teardown),
		cmocka_unit_test_setup_teardown(activations_of_parameters_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(activations_of_a_graph_net, setup, teardown),
		cmocka_unit_test_setup_teardown(a_factor_made_of_a_parameter, setup, teardown),
		cmocka_unit_test_setup_teardown(state_where_no_region_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(state_with_decay_where_no_region_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(regions_tell_of_state_themselves, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
