/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Modules and phases: whose a block is, sums along the way to the root, marks, inputs and outputs, bounds. */

#include "base/names.h"
#include "model/core/modules.h"
#include "model/core/op_modules.h"
#include "unit/model_help.h"

#define PID 100u
#define NET 0x1000u
#define BLOCK 0x2000u
#define LINEAR 0x3000u
#define HEAD 0x4000u

static uint64_t now, next_ptr;
static uint32_t seq, frames[8];
static unsigned depth, marks_reported;
static uint8_t op_phase; /* of the last operator that the timeline was told of */

static struct tl_event created, named; /* the last block, the last module that got a name */

static int on_timeline(void *ctx, const struct tl_event *tl)
{
	(void)ctx;
	if (tl->kind == TL_CREATE)
		created = *tl;
	if (tl->kind == TL_MODULE)
		named = *tl;
	marks_reported += tl->kind == TL_MARK;
	if (tl->kind == TL_OP)
		op_phase = tl->phase;
	return 0;
}

static int setup(void **state)
{
	struct model_opts mo = { .timeline = on_timeline, .timeline_ops = 1 };

	(void)state;
	now = 1000;
	next_ptr = 0x10000;
	seq = depth = marks_reported = 0;
	return model_begin(&mo);
}

static void send_as(uint32_t tid, struct event ev)
{
	ev.ts_ns = now += 1000;
	ev.pid = PID;
	ev.tid = tid;
	assert_int_equal(model__handle(m, &ev), 0);
}

static void send(struct event ev)
{
	send_as(PID, ev);
}

static void define_as(uint64_t addr, uint64_t parent, const char *path, const char *root, const char *class)
{
	struct event ev = { .ts_ns = now, .kind = EV_MODULE, .pid = PID, .addr = addr, .size = parent,
			    .name = names__add(names, path), .tid = names__add(names, root).v,
			    .seq = names__add(names, class).v };

	assert_int_equal(model__handle(m, &ev), 0);
}

static void define(uint64_t addr, uint64_t parent, const char *path, const char *class)
{
	define_as(addr, parent, path, "Net", class);
}

static void define_net(void)
{
	define(NET, 0, "", "Net");
	define(BLOCK, NET, "block", "Block");
	define(LINEAR, BLOCK, "block.linear", "Linear");
	define(HEAD, NET, "head", "Linear");
}

static void place(struct event *ev)
{
	ev->depth = (uint8_t)depth;
	ev->seq = depth ? frames[depth - 1] : 0;
}

static void at(uint64_t module, uint8_t flags)
{
	struct event ev = { .kind = EV_MODULE_AT, .addr = module, .flags = flags };

	place(&ev);
	send(ev);
}

static void enter(uint8_t kind, const char *name)
{
	frames[depth] = ++seq;
	send((struct event){ .kind = kind, .name = names__add(names, name), .depth = (uint8_t)depth, .seq = seq });
	depth++;
}

static uint64_t allocated(uint64_t size)
{
	struct event ev = { .kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = next_ptr += 0x1000, .size = size };

	place(&ev);
	send(ev);
	return next_ptr;
}

static void dies(uint64_t ptr)
{
	send((struct event){ .kind = MT_EV_FREE, .dev = MT_DEV_CPU, .addr = ptr });
}

/* An operator of Python's that is given a block and makes one, in a module. */
static uint64_t op(uint64_t module, uint64_t given, uint64_t size)
{
	uint64_t ptr;

	enter(MT_EV_OP, "aten::op");
	if (given)
		send((struct event){ .kind = EV_ARG, .dev = MT_DEV_CPU, .addr = given, .size = 16, .depth = (uint8_t)depth,
				     .seq = seq, .flags = MT_CLASS_PLAIN });
	at(module, 0);
	ptr = allocated(size);
	depth--;
	return ptr;
}

static void region(const char *name, int begin)
{
	send((struct event){ .kind = begin ? MT_EV_REGION_BEGIN : MT_EV_REGION_END, .name = names__add(names, name) });
}

static const struct report *report(void)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return rep;
}

static const struct report_module *module(const char *path)
{
	for (size_t i = 0; i < report()->modules.cnt; i++)
		if (rep->modules.rows[i].name && !strcmp(rep->modules.rows[i].name, path))
			return &rep->modules.rows[i];
	fail_msg("no module %s", path);
	return NULL;
}

/* --- whose ---------------------------------------------------------------------------------------------------- */

static void the_innermost_module_and_those_around_it(void **state)
{
	const struct report_module *r;
	uint64_t x;

	(void)state;
	define_net();
	x = op(LINEAR, 0, 100);
	(void)op(BLOCK, 0, 30);
	(void)op(0, 0, 7);
	r = module("block.linear");
	assert_int_equal(r->own.live, 100);
	assert_int_equal(r->activation, 100);
	r = module("block");
	assert_int_equal(r->own.live, 30);
	assert_int_equal(r->all.live, 130);
	assert_int_equal(r->activation, 130);
	assert_int_equal(r->depth, 1);
	assert_string_equal(rep->modules.rows[r->parent - 1].class, "Net");
	assert_int_equal(module("")->all.alloc_count, 2);
	assert_int_equal(module("head")->all.alloc_count, 0);
	assert_int_equal(rep->modules.none.live, 7);
	dies(x);
	assert_int_equal(module("block")->activation_live, 30);
	assert_int_equal(module("block")->activation, 130);
	assert_int_equal(module("block")->all.by_phase_bytes[PHASE_FORWARD], 130);
	assert_int_equal(module("block")->peak_forward, 130);
}

/* A block before its module has a name says a number, which the name comes with. */
static void the_timeline_tells_of_it(void **state)
{
	struct model_opts mo = { .timeline = on_timeline, .timeline_nodes = 1 };

	(void)state;
	(void)teardown(NULL);
	assert_int_equal(model_begin(&mo), 0);
	(void)op(LINEAR, 0, 100);
	assert_true(created.module_number && !created.module.v && !created.root.v);
	define_net();
	define(LINEAR, BLOCK, "block.linear", "Linear");
	assert_int_equal(named.id, created.module_number);
	assert_string_equal(names__get(names, named.op), "block.linear");
	assert_string_equal(names__get(names, named.region), "Net");
	(void)op(LINEAR, 0, 100);
	assert_true(!created.module_number && created.module.v == named.op.v && created.root.v == named.region.v);
	(void)op(0, 0, 7);
	assert_true(!created.module_number && !created.root.v); /* of no module */
}

/* Blocks come before names: the module is known by its address, and gets its place when that is told. */
static void a_module_may_be_reported_of_later(void **state)
{
	(void)state;
	(void)op(LINEAR, 0, 100);
	assert_int_equal(report()->modules.cnt, 1);
	assert_null(rep->modules.rows[0].name);
	(void)op(BLOCK, 0, 50);
	define_net();
	assert_int_equal(module("block")->activation, 150);
	assert_int_equal(module("")->activation, 150);
	assert_int_equal(module("")->peak_forward, 150);
	define_net(); /* told again: nothing changes */
	assert_int_equal(report()->modules.cnt, 4);
	assert_int_equal(module("")->activation, 150);
}

static void another_module_at_the_same_address(void **state)
{
	uint64_t x;

	(void)state;
	define_net();
	x = op(LINEAR, 0, 100);
	define(LINEAR, NET, "other", "Conv2d");
	(void)op(LINEAR, 0, 40);
	assert_int_equal(module("block.linear")->own.live, 100);
	assert_int_equal(module("other")->own.live, 40);
	assert_int_equal(module("block")->activation, 100);
	dies(x);
	assert_int_equal(module("block")->activation_live, 0);
}

static void backward_is_of_whoever_made_the_node(void **state)
{
	const struct report_module *r;

	(void)state;
	define_net();
	(void)op(LINEAR, 0, 100);
	at(LINEAR, EV_MODULE_BACKWARD);
	enter(MT_EV_NODE, "AddmmBackward0");
	(void)op(0, 0, 60);
	(void)op(HEAD, 0, 20); /* a module's forward inside of a node: recomputed */
	(void)op(0, 0, 5);
	depth--;
	(void)op(0, 0, 3); /* outside of all */
	r = module("block.linear");
	assert_int_equal(r->own.by_phase_bytes[PHASE_BACKWARD], 65);
	assert_int_equal(r->activation, 100);
	assert_int_equal(r->peak_backward, 185);
	assert_int_equal(module("head")->own.by_phase_bytes[PHASE_RECOMPUTE], 20);
	assert_int_equal(module("head")->activation, 20);
	assert_int_equal(rep->modules.none.alloc_bytes, 3);
	assert_int_equal(rep->modules.phases[PHASE_OTHER].alloc_bytes, 3);
}

static void a_gpu_s_backward_has_a_thread_of_its_own(void **state)
{
	(void)state;
	define_net();
	(void)op(LINEAR, 0, 100);
	send_as(7, (struct event){ .kind = EV_MODULE_AT, .addr = LINEAR, .flags = EV_MODULE_BACKWARD });
	send_as(7, (struct event){ .kind = MT_EV_NODE, .name = names__add(names, "MulBackward0"), .seq = 1 });
	send_as(7, (struct event){ .kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = 0x70, .size = 9, .depth = 1, .seq = 1 });
	(void)op(0, 0, 4); /* the thread that asked for it goes on */
	assert_int_equal(module("block.linear")->own.by_phase_bytes[PHASE_BACKWARD], 9);
	assert_int_equal(rep->modules.phases[PHASE_OTHER].alloc_bytes, 4);
	assert_int_equal(rep->marks.by_kind[MARK_FW_BW_BOUNDARY], 1);
}

static const struct report_oom *refused(void)
{
	struct event ev = { .kind = MT_EV_OOM, .dev = MT_DEV_CPU, .size = 1 << 30 };

	now += 1000000000; /* no second try */
	place(&ev);
	send(ev);
	depth--;
	report();
	return &rep->ooms.rows[rep->ooms.cnt - 1];
}

/* The module that allocated last is not it: it is said where it was reported in the very operator. */
static void whose_a_refusal_is(void **state)
{
	const struct report_oom *o;

	(void)state;
	define_net();
	(void)op(LINEAR, 0, 100);
	enter(MT_EV_OP, "aten::mm");
	o = refused();
	assert_true(!o->module && !o->root && !o->phase && !strcmp(o->op, "aten::mm"));
	enter(MT_EV_OP, "aten::mm");
	at(HEAD, 0);
	o = refused();
	assert_string_equal(o->module, "head");
	assert_string_equal(o->root, "Net");
	assert_int_equal(o->phase, PHASE_FORWARD);
	at(LINEAR, EV_MODULE_BACKWARD);
	enter(MT_EV_NODE, "AddmmBackward0");
	enter(MT_EV_OP, "aten::mm");
	o = refused();
	assert_null(o->module);
	enter(MT_EV_OP, "aten::mm");
	at(0, 0);
	o = refused();
	assert_string_equal(o->module, "block.linear");
	assert_int_equal(o->phase, PHASE_BACKWARD);
	enter(MT_EV_OP, "aten::mm");
	at(HEAD, 0);
	o = refused();
	assert_string_equal(o->module, "head");
	assert_int_equal(o->phase, PHASE_RECOMPUTE);
	depth--;
	enter(MT_EV_OP, "aten::mm");
	at(0, 0);
	assert_null(refused()->module); /* outside of all */
	enter(MT_EV_OP, "aten::mm");
	at(0x9999, 0);
	assert_null(refused()->module); /* one without a name */
}

/* --- phases --------------------------------------------------------------------------------------------------- */

static void phases_of_a_step_and_their_marks(void **state)
{
	static const uint8_t want[] = { MARK_FW_START, MARK_FW_BW_BOUNDARY, MARK_STEP };

	(void)state;
	define_net();
	(void)op(0, 0, 1); /* a batch */
	for (unsigned step = 0; step < 2; step++) {
		(void)op(LINEAR, 0, 10);
		(void)op(0, 0, 20); /* the loss */
		enter(MT_EV_NODE, "MseLossBackward0");
		(void)op(0, 0, 40);
		depth--;
		region("Optimizer.step#Adam.step", 1);
		(void)op(0, 0, 80);
		region("", 0);
		(void)op(0, 0, 160);
	}
	at(NET, MT_MODULE_NO_GRAD);
	(void)allocated(320);
	report();
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].alloc_bytes, 60);
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].entries, 2);
	assert_int_equal(rep->modules.phases[PHASE_BACKWARD].alloc_bytes, 80);
	assert_int_equal(rep->modules.phases[PHASE_OPTIMIZER].alloc_bytes, 160);
	assert_int_equal(rep->modules.phases[PHASE_OTHER].alloc_bytes, 321);
	assert_int_equal(rep->modules.phases[PHASE_EVALUATION].alloc_bytes, 320);
	assert_int_equal(rep->marks.cnt, 6);
	assert_int_equal(marks_reported, 6);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(rep->marks.rows[i].kind, want[i % 3]);
	assert_int_equal(rep->marks.rows[5].number, 2);
	assert_true(rep->modules.phases[PHASE_FORWARD].ns && rep->modules.phases[PHASE_BACKWARD].ns);
}

static void memory_at_the_marks_of_steps(void **state)
{
	uint64_t ptr[3];

	(void)state;
	define_net();
	(void)op(0, 0, 1000); /* a batch */
	for (unsigned step = 0; step < 3; step++) {
		ptr[0] = op(LINEAR, 0, 10 + step % 2);
		ptr[1] = op(LINEAR, 0, 500);
		dies(ptr[1]);
		enter(MT_EV_NODE, "AddmmBackward0");
		ptr[2] = op(0, 0, 40);
		dies(ptr[2]);
		dies(ptr[0]);
		depth--;
		region("Optimizer.step#Adam.step", 1);
		(void)op(0, 0, 1);
		region("", 0);
	}
	report();
	assert_int_equal(rep->marks.steps_cnt, 3);
	for (unsigned step = 0; step < 3; step++) {
		const struct step_marks *s = &rep->marks.steps[step];

		assert_int_equal(s->number, step + 1);
		assert_int_equal(s->pid, PID);
		assert_int_equal(s->at[MARK_FW_START].live, 1000 + step);
		assert_int_equal(s->at[MARK_FW_BW_BOUNDARY].live, 1010 + step + step % 2);
		assert_int_equal(s->at[MARK_FW_BW_BOUNDARY].peak, 1510 + step + step % 2);
		assert_int_equal(s->at[MARK_STEP].live, 1001 + step);
		assert_int_equal(s->at[MARK_STEP].peak, 1050 + step + step % 2);
		assert_int_equal(step_marks__peak(s), 1510 + step + step % 2);
	}
	assert_int_equal(rep->marks.steps[0].begin_ts_ns, 0);
	assert_int_equal(rep->marks.steps[2].begin_ts_ns, rep->marks.steps[1].at[MARK_STEP].ts_ns);
	assert_int_equal(rep->procs[0].highest_step.number, 2); /* 1512, the last has as much */
	assert_int_equal(rep->procs[0].marks_cnt[MARK_STEP], 3);
	assert_int_equal(rep->procs[0].marks[MARK_FW_BW_BOUNDARY].live, 1012);
	assert_int_equal(rep->marks.rows[0].at.live, 1000);
	assert_int_equal(rep->marks.rows[1].at.peak, 1510);
}

/* A forward of 1000 bytes, and what the optimizer makes and keeps. */
static void step_that_keeps(uint64_t size)
{
	dies(op(LINEAR, 0, 1000));
	region("Optimizer.step#Adam.step", 1);
	if (size)
		(void)op(0, 0, size);
	region("", 0);
}

static void check_settling(const uint64_t *kept, const char *want)
{
	char got[32] = "";

	define_net();
	for (size_t i = 0; i < strlen(want); i++)
		step_that_keeps(kept[i]);
	report();
	assert_int_equal(rep->marks.steps_cnt, strlen(want));
	for (size_t i = 0; i < rep->marks.steps_cnt; i++)
		got[i] = rep->marks.steps[i].is_settling ? 's' : '-';
	assert_string_equal(got, want);
	assert_true(rep->procs[0].settling_from_ns <= rep->marks.steps[0].at[MARK_STEP].ts_ns);
	assert_int_equal(rep->procs[0].settling_to_ns, rep->marks.steps[strspn(want, "s") - 1].at[MARK_STEP].ts_ns);
}

/* The first steps make the optimizer's state; the first that keeps less than 1 % of its peak ends it, whatever comes then. */
static void first_steps_settle(void **state)
{
	static const uint64_t kept[] = { 400, 400, 10, 400, 0 };

	(void)state;
	check_settling(kept, "ss---");
}

static void nobody_settles_for_long(void **state)
{
	static const uint64_t kept[] = { 400, 400, 400, 400, 400, 400, 400 };

	(void)state;
	check_settling(kept, "sssss--");
}

/* out = model(x); loss = …; optimizer.zero_grad(); loss.backward() */
static void zero_grad_may_stand_between_forward_and_backward(void **state)
{
	(void)state;
	define_net();
	for (unsigned step = 0; step < 2; step++) {
		(void)op(LINEAR, 0, 10);
		region("Optimizer.zero_grad#Adam.zero_grad", 1);
		(void)op(0, 0, 1);
		region("", 0);
		(void)op(0, 0, 20); /* the loss */
		enter(MT_EV_NODE, "MseLossBackward0");
		(void)op(0, 0, 40);
		depth--;
		region("Optimizer.step#Adam.step", 1);
		region("", 0);
	}
	report();
	assert_int_equal(rep->marks.by_kind[MARK_FW_START], 2);
	assert_int_equal(rep->marks.by_kind[MARK_FW_BW_BOUNDARY], 2);
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].alloc_bytes, 60);
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].entries, 2);
	assert_int_equal(rep->modules.phases[PHASE_OPTIMIZER].alloc_bytes, 2);
	assert_int_equal(rep->modules.phases[PHASE_OPTIMIZER].entries, 4);
	assert_int_equal(rep->modules.phases[PHASE_BACKWARD].alloc_bytes, 80);
}

/* Waiting for the next batch is nobody's time, zero_grad() in between or not. */
static void an_optimizer_s_time_ends_with_it(void **state)
{
	(void)state;
	define_net();
	(void)op(LINEAR, 0, 10);
	region("Optimizer.step#SGD.step", 1);
	now += 1000;
	region("", 0);
	now += 50000;
	region("Optimizer.zero_grad#SGD.zero_grad", 1);
	now += 100;
	region("", 0);
	now += 700000;
	(void)op(LINEAR, 0, 10);
	report();
	assert_in_range(rep->modules.phases[PHASE_OPTIMIZER].ns, 1100, 9000);
	assert_in_range(rep->modules.phases[PHASE_OTHER].ns, 750000, 759000);
}

/* Rows are made by the first allocation: that is no order. */
static void modules_are_in_the_order_of_named_modules(void **state)
{
	static const char *const want[] = { "", "block", "block.linear", "head" };

	(void)state;
	(void)op(HEAD, 0, 10);
	(void)op(LINEAR, 0, 10);
	(void)op(BLOCK, 0, 10);
	define_net();
	report();
	assert_int_equal(rep->modules.cnt, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(rep->modules.rows[i].name, want[i]);
}

static void what_has_most_at_the_peak_is_first(void **state)
{
	static const char *const want[] = { "", "head", "block", "block.linear" };

	(void)state;
	(void)op(HEAD, 0, 100);
	(void)op(LINEAR, 0, 10);
	(void)op(BLOCK, 0, 10);
	define_net();
	report();
	assert_int_equal(rep->modules.cnt, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(rep->modules.rows[i].name, want[i]);
}

/* As long as no module is known what follows the optimizer is forward: but not the next batch. */
static void a_batch_is_no_forward(void **state)
{
	(void)state;
	for (unsigned step = 0; step < 3; step++) {
		region("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1);
		(void)op(0, 0, 1);
		region("", 0);
		region("Optimizer.zero_grad#Adam.zero_grad", 1);
		region("", 0);
		(void)op(0, 0, 10);
		enter(MT_EV_NODE, "MseLossBackward0");
		depth--;
		region("Optimizer.step#Adam.step", 1);
		region("", 0);
	}
	report();
	assert_int_equal(rep->marks.by_kind[MARK_FW_START], 2); /* before the first node nothing is known */
	assert_int_equal(rep->marks.by_kind[MARK_FW_BW_BOUNDARY], 2);
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].alloc_bytes, 20);
}

/* While probes are being set, what follows a forward may be its loss, or backward whose nodes have no probes yet. */
static void nothing_is_guessed_while_probes_are_being_set(void **state)
{
	(void)state;
	define_net();
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python3"), .aux = 1 });
	send((struct event){ .kind = EV_ATTACH, .flags = EV_ATTACH_BEGINS });
	(void)op(LINEAR, 0, 1);
	(void)op(0, 0, 10); /* loss or backward */
	(void)op(LINEAR, 0, 2);
	enter(MT_EV_NODE, "AddmmBackward0"); /* nodes have probes */
	depth--;
	(void)op(LINEAR, 0, 4);
	(void)op(0, 0, 20);
	send((struct event){ .kind = EV_ATTACH });
	(void)op(0, 0, 40);
	report();
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].alloc_bytes, 67);
	assert_int_equal(rep->modules.phases[PHASE_OTHER].alloc_bytes, 10);
	assert_int_equal(rep->marks.by_kind[MARK_FW_START], 2);
}

/* Several forwards a step (accumulated gradients): the one that leaves most. */
static void a_step_of_several_forwards(void **state)
{
	static const uint64_t made[] = { 10, 30, 20 };
	const struct step_marks *s;

	(void)state;
	define_net();
	for (unsigned i = 0; i < 3; i++) {
		uint64_t ptr = op(LINEAR, 0, made[i]);

		enter(MT_EV_NODE, "AddmmBackward0");
		depth--;
		dies(ptr);
	}
	region("Optimizer.step#Adam.step", 1);
	region("", 0);
	report();
	assert_int_equal(rep->marks.by_kind[MARK_FW_BW_BOUNDARY], 3);
	assert_int_equal(rep->marks.steps_cnt, 1);
	s = &rep->marks.steps[0];
	assert_int_equal(s->at[MARK_FW_BW_BOUNDARY].live, 30);
	assert_int_equal(s->at[MARK_STEP].live, 0);
	assert_int_equal(step_marks__peak(s), 30);
}

/* tools/python's annotate() of a job whose Python cannot be read. */
static void regions_of_modules_make_phases(void **state)
{
	(void)state;
	(void)op(0, 0, 1); /* a batch */
	region("nn.Module#(Net)", 1);
	assert_int_equal(report()->marks.total, 0); /* a forward begins with what is allocated in it */
	(void)op(0, 0, 10);
	region("", 0);
	(void)op(0, 0, 20); /* the loss */
	enter(MT_EV_NODE, "AddmmBackward0");
	(void)op(0, 0, 40);
	region("nn.Module#layers.0", 1);
	(void)op(0, 0, 80);
	region("", 0);
	depth--;
	(void)op(0, 0, 160);
	report();
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].alloc_bytes, 30);
	assert_int_equal(rep->modules.phases[PHASE_BACKWARD].alloc_bytes, 40);
	assert_int_equal(rep->modules.phases[PHASE_RECOMPUTE].alloc_bytes, 80);
	assert_int_equal(rep->modules.phases[PHASE_OTHER].alloc_bytes, 161);
	assert_int_equal(rep->marks.by_kind[MARK_FW_START], 1);
	assert_int_equal(rep->marks.by_kind[MARK_FW_BW_BOUNDARY], 1);
}

/* When an operator is entered, nothing is allocated in it yet. */
static void operators_have_the_phase_that_is_known_when_they_begin(void **state)
{
	(void)state;
	define_net();
	(void)op(LINEAR, 0, 10);
	assert_int_equal(op_phase, PHASE_OTHER); /* its allocation is the first that is known of the forward */
	(void)op(0, 0, 20);
	assert_int_equal(op_phase, PHASE_FORWARD);
	enter(MT_EV_NODE, "AddmmBackward0");
	assert_int_equal(op_phase, PHASE_BACKWARD);
	depth--;
	(void)op(0, 0, 20);
	assert_int_equal(op_phase, PHASE_OTHER);
	region("Optimizer.step#SGD.step", 1);
	(void)op(0, 0, 20);
	assert_int_equal(op_phase, PHASE_OPTIMIZER);
	region("", 0);
}

static void grad_mode_off_inside_a_forward_is_forward(void **state)
{
	(void)state;
	define_net();
	(void)op(LINEAR, 0, 10);
	at(BLOCK, MT_MODULE_NO_GRAD);
	(void)allocated(5);
	at(0, MT_MODULE_NO_GRAD);
	(void)allocated(2);
	assert_int_equal(report()->modules.phases[PHASE_FORWARD].alloc_bytes, 17);
}

/* A block of a generated graph, at a line of which the file told. */
static uint64_t allocated_in(const char *graph, uint64_t size)
{
	struct event ev = { .kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = next_ptr += 0x1000, .size = size,
			    .name = names__add(names, graph) };

	place(&ev);
	send(ev);
	return next_ptr;
}

static void tell_graphs(void)
{
	send((struct event){ .kind = EV_PLACE, .name = names__add(names, "forward"), .flags = EV_PLACE_FORWARD,
			     .addr = names__add(names, "inductor: a").v });
	send((struct event){ .kind = EV_PLACE, .name = names__add(names, "inference"), .flags = EV_PLACE_INFERENCE,
			     .addr = names__add(names, "inductor: b").v });
}

/* A generated forward runs with grad mode off, as an evaluation does: the file tells them apart. */
static void a_generated_forward_is_a_forward(void **state)
{
	(void)state;
	define_net();
	tell_graphs();
	for (unsigned step = 0; step < 3; step++) {
		at(NET, MT_MODULE_NO_GRAD);
		(void)allocated_in("forward", 10);
		(void)allocated(5); /* of an operator in it */
		at(0, 0);
		(void)allocated(2); /* the loss */
		enter(MT_EV_NODE, "CompiledFunctionBackward");
		(void)allocated_in("forward", 20); /* computed again */
		depth--;
		region("Optimizer.step#Adam.step", 1);
		region("", 0);
		at(NET, MT_MODULE_NO_GRAD);
		(void)allocated_in("inference", 40);
		at(0, 0);
	}
	report();
	assert_int_equal(rep->marks.by_kind[MARK_FW_START], 3);
	assert_int_equal(rep->marks.by_kind[MARK_FW_BW_BOUNDARY], 3);
	assert_int_equal(rep->marks.by_kind[MARK_STEP], 3);
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].entries, 3);
	assert_int_equal(rep->modules.phases[PHASE_FORWARD].alloc_bytes, 3 * 17);
	assert_int_equal(rep->modules.phases[PHASE_RECOMPUTE].alloc_bytes, 3 * 20);
	assert_int_equal(rep->modules.phases[PHASE_EVALUATION].alloc_bytes, 3 * 40);
}

/* How gradients go: a region of zero_grad, or their frees; before the forward or after it. */
enum clear { ZERO_GRAD, ZERO_GRAD_AFTER_FORWARD, FREED, CLEARS };

static void zero_grad(void)
{
	region("Optimizer.zero_grad#Adam.zero_grad", 1);
	region("", 0);
}

static uint64_t backward_of_generated_code(void)
{
	uint64_t grad;

	enter(MT_EV_NODE, "CompiledFunctionBackward");
	grad = allocated(40);
	depth--;
	enter(MT_EV_NODE, "torch::autograd::AccumulateGrad");
	enter(MT_EV_ACC, "torch::autograd::AccumulateGrad");
	send((struct event){ .kind = EV_ARG, .dev = MT_DEV_CPU, .addr = 0x10, .size = 40, .depth = 2, .seq = seq });
	send((struct event){ .kind = EV_ARG, .dev = MT_DEV_CPU, .addr = grad, .size = 40, .depth = 2, .seq = seq, .aux = 1 });
	depth -= 2;
	return grad;
}

/* A compiled step() has no region: it is over when its gradients go. Several batches add up to one step. */
static void steps_of_a_compiled_optimizer(void **state)
{
	static const unsigned ended[CLEARS] = { 2, 4, 7 }; /* the last step's gradients are still there */
	enum clear clear;
	uint64_t grad = 0;

	(void)state;
	define_net();
	tell_graphs();
	for (clear = 0; clear < CLEARS; clear++) {
		for (unsigned step = 0; step < 3; step++) {
			if (clear == ZERO_GRAD)
				zero_grad();
			else if (clear == FREED && grad)
				dies(grad);
			for (unsigned batch = 0; batch < 2; batch++) {
				at(NET, MT_MODULE_NO_GRAD);
				(void)allocated_in("forward", 10);
				at(0, 0);
				if (clear == ZERO_GRAD_AFTER_FORWARD && !batch)
					zero_grad();
				grad = backward_of_generated_code();
				if (clear == ZERO_GRAD_AFTER_FORWARD)
					break;
			}
		}
		assert_int_equal(report()->marks.by_kind[MARK_STEP], ended[clear]);
	}
	assert_int_equal(rep->marks.by_kind[MARK_FW_START], 6 + 3 + 6);
	for (size_t i = 0; i < rep->marks.steps_cnt; i++)
		assert_int_equal(rep->marks.steps[i].number, i + 1);
	/* one that is not compiled tells of its steps itself */
	region("Optimizer.step#Adam.step", 1);
	region("", 0);
	(void)backward_of_generated_code();
	zero_grad();
	assert_int_equal(report()->marks.by_kind[MARK_STEP], 8);
}

static void steps_by_marks_are_not_those_of_optimizers(void **state)
{
	(void)state;
	region("ProfilerStep#11", 1);
	region("", 0);
	region("Optimizer.step#SGD.step", 1);
	region("", 0);
	region("ProfilerStep#12", 1);
	region("", 0);
	assert_int_equal(report()->marks.by_kind[MARK_STEP], 1); /* a mark ends the step before it */
	send((struct event){ .kind = MT_EV_STEP, .addr = 7 });
	assert_int_equal(report()->marks.by_kind[MARK_STEP], 2);
	assert_int_equal(rep->marks.rows[0].number, 11); /* the number that its mark had */
	assert_int_equal(rep->marks.rows[1].number, 12);
}

static void old_marks_go(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MARKS_MAX + 10; i++) {
		region("Optimizer.step#SGD.step", 1);
		region("", 0);
	}
	assert_int_equal(report()->marks.total, MARKS_MAX + 10);
	assert_int_equal(rep->marks.cnt, MARKS_MAX);
	assert_int_equal(rep->marks.rows[0].number, 11);
	assert_int_equal(rep->marks.steps_cnt, STEPS_MAX);
	assert_int_equal(rep->marks.steps[0].number, MARKS_MAX + 10 - STEPS_MAX + 1);
}

/* --- what goes in and out ------------------------------------------------------------------------------------- */

static void inputs_and_outputs_of_a_call(void **state)
{
	uint64_t x, y, z;

	(void)state;
	define_net();
	(void)op(NET, 0, 1); /* a forward is under way; what was made before any module was told may be one's own */
	x = op(0, 0, 16);
	y = op(LINEAR, x, 16);
	(void)op(LINEAR, x, 1); /* the same input again */
	z = op(HEAD, y, 16);
	(void)op(0, z, 1);
	(void)op(0, z, 1);
	assert_int_equal(module("block.linear")->input, 16);
	assert_int_equal(module("block.linear")->output, 16);
	assert_int_equal(module("block")->input, 16);
	assert_int_equal(module("block")->output, 16);
	assert_int_equal(module("head")->input, 16);
	assert_int_equal(module("head")->output, 16);
	assert_int_equal(module("")->input, 16);
	assert_int_equal(module("")->output, 16); /* z: what stays inside is none */
	assert_int_equal(module("block")->calls, 1);
}

static void state_of(const char *root, uint64_t ptr)
{
	send((struct event){ .kind = EV_TENSOR_OF, .addr = ptr, .name = names__add(names, root) });
}

static void name_as(const char *root, uint64_t ptr, uint64_t size, uint8_t kind)
{
	send_as(names__add(names, root).v,
		(struct event){ .kind = EV_TENSOR, .dev = MT_DEV_CPU, .addr = ptr, .size = size, .flags = kind,
				.name = names__add(names, "block.linear.weight"),
				.aux = kind == EV_TENSOR_STATE ? names__add(names, "exp_avg").v : 0 });
}

static void op_named(const char *name, uint64_t module, uint64_t size)
{
	enter(MT_EV_OP, name);
	at(module, 0);
	(void)allocated(size);
	depth--;
}

static void operators_by_bytes_and_module(void **state)
{
	(void)state;
	define_net();
	op_named("aten::mm", LINEAR, 100);
	op_named("aten::mm", LINEAR, 100);
	op_named("aten::mm", HEAD, 150);
	op_named("aten::add", HEAD, 30);
	op_named("aten::rand", 0, 500);
	enter(MT_EV_NODE, "MmBackward0");
	at(LINEAR, EV_MODULE_BACKWARD);
	enter(MT_EV_NODE, "MmBackward0");
	op_named("aten::mm", 0, 60);
	depth -= 2;
	report();
	assert_int_equal(rep->modules.ops_cnt, 4);
	assert_string_equal(rep->modules.ops[0].op, "aten::rand");
	assert_false(rep->modules.ops[0].has_module);
	assert_null(rep->modules.ops[0].module);
	assert_string_equal(rep->modules.ops[1].op, "aten::mm");
	assert_string_equal(rep->modules.ops[1].module, "block.linear");
	assert_string_equal(rep->modules.ops[1].root, "Net");
	assert_int_equal(rep->modules.ops[1].alloc_bytes, 260);
	assert_int_equal(rep->modules.ops[1].alloc_count, 3);
	assert_int_equal(rep->modules.ops[1].by_phase[PHASE_FORWARD], 200);
	assert_int_equal(rep->modules.ops[1].by_phase[PHASE_BACKWARD], 60);
	assert_string_equal(rep->modules.ops[2].module, "head");
	assert_int_equal(rep->modules.ops[3].alloc_bytes, 30);
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 2, &rep), 0);
	assert_int_equal(rep->modules.ops_cnt, 4); /* the heaviest of a phase may be light in all */
}

/* One pair too many, and its bytes are told all the same. */
static void operators_and_modules_are_bounded(void **state)
{
	struct op_modules s = { 0 };
	uint64_t sum = 0;

	(void)state;
	for (uint32_t i = 0; i < OP_MODULES_MAX + 100; i++)
		op_modules__allocated(&s, i / 100, i % 100, (uint8_t)(i % 9), 8);
	op_modules__allocated(&s, 0, 0, PHASE_FORWARD, 8); /* there already */
	assert_int_equal(s.cnt, OP_MODULES_MAX);
	assert_int_equal(s.rest.alloc_count, 100);
	for (uint32_t i = 0; i < 2 * OP_MODULES_MAX; i++)
		sum += s.slots[i].alloc_bytes;
	assert_int_equal(sum + s.rest.alloc_bytes, 8 * (OP_MODULES_MAX + 101));
	op_modules__done(&s);
}

static void named_storages_are_their_module_s(void **state)
{
	uint64_t w, g, s;

	(void)state;
	define_net();
	w = allocated(64);
	g = allocated(64);
	s = allocated(128);
	now += 1000000000;
	for (unsigned i = 0; i < 2; i++) { /* told again: counted once */
		name_as("Net", w, 64, EV_TENSOR_PARAMETER);
		name_as("Net", g, 64, EV_TENSOR_GRADIENT);
		state_of("Net", s);
		name_as("Adam", s, 128, EV_TENSOR_STATE);
	}
	assert_int_equal(module("block.linear")->kinds[EV_TENSOR_PARAMETER], 64);
	assert_int_equal(module("block")->kinds[EV_TENSOR_STATE], 128);
	assert_int_equal(module("")->kinds[EV_TENSOR_GRADIENT], 64);
	assert_int_equal(module("head")->kinds[EV_TENSOR_PARAMETER], 0);
	dies(g);
	assert_int_equal(module("")->kinds_live[EV_TENSOR_GRADIENT], 0);
	assert_int_equal(module("")->kinds[EV_TENSOR_GRADIENT], 64);
}

static void has(const struct report_module_sum *s, uint64_t live, uint64_t at_peak)
{
	assert_int_equal(s->live, live);
	assert_int_equal(s->at_peak, at_peak);
}

/* What no module made is the module's that has it by name, also if the peak was before the name came; and is counted once. */
static void what_it_has_by_name_is_of_it(void **state)
{
	uint64_t w, s, out, was = 0x5000;

	(void)state;
	define_net();
	w = allocated(64);
	s = allocated(128);
	out = op(LINEAR, w, 32);
	now += 1000000000;
	has(&report()->modules.none, 192, 192);
	name_as("Net", w, 64, EV_TENSOR_PARAMETER);
	name_as("Net", out, 32, EV_TENSOR_BUFFER); /* it made this one */
	has(&module("block.linear")->own, 96, 96);
	for (unsigned i = 0; i < 2; i++) {
		state_of("Net", s);
		name_as("Adam", s, 128, EV_TENSOR_STATE);
	}
	has(&module("block.linear")->own, 224, 224);
	has(&module("")->all, 224, 224);
	has(&report()->modules.none, 0, 0);
	dies(s);
	has(&module("block.linear")->own, 96, 224);
	name_as("Another", w, 64, EV_TENSOR_PARAMETER); /* no module that is known has it now */
	has(&module("block.linear")->own, 32, 160);
	has(&report()->modules.none, 64, 64);
	name_as("Net", w, 64, EV_TENSOR_PARAMETER);
	at(0, 0);
	(void)allocated(1000);
	has(&module("block.linear")->own, 96, 96);
	has(&report()->modules.none, 1000, 1000);

	send((struct event){ .kind = EV_WAS, .dev = MT_DEV_CPU, .addr = was, .size = 16 });
	name_as("Net", was, 16, EV_TENSOR_PARAMETER);
	has(&module("block.linear")->own, 112, 112);
	send((struct event){ .kind = EV_WAS_MODULE, .dev = MT_DEV_CPU, .addr = was, .size = HEAD, .flags = PHASE_FORWARD });
	has(&module("block.linear")->own, 96, 96);
	assert_int_equal(module("head")->own.live, 16);
	dies(was);
	assert_int_equal(module("head")->own.live, 0);
}

/* A name says whose it is; without one it is that of the module whose backward made it. Never both. */
static void gradients_without_a_name_are_their_module_s(void **state)
{
	uint64_t g = 0x5000;

	(void)state;
	define_net();
	send((struct event){ .kind = EV_WAS, .dev = MT_DEV_CPU, .addr = g, .size = 64 });
	send((struct event){ .kind = EV_WAS_FLOW, .dev = MT_DEV_CPU, .addr = g, .aux = CAT_GRADIENT });
	send((struct event){ .kind = EV_WAS_MODULE, .dev = MT_DEV_CPU, .addr = g, .size = HEAD, .flags = PHASE_BACKWARD });
	assert_int_equal(module("head")->kinds_live[EV_TENSOR_GRADIENT], 64);
	assert_int_equal(module("")->kinds[EV_TENSOR_GRADIENT], 64);
	now += 1000000000;
	name_as("Net", g, 64, EV_TENSOR_GRADIENT);
	assert_int_equal(module("head")->kinds_live[EV_TENSOR_GRADIENT], 0);
	assert_int_equal(module("block.linear")->kinds_live[EV_TENSOR_GRADIENT], 64);
	assert_int_equal(module("")->kinds_live[EV_TENSOR_GRADIENT], 64);
	dies(g);
	assert_int_equal(module("")->kinds_live[EV_TENSOR_GRADIENT], 0);
}

/* Two models whose parameters have the same paths, each with an optimizer: paths alone would make all the first one's. */
static void optimizer_state_is_of_the_model_that_is_trained(void **state)
{
	uint64_t one, other, whose;

	(void)state;
	define_net();
	define_as(0x9000, 0, "", "Other", "Other");
	define_as(0x9100, 0x9000, "block.linear", "Other", "Linear");
	one = allocated(64);
	other = allocated(32);
	whose = allocated(16);
	now += 1000000000;
	state_of("Net", one);
	name_as("Adam", one, 64, EV_TENSOR_STATE);
	state_of("Other", other);
	name_as("Adam", other, 32, EV_TENSOR_STATE);
	name_as("Adam", whose, 16, EV_TENSOR_STATE);
	assert_int_equal(module("block.linear")->kinds[EV_TENSOR_STATE], 64);
	assert_int_equal(module("")->kinds[EV_TENSOR_STATE], 64);
	for (size_t i = 0; i < rep->modules.cnt; i++)
		if (!strcmp(rep->modules.rows[i].root, "Other"))
			assert_int_equal(rep->modules.rows[i].kinds[EV_TENSOR_STATE], 32);
}

/* --- odd ones ------------------------------------------------------------------------------------------------- */

static void no_module_is_in_itself(void **state)
{
	(void)state;
	define(NET, BLOCK, "a", "A");
	define(BLOCK, NET, "b", "B");
	(void)op(BLOCK, 0, 10);
	define(HEAD, HEAD, "c", "C");
	assert_int_equal(module("b")->parent, 0); /* what was told first holds: a is in b */
	assert_int_equal(module("a")->depth, 1);
	assert_int_equal(module("b")->all.live, 10);
	assert_int_equal(module("a")->all.live, 0);
	assert_int_equal(module("c")->parent, 0);
}

static void an_address_means_nothing_after_exec(void **state)
{
	(void)state;
	define_net();
	(void)op(LINEAR, 0, 100);
	send((struct event){ .kind = EV_PROC, .flags = EV_PROC_EXECED, .name = names__add(names, "sh") });
	(void)op(LINEAR, 0, 50);
	assert_int_equal(module("block.linear")->all.alloc_bytes, 100);
	assert_int_equal(report()->modules.cnt, 5);
}

static void the_table_is_bounded(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= MODULES_MAX + 10; i++)
		at(i * 16, 0);
	assert_int_equal(report()->modules.cnt, MODULES_MAX / 2); /* others find room */
	assert_int_equal(rep->run.lost[MT_LOSS_NAMES], MODULES_MAX + 10 - MODULES_MAX / 2);
	for (uint64_t i = 1; i <= 100; i++)
		assert_int_equal(model__handle(m, &(struct event){ .ts_ns = now, .kind = EV_MODULE_AT, .pid = PID + 1,
								   .tid = PID + 1, .addr = i * 16 }), 0);
	assert_int_equal(report()->modules.cnt, MODULES_MAX / 2 + 100);
	(void)op((MODULES_MAX + 5ull) * 16, 0, 9);
	assert_int_equal(report()->modules.none.live, 9);
}

static void hostile_ids_and_phases(void **state)
{
	(void)state;
	send((struct event){ .kind = EV_MODULE, .addr = 8, .seq = UINT32_MAX, .name = { UINT32_MAX } });
	send((struct event){ .kind = EV_WAS_MODULE, .dev = MT_DEV_CPU, .addr = allocated(8), .size = 8, .flags = 255 });
	assert_int_equal(report()->modules.phases[PHASE_OTHER].live, 8);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(the_innermost_module_and_those_around_it),
		T(a_module_may_be_reported_of_later),
		T(the_timeline_tells_of_it),
		T(another_module_at_the_same_address),
		T(backward_is_of_whoever_made_the_node),
		T(whose_a_refusal_is),
		T(a_gpu_s_backward_has_a_thread_of_its_own),
		T(phases_of_a_step_and_their_marks),
		T(memory_at_the_marks_of_steps),
		T(first_steps_settle),
		T(nobody_settles_for_long),
		T(a_step_of_several_forwards),
		T(zero_grad_may_stand_between_forward_and_backward),
		T(a_batch_is_no_forward),
		T(nothing_is_guessed_while_probes_are_being_set),
		T(regions_of_modules_make_phases),
		T(operators_have_the_phase_that_is_known_when_they_begin),
		T(grad_mode_off_inside_a_forward_is_forward),
		T(a_generated_forward_is_a_forward),
		T(steps_of_a_compiled_optimizer),
		T(steps_by_marks_are_not_those_of_optimizers),
		T(old_marks_go),
		T(inputs_and_outputs_of_a_call),
		T(operators_by_bytes_and_module),
		T(operators_and_modules_are_bounded),
		T(named_storages_are_their_module_s),
		T(what_it_has_by_name_is_of_it),
		T(an_optimizer_s_time_ends_with_it),
		T(modules_are_in_the_order_of_named_modules),
		T(what_has_most_at_the_peak_is_first),
		T(gradients_without_a_name_are_their_module_s),
		T(optimizer_state_is_of_the_model_that_is_trained),
		T(no_module_is_in_itself),
		T(an_address_means_nothing_after_exec),
		T(the_table_is_bounded),
		T(hostile_ids_and_phases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
