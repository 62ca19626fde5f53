/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What autograd keeps from forward to backward: each rule on a few events. */
#include "unit/flow_help.h"

enum { X = 0x1000, WT = 0x2000, A = 0x3000, B = 0x4000, LOSS = 0x5000, SEED = 0x6000, GA = 0x7000, GW = 0x8000, Y = 0x9000,
       MASK = 0xa000, C = 0xb000 };

static struct report *rep;

static int setup_covered(void **state)
{
	int err = setup(state);

	send((struct event){ .kind = EV_PROC, .flags = EV_PROC_ATTACHED, .name = names__add(names, "python") });
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "flow"), .size = 10, .addr = 10 });
	rep = NULL;
	return err;
}

static int teardown_reported(void **state)
{
	report__free(rep);
	return teardown(state);
}

static const struct report_saved_proc *saved(void)
{
	model__check(m);
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 100, &rep), 0);
	return rep->saved.procs_cnt ? &rep->saved.procs[0] : NULL;
}

static const struct report_saved_block *kept(uint64_t ptr)
{
	for (size_t i = 0; i < rep->saved.blocks_cnt; i++)
		if (rep->saved.blocks[i].ptr == ptr)
			return &rep->saved.blocks[i];
	return NULL;
}

/* X → A (kept for a product) → B (kept by its own function) → LOSS. */
static void forward(void)
{
	make(X, "aten::randn");
	make(A, "aten::mul.Tensor", T(X, R));
	op(0, "aten::linear", T(A, R), T(WT, R | WEIGHT));
	op(1, "aten::mm", T(A, R), T(WT, R));
	allocated(B, 2);
	make(LOSS, "aten::sum", T(B, R));
}

static void backward_begins(void)
{
	make(SEED, "aten::ones_like", T(LOSS, R));
}

static void mm_backward(void)
{
	apply(0, "MmBackward0", T(SEED));
	op(2, "aten::mm", T(SEED, R), T(A, R), T(WT, R));
	allocated(GA, 3);
	allocated(GW, 3);
	freed(A, 1);
	accumulate(WT, 0, GW);
}

static void backward(void)
{
	backward_begins();
	apply(0, "TanhBackward0", T(SEED));
	op(2, "aten::tanh_backward", T(SEED, R), T(B, R));
	allocated(Y, 3);
	freed(Y, 1);
	freed(B, 1);
	mm_backward();
}

static void sgd(void)
{
	step_begin();
	op(0, "aten::add_.Tensor", T(WT, W | R), T(GW, R));
	step_end();
	op(0, "aten::zero_", T(GW, R));
	freed(GA, 0);
	freed(GW, 0);
	freed(LOSS, 0);
	freed(SEED, 0);
	freed(X, 0);
}

static void a_step(void)
{
	forward();
	backward();
	sgd();
}

/* What nodes read and let go of; not the weights, not what backward makes, not the gradient that it begins with. */
static void what_nodes_use(void **state)
{
	const struct report_saved_proc *s;

	(void)state;
	a_step();
	assert_null(saved()); /* attached: the first pass may have been seen in part */
	a_step();
	s = saved();
	assert_int_equal(s->pid, PID);
	assert_int_equal(s->passes, 2);
	assert_int_equal(s->cnt, 2);
	assert_int_equal(s->bytes, 2 * SIZE);
	assert_int_equal(s->last_bytes, 2 * SIZE);
	assert_string_equal(kept(A)->of.node, "MmBackward0");
	assert_string_equal(kept(A)->of.op, "aten::mul.Tensor");
	assert_string_equal(kept(B)->of.node, "TanhBackward0");
	assert_string_equal(kept(B)->of.op, "aten::mm");
	assert_int_equal(rep->saved.total, 2);
	assert_int_equal(rep->saved.rows[0].bytes, SIZE);
	assert_null(kept(WT));
	assert_null(kept(SEED));
}

/* Launched: its only pass is whole. */
static void one_pass_from_the_start(void **state)
{
	(void)state;
	send((struct event){ .kind = EV_PROC, .flags = EV_PROC_FORKED, .name = names__add(names, "python") });
	make(WT, "aten::empty");
	a_step();
	assert_int_equal(saved()->cnt, 2);
	assert_null(kept(WT));
}

/* Nobody is seen to read it: compiled code, a boxed call. That the node frees it says whose it is. */
static void freed_in_a_node(void **state)
{
	(void)state;
	a_step();
	make(C, "aten::randn");
	forward();
	freed(C, 0); /* before backward: not kept */
	make(C, "aten::empty");
	backward_begins();
	apply(0, "CompiledFunctionBackward", T(SEED));
	allocated(GA, 2);
	freed(C, 2);
	apply(0, "TanhBackward0", T(SEED));
	freed(B, 1);
	mm_backward();
	sgd();
	assert_int_equal(saved()->cnt, 3);
	assert_string_equal(kept(C)->of.node, "CompiledFunctionBackward");
}

/* Of the node that was just entered, at depth 0. */
static void has_saved(uint64_t ptr)
{
	send((struct event){ .kind = MT_EV_SAVED, .addr = ptr, .size = ptr ? SIZE : 0, .dev = where, .depth = 1,
			     .seq = seqs[0] });
}

/* What a node that Python defined says it has saved, although the job holds it and only kernels are given it. */
static void saved_by_its_node(void **state)
{
	(void)state;
	a_step();
	make(C, "aten::randn");
	forward();
	has_saved(C); /* no pass is under way: it says nothing */
	backward_begins();
	apply(0, "TanhBackward0", T(SEED));
	allocated(MASK, 2); /* a gradient */
	freed(B, 1);
	frame(MT_EV_NODE, "CompiledFunctionBackward", 0);
	has_saved(0);
	has_saved(C);
	has_saved(WT);
	has_saved(MASK);
	mm_backward();
	sgd();
	assert_int_equal(saved()->cnt, 3);
	assert_string_equal(kept(C)->of.node, "CompiledFunctionBackward");
	assert_null(kept(WT));
	assert_null(kept(MASK));
}

/* Of the graph that is kept (retain_graph) nothing is freed; the second pass over it counts alike. */
static void a_graph_that_is_kept(void **state)
{
	(void)state;
	a_step();
	forward();
	for (int i = 0; i < 2; i++) {
		if (i)
			freed(SEED, 0);
		backward_begins();
		apply(0, "TanhBackward0", T(SEED));
		op(2, "aten::tanh_backward", T(SEED, R), T(B, R));
		apply(0, "MmBackward0", T(SEED));
		op(2, "aten::mm", T(SEED, R), T(A, R), T(WT, R));
	}
	op(0, "aten::zero_", T(X, R));
	assert_int_equal(saved()->passes, 3);
	assert_int_equal(saved()->cnt, 2);
	assert_int_equal(saved()->last_bytes, 2 * SIZE);
}

/* Forward, backward, forward, backward, step: each pass has its own; the largest is told. */
static void several_passes_a_step(void **state)
{
	(void)state;
	a_step();
	forward();
	make(MASK, "aten::bernoulli", T(A, R));
	backward_begins();
	apply(0, "MulBackward0", T(SEED));
	op(2, "aten::mul.Tensor", T(SEED, R), T(MASK, R));
	freed(MASK, 1);
	apply(0, "TanhBackward0", T(SEED));
	freed(B, 1);
	mm_backward();
	op(0, "aten::zero_", T(X, R));
	freed(GA, 0);
	freed(GW, 0);
	freed(LOSS, 0);
	freed(SEED, 0);
	freed(X, 0);
	a_step();
	assert_int_equal(saved()->passes, 3);
	assert_int_equal(saved()->bytes, 3 * SIZE);
	assert_int_equal(saved()->last_bytes, 2 * SIZE);
	assert_string_equal(kept(MASK)->of.node, "MulBackward0");
}

/* A graph waits while another one has its backward: it is kept then, too. */
static void a_graph_that_waits(void **state)
{
	(void)state;
	a_step();
	a_step();
	make(C, "aten::tanh"); /* of the other graph */
	a_step();
	make(SEED, "aten::ones_like", T(C, R));
	apply(0, "SinBackward0", T(SEED));
	op(2, "aten::mul.Tensor", T(SEED, R), T(C, R));
	freed(C, 1);
	op(0, "aten::zero_", T(WT, R));
	assert_int_equal(saved()->passes, 4);
	assert_int_equal(saved()->cnt, 3);
	assert_int_equal(saved()->last_bytes, SIZE);
	assert_string_equal(kept(C)->of.node, "SinBackward0");
}

/* Recomputation inside of backward makes what is no longer kept; its input is. */
static void recomputed(void **state)
{
	(void)state;
	a_step();
	make(X, "aten::randn");
	make(LOSS, "aten::sum", T(X, R));
	backward_begins();
	apply(0, "CheckpointFunctionBackward", T(SEED));
	op(2, "aten::mul.Tensor", T(X, R));
	allocated(A, 3);
	frame(MT_EV_NODE, "MulBackward0", 2);
	op(3, "aten::mul.Tensor", T(SEED, R), T(A, R));
	freed(A, 3);
	op(0, "aten::zero_", T(WT, R));
	assert_int_equal(saved()->cnt, 1);
	assert_string_equal(kept(X)->of.node, "CheckpointFunctionBackward");
}

/* Gradients that are there from the pass before, and what an optimizer in a hook is given. */
static void not_autograds(void **state)
{
	(void)state;
	a_step();
	make(C, "aten::zeros");
	forward();
	backward_begins();
	apply(0, "TanhBackward0", T(SEED));
	freed(B, 1);
	mm_backward();
	accumulate(WT, GW, GA);
	frame(MT_EV_NODE, "torch::autograd::AccumulateGrad", 0);
	op(1, "aten::add_.Tensor", T(C, W | R));
	freed(C, 1);
	frame(MT_EV_NODE, "MulBackward0", 0);
	step_begin();
	op(1, "aten::add_.Tensor", T(X, W | R));
	step_end();
	op(0, "aten::zero_", T(WT, R));
	assert_int_equal(saved()->cnt, 2);
	assert_non_null(kept(A));
	assert_non_null(kept(B));
}

/* No node, no pass: evaluation, and what lives on. */
static void nothing_without_backward(void **state)
{
	(void)state;
	forward();
	freed(B, 0);
	op(0, "aten::zero_", T(WT, R));
	assert_null(saved());
}

/* Of a process, not of a thread. */
static void reported(struct event ev)
{
	ev.pid = PID;
	ev.ts_ns = ts;
	assert_int_equal(model__handle(m, &ev), 0);
}

/* What Python has a name for is the model's, also when the name comes after the pass. */
static void named_late(void **state)
{
	(void)state;
	make(C, "aten::zeros");
	for (int i = 0; i < 2; i++) {
		forward();
		backward_begins();
		apply(0, "NativeBatchNormBackward0", T(SEED));
		op(2, "aten::native_batch_norm_backward", T(SEED, R), T(C, R));
		apply(0, "TanhBackward0", T(SEED));
		freed(B, 1);
		mm_backward();
		sgd();
	}
	assert_int_equal(saved()->cnt, 3);
	reported((struct event){ .kind = EV_TENSOR, .addr = C, .size = SIZE, .flags = EV_TENSOR_BUFFER,
			     .name = names__add(names, "norm.running_mean"), .root = names__add(names, "Net"),
			     .type = names__add(names, "float32[16]") });
	assert_int_equal(saved()->cnt, 2);
	assert_null(kept(C));
}

static void at(uint64_t module)
{
	send((struct event){ .kind = EV_MODULE_AT, .addr = module });
}

static void module(uint64_t addr, uint64_t in, const char *path)
{
	reported((struct event){ .kind = EV_MODULE, .addr = addr, .size = in, .name = names__add(names, path),
			     .root = names__add(names, "Net"), .type = names__add(names, in ? "Tanh" : "Net") });
}

/* Layers that differ in their number alone are one row; a module's own sum has them apart. */
static void rows_by_pattern(void **state)
{
	static const char *const paths[] = { "layers.0.act", "layers.1.act", "layers.1x.act", "head" };

	(void)state;
	module(0x10, 0, "");
	for (unsigned i = 0; i < 4; i++)
		module(0x20 + i, 0x10, paths[i]);
	for (int step = 0; step < 2; step++) {
		for (unsigned i = 0; i < 4; i++) {
			at(0x20 + i);
			make(0x10000 + 0x1000 * i, "aten::tanh", T(WT, R | WEIGHT));
		}
		at(0);
		make(SEED, "aten::ones_like");
		for (unsigned i = 0; i < 4; i++) {
			apply(0, "TanhBackward0", T(SEED));
			freed(0x10000 + 0x1000 * i, 1);
		}
		op(0, "aten::zero_", T(WT, R));
		freed(SEED, 0);
	}
	assert_int_equal(saved()->cnt, 4);
	assert_int_equal(rep->saved.total, 3);
	assert_string_equal(rep->saved.rows[0].module, "layers.*.act");
	assert_string_equal(rep->saved.rows[0].root, "Net");
	assert_int_equal(rep->saved.rows[0].modules, 2);
	assert_int_equal(rep->saved.rows[0].bytes, 2 * SIZE);
	assert_int_equal(rep->saved.rows[0].cnt, 2);
	assert_string_equal(rep->saved.rows[1].module, "head");
	assert_string_equal(rep->saved.rows[2].module, "layers.1x.act");
	assert_int_equal(rep->modules.cnt, 5);
	assert_int_equal(rep->modules.rows[0].all.saved, 4 * SIZE);
	assert_int_equal(rep->modules.rows[0].own.saved, 0);
	assert_int_equal(rep->modules.rows[1].own.saved, SIZE);
}

static void backward_of(uint64_t module)
{
	send((struct event){ .kind = EV_MODULE_AT, .addr = module, .flags = EV_MODULE_BACKWARD });
}

static const struct report_module_sum *all_of(const char *path)
{
	for (size_t i = 0; i < rep->modules.cnt; i++)
		if (!strcmp(rep->modules.rows[i].name, path))
			return &rep->modules.rows[i].all;
	fail();
	return NULL;
}

/* Computed again with all that has it, in its module or in one around it, a block would not be kept. */
static void who_would_recompute(void **state)
{
	static const char *const paths[] = { "a", "a.x", "a.y", "b" };

	(void)state;
	module(0x10, 0, "");
	module(0x20, 0x10, paths[0]);
	module(0x21, 0x20, paths[1]);
	module(0x22, 0x20, paths[2]);
	module(0x23, 0x10, paths[3]);
	for (int step = 0; step < 2; step++) {
		at(0x21);
		make(A, "aten::tanh"); /* of a.x's own node */
		make(B, "aten::mul");  /* of a.y's, too */
		make(C, "aten::add");  /* b's: the root alone has both */
		make(X, "aten::exp");  /* of a node of none */
		at(0);
		make(SEED, "aten::ones_like");
		apply(0, "ExpBackward0", T(SEED));
		freed(X, 1);
		backward_of(0x23);
		apply(0, "MulBackward0", T(SEED));
		op(2, "aten::mul", T(C, R));
		backward_of(0x22);
		apply(0, "MulBackward0", T(SEED));
		op(2, "aten::mul", T(B, R));
		backward_of(0x21);
		apply(0, "TanhBackward0", T(SEED));
		freed(A, 1);
		freed(B, 1);
		freed(C, 1);
		backward_of(0);
		op(0, "aten::zero_", T(WT, R));
		freed(SEED, 0);
	}
	assert_int_equal(saved()->cnt, 4);
	assert_string_equal(kept(A)->of.recompute, "a.x");
	assert_string_equal(kept(B)->of.recompute, "a");
	assert_null(kept(C)->of.recompute);
	assert_null(kept(X)->of.recompute);
	assert_int_equal(all_of("")->recomputable, 2 * SIZE);
	assert_int_equal(all_of("a")->recomputable, 2 * SIZE);
	assert_int_equal(all_of("a.x")->recomputable, SIZE);
	assert_int_equal(all_of("a.x")->saved, 4 * SIZE);
	assert_int_equal(all_of("a.y")->recomputable, 0);
	assert_int_equal(all_of("b")->recomputable, 0);
	assert_int_equal(rep->modules.none.recomputable, 0);
}

/* However many blocks a job says to keep, memory has its limit, and what found no room is said. */
static void too_many(void **state)
{
	enum { MANY = 700000 };
	const struct report_saved_proc *s;

	(void)state;
	a_step();
	forward();
	op(0, "aten::split", T(X, R));
	for (uint64_t i = 0; i < MANY; i++)
		allocated(0x10000000 + 64 * i, 1);
	backward_begins();
	apply(0, "SplitBackward0", T(SEED));
	for (uint64_t i = 0; i < MANY; i++)
		freed(0x10000000 + 64 * i, 1);
	op(0, "aten::zero_", T(WT, R));
	assert_in_range(m->saved_bytes, 1, SAVED_BYTES_MAX / 2 + (1 << 20));
	s = saved();
	assert_int_equal(s->cnt, MANY);
	assert_int_equal(s->bytes, MANY * (uint64_t)SIZE);
	assert_in_range(s->rest_cnt, 1, MANY - 1000);
	assert_int_equal(s->rest_bytes, s->rest_cnt * SIZE);
}

/* Steps do not add up to memory. */
static void flat(void **state)
{
	size_t after = 0;

	(void)state;
	for (int i = 0; i < 500; i++) {
		a_step();
		if (i == 40)
			after = m->saved_bytes;
	}
	assert_int_equal(m->saved_bytes, after);
	assert_int_equal(saved()->passes, 500);
	send((struct event){ .kind = EV_PROC, .flags = EV_PROC_EXECED, .name = names__add(names, "sh") });
	assert_int_equal(m->saved_bytes, 0);
	assert_null(saved());
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup_covered, teardown_reported)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(what_nodes_use), test(one_pass_from_the_start), test(freed_in_a_node), test(saved_by_its_node),
		test(a_graph_that_is_kept), test(several_passes_a_step), test(a_graph_that_waits), test(recomputed),
		test(not_autograds), test(nothing_without_backward), test(named_late), test(rows_by_pattern),
		test(who_would_recompute), test(too_many), test(flat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
