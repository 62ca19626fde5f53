/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What Python says of tensors, against what the data flow finds (docs/categories.md). */
#include "unit/train_help.h"

static void use_buffers(void)
{
	op(0, "aten::batch_norm", T(OUT, R), T(MEAN, MT_FLOW_F_RUNNING));
	op(0, "aten::mul", T(OUT, R), T(CONST, R));
}

static void said_as(uint64_t ptr, uint8_t kind)
{
	struct event ev = { .kind = EV_TENSOR, .dev = MT_DEV_CPU, .addr = ptr, .size = SIZE, .flags = kind, .depth = 0,
			    .name = names__add(names, "layer.weight") };

	ts += stride;
	ev.pid = PID;
	ev.ts_ns = ts;
	assert_int_equal(model__handle(m, &ev), 0);
}

static void write_average(void)
{
	op(0, "aten::lerp_", T(EMA, W | R), T(WT, R));
}

/* Written outside of backward and optimizer, and no gradient comes: an average. Without that a name tells of a frozen one. */
static void copies_of_parameters(void **state)
{
	(void)state;
	rounds(1, write_average);
	op(0, "aten::relu", T(FIXED, R));
	said_as(EMA, EV_TENSOR_PARAMETER);
	said_as(FIXED, EV_TENSOR_PARAMETER);
	said_as(WT, EV_TENSOR_PARAMETER);
	assert_string_equal(cat(FIXED), "PARAMETER"); /* its turn may still come */
	rounds(3, write_average);
	assert_string_equal(cat(EMA), "BUFFER");
	assert_string_equal(cat(FIXED), "FROZEN");
	assert_string_equal(cat(WT), "PARAMETER");
	accumulate(FIXED, 0, GW); /* thawed */
	assert_string_equal(cat(FIXED), "PARAMETER");
}

/* Where the optimizer is compiled nobody is seen to write parameters: no round ends, steps do. */
static void frozen_beside_a_compiled_optimizer(void **state)
{
	(void)state;
	op(0, "aten::relu", T(FIXED, R));
	op(0, "aten::relu", T(W2, R));
	op(0, "aten::relu", T(CONST, R));
	said_as(FIXED, EV_TENSOR_PARAMETER);
	said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
	said_as(CONST, EV_TENSOR_PARAMETER | EV_TENSOR_INNER | EV_TENSOR_RESTS);
	for (int i = 0; i < 12; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of(WT, GW);
		if (i < 6)
			assert_string_equal(cat(FIXED), "PARAMETER");
		freed(X, 0);
		freed(OUT, 0);
		freed(GW, 0);
	}
	assert_string_equal(cat(FIXED), "FROZEN");
	assert_string_equal(cat(W2), "PARAMETER"); /* a DTensor's part: AccumulateGrad names the DTensor */
	assert_string_equal(cat(CONST), "FROZEN");  /* a quantised weight's: for that none comes */
	said_as(CONST, EV_TENSOR_PARAMETER | EV_TENSOR_INNER); /* until it is asked for */
	assert_string_equal(cat(CONST), "PARAMETER");
}

static void python_has_the_last_word(void **state)
{
	(void)state;
	rounds(2, use_buffers);
	assert_string_equal(cat(WT), "PARAMETER");
	said_as(CONST, EV_TENSOR_BUFFER);
	said_as(MEAN, EV_TENSOR_STATE);
	assert_string_equal(cat(CONST), "BUFFER");
	assert_string_equal(cat(MEAN), "OPTIMIZER_STATE");
	said_as(MEAN, EV_TENSOR_GRADIENT);
	assert_string_equal(cat(MEAN), "GRADIENT");
	said_as(WT, EV_TENSOR_STATE); /* a name that was given anew */
	assert_string_equal(cat(WT), "OPTIMIZER_STATE");
}

/* A DTensor's: AccumulateGrad is given tensors without memory, and the optimizer's arithmetic is not seen. */
static void backward_of_wrapped(uint64_t grad, uint64_t size)
{
	apply(0, "AddmmBackward0", T(OUT));
	op(2, "aten::mm", T(OUT, R), T(X, R));
	allocated_of(grad, 3, size);
	accumulate(0, 0, 0);
}

/* What is as large as a part for which no gradient comes is none. */
static void nothing_is_a_resting_parts_gradient(void **state)
{
	(void)state;
	op(0, "aten::relu", T(W2, R));
	for (int i = 0; i < 2; i++) {
		said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER | (i ? 0 : EV_TENSOR_RESTS));
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of_wrapped(Z, SIZE);
		step_begin();
		assert_string_equal(cat(Z), i ? "GRADIENT" : "AUTOGRAD_DETAIL");
		step_end();
		for (size_t k = 0; k < 3; k++)
			freed((const uint64_t[]){ X, OUT, Z }[k], 0);
	}
}

static void gradients_of_wrapped(void **state)
{
	enum { OTHER = 0x18040, BEFORE = 0x19040 };

	(void)state;
	op(0, "aten::relu", T(W2, R));
	for (int i = 0; i < 3; i++) {
		if (i)
			said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of(WT, GW);
		backward_of_wrapped(Z, SIZE);
		backward_of_wrapped(BEFORE, SIZE);
		backward_of_wrapped(OTHER, 3 * SIZE); /* as large as none */
		freed(BEFORE, 0);
		make(M1, "aten::relu", T(X, R)); /* not made by backward */
		step_begin();
		assert_string_equal(cat(Z), i ? "GRADIENT" : "AUTOGRAD_DETAIL");
		step_end();
		assert_string_equal(cat(Z), i ? "GRADIENT" : "unknown"); /* no operator was given it */
		assert_string_not_equal(cat(OTHER), "GRADIENT");
		assert_string_not_equal(cat(M1), "GRADIENT");
		for (size_t k = 0; k < 6; k++)
			freed((const uint64_t[]){ X, OUT, GW, Z, OTHER, M1 }[k], 0);
	}
}

/*
 * Forward with parts of DTensors: the boxed addmm is not seen, but the copy of its bias is; what a normalization makes is
 * given to such a call alone.
 */
static void forward_of_wrapped(void)
{
	allocated_of(OUT, 0, SIZE);
	op(0, "aten::copy_", T(OUT, W | R), T(W2, R));
	op(0, "aten::gelu", T(OUT, R));
	allocated_of(Y, 1, SIZE);
	op(0, "aten::layer_norm", T(Y, R), T(WT, R));
	allocated_of(Z, 1, SIZE);
	op(0, "aten::relu", T(X, R));
}

static void activations_of_wrapped(void **state)
{
	(void)state;
	op(0, "aten::relu", T(W2, R));
	op(0, "aten::relu", T(EMA, R));
	for (int i = 0; i < 3; i++) {
		if (i)
			said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
		make(X, "aten::randn");
		forward_of_wrapped();
		op(0, "aten::lerp_", T(EMA, W | R), T(W2, R)); /* what was there before is none */
		backward_of(WT, GW);
		step_begin();
		step_end();
		assert_string_equal(cat(OUT), i ? "ACTIVATION" : "INPUT");
		assert_string_equal(cat(Y), i ? "ACTIVATION" : "INPUT");
		assert_string_equal(cat(Z), i ? "ACTIVATION" : "unknown");
		assert_string_not_equal(cat(EMA), "ACTIVATION");
		if (i)
			assert_string_equal(cat(W2), "PARAMETER");
		for (size_t k = 0; k < 5; k++)
			freed((const uint64_t[]){ X, OUT, Y, Z, GW }[k], 0);
	}
}

/*
 * Steps that were over before Python was read: what forward made gets another label when its word comes, if AccumulateGrad was
 * given tensors without memory meanwhile, and as many steps as are kept.
 */
static void steps_before_python(bool is_wrapped, int steps, const char *wanted)
{
	enum { LEFT = 0x40000 };

	op(0, "aten::relu", T(W2, R));
	for (int i = 0; i < steps; i++) {
		make(X, "aten::randn");
		allocated_of(LEFT + 0x100u * (unsigned)i, 0, SIZE);
		op(0, "aten::copy_", T(LEFT + 0x100u * (unsigned)i, W | R), T(W2, R));
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of(WT, GW);
		if (is_wrapped)
			accumulate(0, 0, 0);
		step_begin();
		step_end();
		for (size_t k = 0; k < 3; k++)
			freed((const uint64_t[]){ X, OUT, GW }[k], 0);
	}
	assert_string_not_equal(cat(LEFT), "ACTIVATION");
	said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
	step_begin();
	step_end();
	assert_string_equal(cat(LEFT), wanted);
	assert_string_equal(cat(LEFT + 0x100u * (unsigned)(steps - 1)), "ACTIVATION");
}

static void activations_before_python(void **state)
{
	(void)state;
	steps_before_python(true, 20, "ACTIVATION");
}

static void python_is_not_waited_for(void **state)
{
	(void)state;
	steps_before_python(false, 20, "unknown");
}

static void python_is_not_waited_for_long(void **state)
{
	(void)state;
	steps_before_python(true, 80, "unknown");
}

/* Some module's forward begins, or (0) is over. */
static void in_module(uint64_t addr)
{
	ts += stride;
	if (addr)
		send((struct event){ .kind = EV_MODULE, .addr = addr, .name = names__add(names, "layer"),
				     .seq = names__add(names, "Linear").v });
	send((struct event){ .kind = EV_MODULE_AT, .addr = addr });
}

/* A product of parts without a bias: its frame is seen, and what it allocates, but none of its tensors. */
static void product_of_wrapped(uint64_t out, unsigned depth)
{
	frame(MT_EV_OP, "aten::mm", depth);
	arg_of(depth, 0, 0, R, 0);
	allocated_of(out, depth + 1, SIZE);
}

static void products_of_wrapped(void **state)
{
	enum { LOST = 0x18040, BACK = 0x19040, SUM = 0x1a040 };

	(void)state;
	op(0, "aten::relu", T(W2, R));
	for (int i = 0; i < 3; i++) {
		if (i)
			said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
		make(X, "aten::randn");
		in_module(0x100);
		product_of_wrapped(Y, 0);
		make(SUM, "aten::sum", T(Y, R));
		in_module(0);
		product_of_wrapped(Z, 0); /* in no module: a norm of gradients, or what is put together for a file */
		product_of_wrapped(LOST, 0); /* the same, but backward lets go of it */
		op(0, "aten::add", T(X, R), T(SUM, R));
		op(0, "aten::relu", T(Z, R));
		backward_of(WT, GW);
		apply(0, "MmBackward0", T(OUT));
		product_of_wrapped(BACK, 2); /* recomputed */
		freed(LOST, 2);
		assert_string_equal(last_cat(LOST), i ? "ACTIVATION" : "unknown");
		step_begin();
		step_end();
		assert_int_equal(!strcmp(cat(Y), "ACTIVATION"), i > 0);
		assert_int_equal(!strcmp(cat(SUM), "ACTIVATION"), i > 0);
		assert_string_not_equal(cat(Z), "ACTIVATION");
		assert_string_not_equal(cat(BACK), "ACTIVATION");
		for (size_t k = 0; k < 6; k++)
			freed((const uint64_t[]){ X, Y, SUM, Z, BACK, GW }[k], 0);
	}
}

/* In the first steps of a job neither parts nor modules are known. */
static void products_before_pythons_word(void **state)
{
	enum { BACK = 0x19040, STATE = 0x1a040 };

	(void)state;
	op(0, "aten::relu", T(W2, R));
	product_of_wrapped(Y, 0);
	apply(0, "MmBackward0", T(OUT));
	product_of_wrapped(BACK, 2);
	step_begin();
	product_of_wrapped(STATE, 0);
	said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
	step_end();
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_string_not_equal(cat(BACK), "ACTIVATION");
	assert_string_not_equal(cat(STATE), "ACTIVATION");
}

/* FSDP over tensor parallel: what it puts together are parts, too. Its own blocks stay what they are. */
static void parts_that_fsdp_gathers(void **state)
{
	(void)state;
	op(0, "aten::relu", T(W2, R));
	said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
	make(X, "aten::randn");
	in_module(0x100);
	region(MT_EV_REGION_BEGIN, "FSDP::pre_forward (0)");
	region_at(MT_EV_REGION_BEGIN, "FSDP::all_gather (0)", 1);
	product_of_wrapped(BUF, 0);
	region_at(MT_EV_REGION_END, "", 1);
	region_at(MT_EV_REGION_BEGIN, "FSDP::all_gather_copy_out (0)", 1);
	allocated(SHARD, 0);
	region_at(MT_EV_REGION_END, "", 1);
	region(MT_EV_REGION_END, "");
	product_of_wrapped(Y, 0);
	make(OUT, "aten::mul", T(Y, R), T(Y, R));
	in_module(0);
	op(0, "aten::add", T(X, R), T(OUT, R));
	accumulate(WT, 0, GW);
	step_begin();
	step_end();
	assert_string_equal(cat(BUF), "COMMUNICATION");
	assert_string_equal(cat(SHARD), "UNSHARDED");
	assert_string_equal(cat(Y), "ACTIVATION");
	assert_string_equal(cat(OUT), "ACTIVATION");
}

/* What several nodes sent on is added up by the engine, outside of them: version by version no node made it. */
static void added_up_by_the_engine(const char *wanted)
{
	for (int i = 0; i < 2; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		apply(0, "MulBackward0", T(OUT));
		op(2, "aten::mul", T(OUT, R), T(X, R));
		allocated_of(Z, 3, SIZE);
		for (int k = 0; k < 2; k++) {
			apply(0, "SelectBackward0", T(OUT));
			op(2, "aten::mul", T(OUT, R), T(X, R));
			allocated_of(M1, 3, SIZE);
			op(1, "aten::add_", T(Z, W | R), T(M1, R));
			freed(M1, 1);
		}
		backward_of(WT, GW);
		step_begin();
		step_end();
		assert_string_equal(cat(Z), wanted);
		for (size_t k = 0; k < 4; k++)
			freed((const uint64_t[]){ X, OUT, GW, Z }[k], 0);
	}
}

static void added_up_extended(void **state)
{
	(void)state;
	added_up_by_the_engine("AUTOGRAD_DETAIL");
}

static void added_up_compat(void **state)
{
	(void)state;
	added_up_by_the_engine("unknown"); /* as torch.profiler has it */
}

/* Something else of a gradient's size that is kept until the step: size alone is not believed then. */
static void more_than_parameters(void **state)
{
	enum { KEPT = 0x18040 };

	(void)state;
	op(0, "aten::relu", T(W2, R));
	said_as(W2, EV_TENSOR_PARAMETER | EV_TENSOR_INNER);
	for (int i = 0; i < 3; i++) {
		make(X, "aten::randn");
		make(OUT, "aten::mm", T(X, R), T(WT, R));
		backward_of(WT, GW);
		apply(0, "MulBackward0", T(OUT));
		op(2, "aten::mul", T(OUT, R), T(X, R));
		allocated_of(KEPT, 3, SIZE);
		accumulate(0, 0, 0);
		backward_of_wrapped(Z, SIZE);
		if (i == 1) /* a look: from then on it is known where such a one is made */
			said_as(Z, EV_TENSOR_GRADIENT | EV_TENSOR_INNER);
		step_begin();
		assert_string_equal(cat(Z), i ? "GRADIENT" : "AUTOGRAD_DETAIL");
		assert_string_not_equal(cat(KEPT), "GRADIENT");
		step_end();
		for (size_t k = 0; k < 5; k++)
			freed((const uint64_t[]){ X, OUT, GW, Z, KEPT }[k], 0);
	}
}

static void ask_for_gradients(void)
{
	accumulate(Z, 0, 0);
	accumulate(W2, 0, 0);
}

/* What a pipeline's stage receives asks for a gradient, as a parameter does. Where parameters have names it has none. */
static void received_from_a_stage(void **state)
{
	(void)state;
	rounds(4, ask_for_gradients);
	assert_string_equal(cat(Z), "PARAMETER"); /* nobody has a name */
	said_as(WT, EV_TENSOR_PARAMETER);
	said_as(W2, EV_TENSOR_PARAMETER); /* that rests */
	rounds(2, ask_for_gradients);
	assert_string_equal(cat(Z), "INPUT");
	assert_string_equal(cat(W2), "PARAMETER");
	assert_string_equal(cat(WT), "PARAMETER");
	said_as(Z, EV_TENSOR_PARAMETER); /* it came late */
	assert_string_equal(cat(Z), "PARAMETER");
}

/* A recording that begins later says what was found of it, and nothing else. */
static void received_and_carried_on(void **state)
{
	struct event ev = { 0 };
	const struct fblock *f;

	(void)state;
	rounds(4, ask_for_gradients);
	said_as(WT, EV_TENSOR_PARAMETER);
	said_as(W2, EV_TENSOR_PARAMETER);
	rounds(2, ask_for_gradients);
	assert_string_equal(cat(Z), "INPUT");
	assert_true(graph__memory(m->graph, block(Z)->id, &ev));
	ev.kind = EV_WAS_FLOW;
	ev.dev = MT_DEV_CPU;
	ev.addr = BUF;
	send((struct event){ .kind = EV_WAS, .dev = MT_DEV_CPU, .addr = BUF, .size = SIZE });
	send(ev);
	f = graph__find(m->graph, block(BUF)->id);
	assert_true(f->marks & FM_RECEIVED);
	assert_int_equal(f->made, 0);
}

/* torch.profiler reads state and gradients from Python, too, but parameters only of modules that are called. */
static void with_the_profilers_words(void **state)
{
	(void)state;
	rounds(2, use_buffers);
	step_begin();
	op(0, "aten::add_", T(M1, W | R), T(X, R));
	op(0, "aten::add_", T(M2, W | R), T(X, R));
	step_end();
	assert_string_equal(cat(M1), "OPTIMIZER_STATE");
	said_as(M1, EV_TENSOR_PARAMETER); /* whose gradient was assigned: only the optimizer writes it */
	assert_string_equal(cat(M1), "PARAMETER");
	assert_string_equal(cat(M2), "OPTIMIZER_STATE");
	op(0, "aten::mul", T(Z, R), T(WT, R));
	assert_string_equal(cat(Z), "INPUT");
	said_as(Z, EV_TENSOR_PARAMETER);
	assert_string_equal(cat(Z), "INPUT");
	said_as(Z, EV_TENSOR_STATE);
	assert_string_equal(cat(Z), "OPTIMIZER_STATE");
	said_as(WT, EV_TENSOR_BUFFER); /* no word of the profiler's */
	assert_string_equal(cat(WT), "PARAMETER");
}

/* An average that was met as it was read, for the profiler a batch: what is written into it from weights is an activation. */
static void average_by_its_use(void **state)
{
	static const uint64_t more[] = { X, OUT, Y, BUF };
	struct report *r;

	(void)state;
	op(0, "aten::mul", T(EMA, R), T(WT, R));
	rounds(3, write_average);
	assert_string_equal(cat(EMA), "ACTIVATION");
	said_as(EMA, EV_TENSOR_PARAMETER);
	assert_string_equal(cat(EMA), "ACTIVATION");
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
		make(more[i], "aten::randn"); /* the peak */
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->devs[0].cats[CAT_ACTIVATION].plain, -(int64_t)SIZE);
	assert_int_equal(r->devs[0].cats[CAT_PARAMETER].plain, SIZE);
	report__free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copies_of_parameters, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(frozen_beside_a_compiled_optimizer, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(python_has_the_last_word, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(gradients_of_wrapped, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(gradients_of_wrapped, setup, teardown),
		cmocka_unit_test_setup_teardown(activations_of_wrapped, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(activations_of_wrapped, setup, teardown),
		cmocka_unit_test_setup_teardown(activations_before_python, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(activations_before_python, setup, teardown),
		cmocka_unit_test_setup_teardown(python_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(python_is_not_waited_for_long, setup, teardown),
		cmocka_unit_test_setup_teardown(products_of_wrapped, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(products_of_wrapped, setup, teardown),
		cmocka_unit_test_setup_teardown(products_before_pythons_word, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(products_before_pythons_word, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_that_fsdp_gathers, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(more_than_parameters, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(more_than_parameters, setup, teardown),
		cmocka_unit_test_setup_teardown(added_up_extended, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(added_up_compat, setup, teardown),
		cmocka_unit_test_setup_teardown(received_from_a_stage, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(received_and_carried_on, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_a_resting_parts_gradient, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(with_the_profilers_words, setup, teardown),
		cmocka_unit_test_setup_teardown(average_by_its_use, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
