/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The flight recorder: one stream of events into a model, and by way of a window's file into another one. What lives at the
 * end must be the same in both, block by block, and by category, operator and region.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/names.h"
#include "event/recording.h"
#include "model/reports.h"
#include "model/state.h"
#include "record/past.h"
#include "record/recorder.h"
#include "record/window.h"
#include "timeline/report.h"

#define PID 100u
#define WORKER 200u
#define MS 1000000ull
#define S 1000000000ull
#define LAYERS 4u
#define W MT_FLOW_F_WRITTEN
#define R MT_FLOW_F_REQUIRED
#define WEIGHT MT_FLOW_F_WEIGHT

static char dir[] = "/tmp/memtrace_window.XXXXXX", path[64];
static struct names *names;
static struct model *full;
static struct window *win;
static struct recorder *begun; /* by a key, or waits for it; NULL: there is none */
static unsigned cut_after; /* so many events more the window gets a new frame; 0: not */
static uint64_t ts, next_ptr;
static uint32_t seq, seqs[8];
static uint64_t weights[LAYERS], states[LAYERS], grads[LAYERS], acts[LAYERS];

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return rmdir(dir);
}

static const struct rec_writer_opts *wo(void)
{
	static struct rec_writer_opts o;

	o = (struct rec_writer_opts){ .names = names, .how.force = 1, .is_whole = 1 };
	return &o;
}

static void begin(uint64_t window_ns, uint64_t bytes)
{
	struct model_opts mo = { 0 };

	snprintf(path, sizeof(path), "%s/w.mtr", dir);
	names = names__new();
	win = window__new(names, window_ns, bytes);
	window__model_opts(win, &mo);
	full = model__new(names, &mo);
	assert_true(names && win && full);
	ts = 5000 * S;
	next_ptr = 0x10000;
	seq = 0;
	memset(grads, 0, sizeof(grads));
}

static void end(void)
{
	model__check(full);
	window__free(win);
	model__free(full);
	names__free(names);
	(void)unlink(path);
}

/* --- a training job ------------------------------------------------------------------------------------------ */

static void send_as(uint32_t pid, struct event ev)
{
	ev.pid = ev.tid = pid;
	ev.ts_ns = ts;
	assert_int_equal(model__handle(full, &ev), 0);
	window__add(win, full, &ev);
	if (begun)
		recorder__add(begun, full, &ev);
	if (cut_after && !--cut_after)
		window__tick(win, full);
}

static void send(struct event ev)
{
	send_as(PID, ev);
}

static name_id name(const char *text)
{
	return names__add(names, text);
}

static void frame(uint8_t kind, const char *text, unsigned depth)
{
	ts += 1000;
	seqs[depth] = ++seq;
	send((struct event){ .kind = kind, .name = name(text), .depth = (uint8_t)depth, .seq = seq });
}

static void arg(unsigned depth, uint64_t ptr, unsigned index, unsigned flags)
{
	send((struct event){ .kind = EV_ARG, .addr = ptr, .size = 4096, .seq = seqs[depth], .depth = (uint8_t)(depth + 1),
			     .dev = MT_DEV_CPU, .aux = index | flags << 8 });
}

static uint64_t alloc(unsigned depth, uint64_t size, uint8_t dev)
{
	uint64_t ptr = next_ptr += 0x10000;

	send((struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = dev, .depth = (uint8_t)depth,
			     .seq = depth ? seqs[depth - 1] : 0 });
	return ptr;
}

static void release(uint64_t ptr, uint8_t dev)
{
	send((struct event){ .kind = MT_EV_FREE, .addr = ptr, .dev = dev });
}

/* A stack is told when it is first used: main, a function of that name, at::empty. */
static void stack(uint32_t leaf, const char *function)
{
	static uint32_t reported;

	reported = leaf <= 3 ? 0 : reported;
	while (reported < leaf) {
		uint32_t n = ++reported % 3;

		send((struct event){ .kind = EV_STACK, .seq = reported, .size = n == 1 ? 0 : reported - 1,
				.name = name(n == 1 ? "main" : n == 2 ? function : "at::empty"), .addr = name("train.py").v,
				.aux = n ? 10 * reported : 0, .flags = n ? EV_FRAME_PYTHON : EV_FRAME_NATIVE });
	}
}

static void stack_at(uint32_t leaf)
{
	send((struct event){ .kind = EV_STACK_AT, .addr = next_ptr + 0x10000, .size = leaf, .dev = MT_DEV_CPU });
}

static void caught_at(uint32_t leaf)
{
	send((struct event){ .kind = EV_CAUGHT, .addr = next_ptr + 0x10000, .size = leaf, .dev = MT_DEV_CPU });
}

static void region(const char *text, unsigned index)
{
	send((struct event){ .kind = MT_EV_REGION_BEGIN, .name = name(text), .aux = index });
}

static void region_end(unsigned index)
{
	send((struct event){ .kind = MT_EV_REGION_END, .aux = index });
}

static const char *const layers[LAYERS] = { "0", "1", "2", "3" };

static void module_at(unsigned depth, uint64_t module, uint8_t flags)
{
	send((struct event){ .kind = EV_MODULE_AT, .addr = module, .flags = flags, .depth = (uint8_t)depth,
			     .seq = depth ? seqs[depth - 1] : 0 });
}

static void start(void)
{
	send((struct event){ .kind = EV_BEGIN, .name = name("memtrace 0, Linux, test") });
	send((struct event){ .kind = EV_PROC, .name = name("python"), .addr = name("python train.py").v });
	send_as(WORKER, (struct event){ .kind = EV_PROC, .name = name("worker"), .aux = PID, .flags = EV_PROC_FORKED });
	send((struct event){ .kind = EV_LABEL, .name = name("RANK=3") });
	send((struct event){ .kind = EV_COVER, .name = name("flow"), .addr = 10, .size = 10 });
	send((struct event){ .kind = EV_SITE, .name = name("aten::mm"), .aux = MT_PROG_FLOW_OP, .addr = 1, .size = 1 });
	send((struct event){ .kind = EV_NOTE, .name = name("A note.") });
	send((struct event){ .kind = EV_MODULE, .addr = 0xf000, .tid = name("Net").v, .seq = name("Net").v });
	for (unsigned i = 0; i < LAYERS; i++)
		send((struct event){ .kind = EV_MODULE, .addr = 0xf100 + i, .size = 0xf000, .name = name(layers[i]),
				     .seq = name("Linear").v });
	region("epoch 1", 0);
	for (unsigned i = 0; i < LAYERS; i++) {
		frame(MT_EV_OP, "aten::randn", 0);
		weights[i] = alloc(1, 4096, MT_DEV_CPU);
	}
	(void)alloc(0, 333, MT_DEV_HOST);
	send_as(WORKER, (struct event){ .kind = MT_EV_ALLOC, .addr = 0x77000, .size = 5000, .dev = MT_DEV_CPU });
}

static void forward(uint64_t x)
{
	for (unsigned i = 0; i < LAYERS; i++) {
		frame(MT_EV_OP, i % 2 ? "aten::mm" : "aten::addmm", 0);
		arg(0, i ? acts[i - 1] : x, 0, R);
		arg(0, weights[i], 1, R | WEIGHT);
		module_at(1, 0xf100 + i, 0);
		acts[i] = alloc(1, 4096, MT_DEV_CPU);
	}
}

static void backward(void)
{
	for (unsigned i = LAYERS; i--;) {
		uint64_t grad;

		module_at(0, 0xf100 + i, EV_MODULE_BACKWARD);
		frame(MT_EV_NODE, "MmBackward0", 0);
		frame(MT_EV_APPLY, "MmBackward0", 1);
		frame(MT_EV_OP, "aten::mm", 2);
		arg(2, acts[i], 0, R);
		arg(2, weights[i], 1, R);
		if (i == LAYERS - 1)
			module_at(3, 0, 0);
		grad = alloc(3, 4096, MT_DEV_CPU);
		frame(MT_EV_NODE, "AccumulateGrad", 0);
		frame(MT_EV_ACC, "torch::autograd::AccumulateGrad", 1);
		arg(1, weights[i], 0, R);
		arg(1, grad, 1, R);
		frame(MT_EV_OP, "aten::detach", 2);
		arg(2, grad, 0, R);
		if (grads[i])
			release(grads[i], MT_DEV_CPU);
		grads[i] = grad;
		release(acts[i], MT_DEV_CPU);
	}
}

static void optimizer(unsigned step)
{
	region("Optimizer.step#Adam.step", 1);
	for (unsigned i = 0; i < LAYERS; i++) {
		if (!step) {
			frame(MT_EV_OP, "aten::zeros_like", 0);
			arg(0, weights[i], 0, R);
			states[i] = alloc(1, 8192, MT_DEV_CPU);
		}
		frame(MT_EV_OP, "aten::addcmul_", 0);
		arg(0, states[i], 0, R | W);
		arg(0, grads[i], 1, R);
		frame(MT_EV_OP, "aten::addcdiv_", 0);
		arg(0, weights[i], 0, R | W);
		arg(0, states[i], 1, R);
	}
	region_end(1);
}

/* A step each 100 ms; every one leaks a small tensor and a malloc block. */
static void train(unsigned from, unsigned steps)
{
	for (unsigned step = from; step < from + steps; step++) {
		uint64_t x = alloc(0, 4096, MT_DEV_CPU);

		forward(x);
		backward();
		release(x, MT_DEV_CPU);
		optimizer(step);
		frame(MT_EV_OP, "aten::clone", 0);
		(void)alloc(1, 64, MT_DEV_CPU);
		(void)alloc(0, 40, MT_DEV_HOST);
		send((struct event){ .kind = EV_COST, .aux = MT_PROG_FW_NEW, .addr = 100 * (step + 1),
				.size = 1000 * (step + 1) });
		send((struct event){ .kind = EV_CPU, .size = 50000 * (step + 1) });
		send((struct event){ .kind = MT_EV_RSS, .addr = MT_RSS_ANON, .size = 1000000 + step });
		ts += 100 * MS;
		if (step % 10 == 9)
			window__tick(win, full);
	}
}

/* --- comparing ----------------------------------------------------------------------------------------------- */

static struct model *replay(struct names **ret_names)
{
	struct rec_reader *r;
	const struct event *evs;
	struct model *m;
	struct err err = { 0 };
	size_t cnt;
	int more;

	if (rec_reader__open(&r, path, &err))
		fail_msg("%s", err.msg);
	m = model__new(rec_reader__names(r), NULL);
	while ((more = rec_reader__next(r, &evs, &cnt, &err)) > 0)
		for (size_t i = 0; i < cnt; i++)
			assert_int_equal(model__handle(m, &evs[i]), 0);
	assert_int_equal(more, 0);
	assert_int_equal(rec_reader__truncated(r, &(uint64_t){ 0 }), 0);
	model__check(m);
	/* the names live on with the report of the model only: they are copied here */
	*ret_names = names__new();
	for (uint32_t id = 1; id <= names__last(rec_reader__names(r)); id++)
		names__add(*ret_names, names__get(rec_reader__names(r), (name_id){ id }));
	m->names = *ret_names;
	rec_reader__free(r);
	return m;
}

static const struct report_op *find(const struct report_op *ops, size_t cnt, const struct report_op *key)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(ops[i].name, key->name) && ops[i].is_node == key->is_node)
			return &ops[i];
	return NULL;
}

static void same_live(const struct report_op *a, size_t a_cnt, const struct report_op *b, size_t b_cnt)
{
	for (size_t i = 0; i < a_cnt; i++) {
		const struct report_op *o = find(b, b_cnt, &a[i]);

		assert_int_equal(a[i].live, o ? o->live : 0);
		assert_int_equal(a[i].live_count, o ? o->live_count : 0);
	}
}

static void same_frames(const struct model *a, uint32_t a_node, const struct model *b, uint32_t b_node)
{
	struct report_frame *x = NULL, *y = NULL;
	size_t x_cnt = 0, y_cnt = 0;

	assert_int_equal(model__frames(a, a_node, &x, &x_cnt), 0);
	assert_int_equal(model__frames(b, b_node, &y, &y_cnt), 0);
	assert_int_equal(x_cnt, y_cnt);
	for (size_t i = 0; i < x_cnt; i++) {
		assert_string_equal(x[i].function, y[i].function);
		assert_string_equal(x[i].file, y[i].file);
		assert_true(x[i].line == y[i].line && x[i].kind == y[i].kind);
		free(x[i].function);
		free(x[i].file);
		free(y[i].function);
		free(y[i].file);
	}
	free(x);
	free(y);
}

static void same_blocks(const struct model *a, const struct model *b)
{
	const struct block *x;
	size_t pos = 0;

	assert_int_equal(blocks__count(a->blocks), blocks__count(b->blocks));
	while ((x = blocks__next(a->blocks, &pos))) {
		const struct block *y = blocks__find(b->blocks, x->pid, (uint8_t)x->dev, x->ptr);

		assert_non_null(y);
		assert_int_equal(x->size, y->size);
		assert_int_equal(x->tid, y->tid);
		assert_int_equal(x->cat, y->cat);
		assert_int_equal(x->tracked, y->tracked);
		assert_int_equal(x->phase, y->phase);
		assert_int_equal(a->modules.rows[x->module].addr, b->modules.rows[y->module].addr);
		assert_string_equal(names__get(a->names, a->modules.rows[x->module].path),
				    names__get(b->names, b->modules.rows[y->module].path));
		assert_string_equal(names__get(a->names, a->ops.rows[x->op].name),
				    names__get(b->names, b->ops.rows[y->op].name));
		assert_string_equal(names__get(a->names, a->regions.rows[x->region].name),
				    names__get(b->names, b->regions.rows[y->region].name));
		same_frames(a, stackset__of(&a->stacks, x->id), b, stackset__of(&b->stacks, y->id));
		same_frames(a, caught__of(&a->caught, x->id), b, caught__of(&b->caught, y->id));
		assert_true(x->allocated_ts_ns / MS <= y->allocated_ts_ns / MS + 1 &&
			    y->allocated_ts_ns / MS <= x->allocated_ts_ns / MS + 1);
	}
}

/* Everything that lives, at the end of both. *ret: the window's report. */
static void compare(struct report **ret)
{
	struct report *a = NULL, *b = NULL;
	struct names *other;
	struct model *m = replay(&other);

	assert_int_equal(model__report(full, 1000, &a), 0);
	assert_int_equal(model__report(m, 1000, &b), 0);
	assert_int_equal(a->run.end_ts_ns, b->run.end_ts_ns);
	assert_int_equal(a->devs_cnt, b->devs_cnt);
	for (size_t i = 0; i < a->devs_cnt; i++) {
		assert_int_equal(a->devs[i].live, b->devs[i].live);
		for (unsigned c = 0; c < CAT_MAX; c++)
			assert_int_equal(a->devs[i].cats[c].live, b->devs[i].cats[c].live);
	}
	same_live(a->ops.rows, a->ops.cnt, b->ops.rows, b->ops.cnt);
	same_live(b->ops.rows, b->ops.cnt, a->ops.rows, a->ops.cnt);
	same_live(a->regions.rows, a->regions.cnt, b->regions.rows, b->regions.cnt);
	same_blocks(full, m);
	assert_int_equal(a->procs_cnt, b->procs_cnt);
	for (size_t i = 0; i < a->procs_cnt; i++) {
		assert_int_equal(a->procs[i].live, b->procs[i].live);
		assert_int_equal(a->procs[i].host_live, b->procs[i].host_live);
		assert_int_equal(a->procs[i].rss_total, b->procs[i].rss_total);
		assert_string_equal(a->procs[i].cmdline, b->procs[i].cmdline);
		assert_int_equal(a->procs[i].labels_cnt, b->procs[i].labels_cnt);
	}
	assert_int_equal(b->run.lost[MT_LOSS_FRAME] + b->run.lost[MT_LOSS_DECODE] + b->run.lost[MT_LOSS_REUSE] +
			 b->run.lost[MT_LOSS_STACKS], 0);
	assert_true(b->devs[0].preexisting_blocks == a->devs[0].preexisting_blocks && !b->devs[0].preexisting_frees);
	assert_int_equal(b->probes.symbols_cnt, a->probes.symbols_cnt);
	assert_int_equal(b->probes.covers_cnt, a->probes.covers_cnt);
	report__free(a);
	model__free(m);
	names__free(other);
	*ret = b;
}

static void write_window(int is_end)
{
	struct err err = { 0 };

	if (window__write(win, full, path, wo(), is_end, &err))
		fail_msg("%s", err.msg);
}

static void test_same_at_the_end(void **state)
{
	struct report *r;

	(void)state;
	for (uint64_t window_s = 1; window_s <= 12; window_s += 3) {
		begin(window_s * S, WINDOW_BYTES_DEFAULT);
		start();
		train(0, 200);
		send((struct event){ .kind = EV_END });
		write_window(1);
		compare(&r);
		assert_in_range(r->run.end_ts_ns - r->run.start_ts_ns, window_s * S, (window_s + 2) * S);
		assert_int_equal(r->devs[0].carried_blocks > 4 * LAYERS, 1);
		assert_true(r->run.ended && r->run.end_reason == EV_END_DETACHED);
		assert_in_range(r->marks.steps_total, 10 * window_s, 10 * window_s + 12);
		/* costs and CPU time are the window's */
		assert_in_range(r->cost.hits, 100 * (r->marks.steps_total - 1), 100 * (r->marks.steps_total + 1));
		assert_in_range(r->cost.target_cpu_ns, 50000 * (r->marks.steps_total - 1), 50000 * (r->marks.steps_total + 1));
		assert_int_equal(r->run.notes_cnt, 2); /* the target's, and that it is a window */
		report__free(r);
		end();
	}
}

static const char *same_path(void *ctx)
{
	(void)ctx;
	return path;
}

/* The same as a window without frames: what lives is told as of then, and everything goes on. Here in the middle of steps. */
static void test_begun_by_a_key(void **state)
{
	struct recorder rec;
	struct report *r;

	(void)state;
	for (int amid = 0; amid < 2; amid++) {
		struct model_opts mo = { 0 };
		struct err err = { 0 };
		uint64_t x;

		begin(1000 * S, WINDOW_BYTES_DEFAULT);
		assert_int_equal(recorder__init(&rec, &(struct recorder_opts){ .late_path = same_path, .how.force = 1 }, names,
						&mo, &err), 0);
		begun = &rec;
		start();
		train(0, 20);
		x = alloc(0, 4096, MT_DEV_CPU);
		forward(x);
		if (amid) { /* frames, regions and a module are open */
			region("step", 0);
			frame(MT_EV_OP, "aten::linear", 0);
			module_at(1, 0x100, 0);
			frame(MT_EV_OP, "aten::addmm", 1);
		}
		assert_int_equal(access(path, F_OK), -1);
		assert_true(recorder__begin_late(&rec, full, "all steps"));
		assert_true(recorder__is_late(&rec));
		if (amid) { /* the first one ends, and another one begins */
			recorder__end_late(&rec);
			assert_false(recorder__is_late(&rec));
			assert_true(recorder__begin_late(&rec, full, "all steps"));
		}
		if (amid) {
			release(alloc(2, 4096, MT_DEV_CPU), MT_DEV_CPU);
			module_at(0, 0, 0);
			region_end(0);
		}
		backward();
		release(x, MT_DEV_CPU);
		optimizer(20);
		train(20, 20);
		send((struct event){ .kind = EV_END });
		assert_int_equal(recorder__close(&rec, full, "", NULL, &err), 0);
		recorder__done(&rec);
		begun = NULL;
		compare(&r);
		assert_int_equal(r->devs[0].carried_blocks > 4 * LAYERS, 1);
		assert_in_range(r->marks.steps_total, 19, 21);
		assert_in_range(r->cost.hits, 100 * (r->marks.steps_total - 1), 100 * (r->marks.steps_total + 1));
		assert_in_range(r->cost.target_cpu_ns, 50000 * (r->marks.steps_total - 1), 50000 * (r->marks.steps_total + 1));
		assert_int_equal(r->run.notes_cnt, 2);
		report__free(r);
		end();
	}
}

/* Labels inside of the window: what an operator makes of what was there before gets what it would have got. */
static void test_labels_go_on(void **state)
{
	struct report *r;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 60);
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	assert_int_equal(r->devs[0].cats[CAT_PARAMETER].live, LAYERS * 4096);
	assert_int_equal(r->devs[0].cats[CAT_OPTIMIZER_STATE].live, LAYERS * 8192);
	assert_int_equal(r->devs[0].cats[CAT_GRADIENT].live, LAYERS * 4096);
	assert_true(r->devs[0].cats[CAT_ACTIVATION].byte_ns > 0 && r->devs[0].cats[CAT_INPUT].byte_ns > 0);
	report__free(r);
	end();
}

/* Nothing has left yet: the file is a whole recording. */
static void test_younger_than_the_window(void **state)
{
	struct report *r;

	(void)state;
	begin(60 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 30);
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	assert_int_equal(r->devs[0].carried_blocks, 0);
	assert_int_equal(r->run.notes_cnt, 1);
	assert_int_equal(r->marks.steps_total, 30);
	report__free(r);
	end();
}

static void test_goes_on(void **state)
{
	struct report *r;

	(void)state;
	begin(2 * S, WINDOW_BYTES_DEFAULT);
	start();
	for (unsigned i = 0; i < 4; i++) {
		train(i * 37, 37);
		write_window(0);
		compare(&r);
		assert_int_equal(r->run.end_reason, EV_END_WINDOW);
		report__free(r);
	}
	end();
}

/* In the middle of everything: frames and regions are open, a block's operator is, too. */
static void test_cut_inside_an_operator(void **state)
{
	struct report *r;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 5);
	frame(MT_EV_NODE, "MmBackward0", 0);
	region("inner", 1);
	frame(MT_EV_OP, "aten::mm", 1);
	window__tick(win, full);
	ts += 10 * MS;
	(void)alloc(2, 4096, MT_DEV_CPU);
	ts += 3 * S;
	window__tick(win, full); /* the frame before leaves */
	ts += 10 * MS;
	(void)alloc(2, 512, MT_DEV_CPU);
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	assert_true(r->devs[0].carried_blocks > 0);
	report__free(r);
	end();
}

/* Operators inside of others, which are not told again what those were given; all is kept, and no optimizer tells gradients. */
static void step_that_keeps_its_graph(uint64_t x)
{
	for (unsigned i = 0; i < LAYERS; i++) {
		frame(MT_EV_OP, "aten::linear", 0);
		arg(0, i ? acts[i - 1] : x, 0, R);
		arg(0, weights[i], 1, R | WEIGHT);
		frame(MT_EV_OP, "aten::addmm", 1);
		arg(1, weights[i], 2, R);
		module_at(2, 0xf100 + i, 0);
		acts[i] = alloc(2, 4096, MT_DEV_CPU);
		frame(MT_EV_OP, "aten::relu_", 1);
		arg(1, acts[i], 0, R | W);
	}
	module_at(0, 0, 0);
	for (unsigned i = LAYERS; i--;) {
		uint64_t grad;

		frame(MT_EV_NODE, "AddmmBackward0", 0);
		frame(MT_EV_APPLY, "AddmmBackward0", 1);
		arg(1, acts[i], 0, R);
		frame(MT_EV_OP, "aten::t", 2);
		arg(2, acts[i ? i - 1 : 0], 0, R | MT_FLOW_F_ALIAS);
		frame(MT_EV_OP, "aten::mm", 2);
		arg(2, acts[i], 1, R);
		grad = alloc(3, 4096, MT_DEV_CPU);
		frame(MT_EV_NODE, "torch::autograd::AccumulateGrad", 0);
		frame(MT_EV_ACC, "torch::autograd::AccumulateGrad", 1);
		arg(1, weights[i], 0, R);
		arg(1, grad, 2, R);
		frame(MT_EV_OP, "aten::detach", 2);
		arg(2, grad, 0, R | MT_FLOW_F_ALIAS);
		if (grads[i])
			release(grads[i], MT_DEV_CPU);
		grads[i] = grad;
	}
}

/* Wherever a window begins, what is made of that step's tensors has the same labels: here after each event of a step. */
static void test_cut_anywhere(void **state)
{
	struct report *r;

	(void)state;
	for (unsigned at = 1, is_over = 0; !is_over; at++) {
		begin(1 * S, WINDOW_BYTES_DEFAULT);
		start();
		train(0, 20);
		cut_after = at;
		step_that_keeps_its_graph(alloc(0, 4096, MT_DEV_CPU));
		is_over = cut_after > 0;
		cut_after = 0;
		ts += 3 * S;
		send((struct event){ .kind = EV_END });
		write_window(1);
		compare(&r);
		assert_int_equal(r->devs[0].cats[CAT_ACTIVATION].live, LAYERS * 4096);
		assert_int_equal(r->devs[0].cats[CAT_GRADIENT].live, LAYERS * 4096);
		assert_true(is_over || r->run.notes_cnt == 2);
		report__free(r);
		end();
	}
}

/* Stacks of blocks from before the window, from in it, and of one whose stack is told just before it begins. */
static void test_stacks(void **state)
{
	uint64_t old[8], held = 0, caught = 0;
	unsigned live = 0;
	struct report *r;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	stack(3, "build");
	for (unsigned i = 0; i < 8; i++) {
		stack_at(3);
		old[i] = alloc(0, 1 << 20, MT_DEV_CPU);
	}
	for (unsigned i = 1; i <= 30; i++) {
		char function[16];

		snprintf(function, sizeof(function), "step %u", i);
		stack(3 + 3 * i, function);
		stack_at(3 + 3 * i);
		if (held)
			release(held, MT_DEV_CPU);
		if (i == 28)
			release(old[0], MT_DEV_CPU); /* dies in the window, with its stack */
		held = alloc(0, 3 << 20, MT_DEV_CPU);
		stack_at(i % 2 ? 3 + 3 * i : 3);
		window__tick(win, full); /* a frame's end between a stack and its block */
		ts += MS;
		(void)alloc(0, 1 << 19, MT_DEV_CPU);
		caught_at(3 + 3 * i);
		if (caught)
			release(caught, MT_DEV_CPU);
		caught = alloc(0, 1 << 10, MT_DEV_CPU);
		caught = i % 2 ? caught : 0; /* others live on */
		train(i, 1);
		write_window(0);
		compare(&r);
		report__free(r);
	}
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	assert_true(r->devs[0].carried_blocks > 20);
	for (size_t i = 0; i < r->stacks.cnt; i++) {
		live += r->stacks.rows[i].live_count > 0;
		if (!strcmp(r->stacks.rows[i].frames[1].function, "build")) {
			assert_int_equal(r->stacks.rows[i].live_count, 7 + 15);
			assert_in_range(r->stacks.rows[i].alloc_count, 4, 6); /* those of before are nobody's allocation */
		}
	}
	assert_int_equal(full->caught.blocks.cnt - full->caught.freed, 15);
	assert_int_equal(live, 30 / 2 + 2); /* odd leaves, "build", and the one that is held */
	report__free(r);
	end();
}

/* As many as there can be: none is missing, and none takes the place of a process or a segment. */
static void test_all_stacks_there_can_be(void **state)
{
	struct report *r;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	for (uint32_t i = 1; i <= EV_STACKS_MAX; i++)
		send((struct event){ .kind = EV_STACK, .seq = i, .size = i % 100 ? i - 1 : 0, .name = name("f"), .aux = i,
				.addr = name("train.py").v, .flags = EV_FRAME_PYTHON });
	stack_at(EV_STACKS_MAX);
	(void)alloc(0, 1 << 20, MT_DEV_CPU);
	train(0, 30);
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	assert_true(r->devs[0].carried_blocks > 0 && r->stacks.total == 1);
	assert_int_equal(r->stacks.rows[0].frames[0].line, EV_STACKS_MAX);
	assert_int_equal(r->run.notes_cnt, 2); /* nothing was dropped */
	report__free(r);
	end();
}

static void test_processes_that_end(void **state)
{
	struct report *r;
	struct names *other;
	struct model *m;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 5);
	send_as(WORKER, (struct event){ .kind = EV_GONE });
	for (unsigned i = 0; i < 50; i++) { /* workers come and go */
		send_as(WORKER + 1 + i, (struct event){ .kind = EV_PROC, .name = name("worker") });
		send_as(WORKER + 1 + i, (struct event){ .kind = MT_EV_ALLOC, .addr = 0x5000, .size = 10, .dev = MT_DEV_CPU });
		send_as(WORKER + 1 + i, (struct event){ .kind = EV_GONE });
		train(5 + i * 2, 2);
	}
	send((struct event){ .kind = EV_END });
	write_window(1);
	m = replay(&other);
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_in_range(r->procs_cnt, 2, 20); /* those from before the window are forgotten */
	assert_int_equal(r->procs[0].pid, PID);
	report__free(r);
	model__free(m);
	names__free(other);
	end();
}

/* What says how long ago something was says so still when it is told again later. */
static void test_compiled_before(void **state)
{
	struct report *r, *of_all;
	uint64_t began;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 5);
	began = ts - S / 2;
	send((struct event){ .kind = EV_COMPILED, .addr = S / 2, .size = S / 4, .root = name("0/1"), .name = name("a reason"),
			     .key = name("forward (a.py:1)"), .flags = EV_COMPILED_AGAIN });
	train(5, 100);
	write_window(0);
	compare(&r);
	assert_int_equal(model__report(full, 10, &of_all), 0);
	assert_int_equal(of_all->compiles.rows[0].ts_ns, began);
	assert_true(r->run.start_ts_ns > began);
	assert_int_equal(r->compiles.rows_cnt, 1);
	assert_int_equal(r->compiles.rows[0].ts_ns, began);
	assert_true(r->compiles.rows[0].before);
	assert_string_equal(r->compiles.rows[0].reason, "a reason");
	report__free(of_all);
	report__free(r);
	end();
}

/* Segments that were given back leave nothing behind; those that live are told. */
static void test_segments(void **state)
{
	struct report *r;

	(void)state;
	begin(1 * S, WINDOW_BYTES_DEFAULT);
	start();
	send((struct event){ .kind = MT_EV_SEG_ALLOC, .addr = 0xc000000, .size = 2 << 20, .flags = MT_SEG_DEVICE,
			.dev = MT_DEV_CUDA0 });
	send((struct event){ .kind = MT_EV_ALLOC, .addr = 0xc000000, .size = 1 << 20, .dev = MT_DEV_CUDA0 });
	for (unsigned i = 0; i < 30; i++) {
		send((struct event){ .kind = MT_EV_SEG_ALLOC, .addr = 0xd000000, .size = 1 << 20, .flags = MT_SEG_DEVICE,
				.dev = MT_DEV_CUDA0 });
		train(i * 2, 2);
		send((struct event){ .kind = MT_EV_SEG_FREE, .addr = 0xd000000, .flags = MT_SEG_DEVICE });
		send((struct event){ .kind = MT_EV_TOTALS, .addr = 1 << 20, .size = 2 << 20, .dev = MT_DEV_CUDA0 });
	}
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_segments *s = &r->devs[i].segs;

		if (r->devs[i].dev != MT_DEV_CUDA0)
			continue;
		assert_true(s->live == 2 << 20 && s->cached == 2 << 20 && s->reserved == 2 << 20);
		assert_in_range(s->kinds[MT_SEG_DEVICE].allocs, 2, 12); /* the pairs before the window are not told */
	}
	report__free(r);
	end();
}

static void test_full_memory(void **state)
{
	struct report *r;
	int has_note = 0;

	(void)state;
	begin(3600 * S, 1 << 20); /* below what options allow: this job is small */
	start();
	train(0, 3000);
	assert_true(window__bytes(win) < (1 << 20) + 65536 * sizeof(struct event));
	send((struct event){ .kind = EV_END });
	write_window(1);
	compare(&r);
	assert_true(r->run.end_ts_ns - r->run.start_ts_ns < 300 * S);
	for (size_t i = 0; i < r->run.notes_cnt; i++)
		has_note |= strstr(r->run.notes[i], "--window-size") != NULL;
	assert_true(has_note);
	report__free(r);
	end();
}

static void test_reasons(void **state)
{
	(void)state;
	begin(10 * S, WINDOW_BYTES_DEFAULT);
	start();
	assert_null(window__reason(win));
	send((struct event){ .kind = EV_OOM_KILL, .size = 3 });
	assert_null(window__reason(win)); /* those before the attach */
	send((struct event){ .kind = MT_EV_OOM, .size = 1ull << 40, .dev = MT_DEV_CPU });
	assert_string_equal(window__reason(win), "out of memory");
	assert_null(window__reason(win));
	send((struct event){ .kind = MT_EV_OOM, .size = 1ull << 40, .dev = MT_DEV_CPU });
	assert_null(window__reason(win)); /* it tries again and again */
	ts += 20 * S;
	send((struct event){ .kind = EV_OOM_KILL, .size = 4 });
	assert_string_equal(window__reason(win), "a process was killed for memory");
	end();
}

static void fail_of(uint32_t tid, uint32_t code)
{
	struct event ev = { .kind = MT_EV_SEG_FAIL, .pid = PID, .tid = tid, .size = 2 << 20, .flags = MT_SEG_DEVICE,
			    .dev = MT_DEV_CUDA0, .aux = code, .name = name("cudaMalloc"), .ts_ns = ts };

	assert_int_equal(model__handle(full, &ev), 0);
	window__add(win, full, &ev);
	if (begun)
		recorder__add(begun, full, &ev);
}

/* A driver's refusal is one when nobody made it good; an allocator that empties its cache and asks again was not refused. */
static void test_device_reasons(void **state)
{
	(void)state;
	begin(10 * S, WINDOW_BYTES_DEFAULT);
	start();
	fail_of(PID, 2);
	send((struct event){ .kind = MT_EV_SEG_ALLOC, .addr = 0xc000000, .size = 2 << 20, .flags = MT_SEG_DEVICE,
			.dev = MT_DEV_CUDA0 });
	ts += 3 * S;
	send((struct event){ .kind = EV_TICK });
	assert_null(window__reason(win));
	fail_of(PID, 1); /* not for want of memory */
	ts += 3 * S;
	send((struct event){ .kind = EV_TICK });
	assert_null(window__reason(win));
	fail_of(PID, 2);
	send_as(WORKER, (struct event){ .kind = MT_EV_SEG_ALLOC, .addr = 0xd000000, .size = 2 << 20, .flags = MT_SEG_DEVICE,
			.dev = MT_DEV_CUDA0 }); /* another one has luck */
	assert_null(window__reason(win));
	ts += 1 * S;
	send((struct event){ .kind = EV_TICK });
	assert_string_equal(window__reason(win), "a device is out of memory");
	ts += 20 * S;
	fail_of(PID, 2);
	send((struct event){ .kind = MT_EV_OOM, .size = 2 << 20, .dev = MT_DEV_CUDA0 });
	assert_string_equal(window__reason(win), "out of memory"); /* at once, and once */
	ts += 2 * S;
	send((struct event){ .kind = EV_TICK });
	assert_null(window__reason(win));
	end();
}

static void test_no_room_on_disk(void **state)
{
	struct err err = { 0 };

	(void)state;
	begin(10 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 20);
	assert_int_equal(window__write(win, full, "/dev/full/w.mtr", wo(), 1, &err), -ENOTDIR);
	assert_int_equal(window__write(win, full, "/nowhere/w.mtr", wo(), 1, &err), -ENOENT);
	/* what has the name stays as it is */
	struct rec_writer_opts plain = { .names = names, .is_whole = 1 };
	FILE *f = fopen(path, "w");
	struct stat st;

	fputs("mine", f);
	fclose(f);
	assert_int_equal(window__write(win, full, path, &plain, 1, &err), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 4);
	unlink(path);
	/* what did not fit is gone, and no hint says that it could be read */
	struct rlimit before, low;

	getrlimit(RLIMIT_FSIZE, &before);
	low = (struct rlimit){ .rlim_cur = 100, .rlim_max = before.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &low);
	assert_int_equal(window__write(win, full, path, wo(), 1, &err), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_non_null(strstr(err.hint, "nothing of it was kept"));
	assert_int_equal(access(path, F_OK), -1);
	end();
}

/* A disk that has room for a third: what can be asked for again stays in memory, what cannot is cut to what fits. */
static void test_little_room_on_disk(void **state)
{
	struct rlimit before, low;
	struct err err = { 0 };
	struct report *r;
	struct stat st;
	int has_note = 0;

	(void)state;
	begin(3600 * S, WINDOW_BYTES_DEFAULT);
	start();
	train(0, 3000);
	assert_int_equal(window__write(win, full, path, wo(), 0, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	unlink(path);
	getrlimit(RLIMIT_FSIZE, &before);
	low = (struct rlimit){ .rlim_cur = (rlim_t)st.st_size / 3, .rlim_max = before.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &low);
	assert_int_equal(window__write(win, full, path, wo(), 0, &err), -EFBIG);
	assert_non_null(strstr(err.hint, "in memory still"));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(window__cut(win), 0);
	send((struct event){ .kind = EV_END });
	write_window(1);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(stat(path, &st), 0);
	assert_true((rlim_t)st.st_size <= low.rlim_cur);
	assert_true(window__cut(win) > 0);
	compare(&r);
	assert_int_equal(r->run.lost[MT_LOSS_RECORDING], window__cut(win));
	for (size_t i = 0; i < r->run.notes_cnt; i++)
		has_note |= strstr(r->run.notes[i], "the disk had no room") != NULL;
	assert_true(has_note);
	report__free(r);
	end();
}

/* A process that takes segments without end and gives back what it never had. In a row it took minutes. */
static void a_flood_of_segments_holds_up_nobody(void **state)
{
	struct kept head = { 0 };
	uint64_t begin = now_ns();
	size_t segments = 0;

	(void)state;
	for (uint32_t f = 0; f < 6; f++) {
		struct kept k = { 0 };

		for (uint32_t i = 0; i < 65536; i++) {
			struct event ev = { .kind = MT_EV_SEG_ALLOC, .pid = PID, .addr = f << 16 | i, .ts_ns = 1 };

			if (i & 1) {
				ev.kind = MT_EV_SEG_FREE;
				ev.addr |= 1ull << 40;
			}
			assert_int_equal(kept__add(&k, &ev, PAST_EVENTS_MAX), 0);
		}
		assert_int_equal(kept__append(&head, &k, PAST_EVENTS_MAX), f < 4 ? 0 : 65536);
		kept__done(&k);
	}
	for (uint32_t i = 0; i < 65536; i += 2) /* those of the second frame */
		assert_int_equal(kept__add(&head, &(struct event){ .kind = MT_EV_SEG_FREE, .pid = PID, .addr = 1 << 16 | i },
					   PAST_EVENTS_MAX), 0);
	for (size_t i = 0; i < head.all.cnt; i++)
		segments += head.all.v[i].kind == MT_EV_SEG_ALLOC;
	assert_int_equal(segments, PAST_EVENTS_MAX / 2 - 32768);
	kept__append(&head, &(struct kept){ .all = { &(struct event){ .kind = EV_GONE, .pid = PID, .ts_ns = 2 }, 1, 1 } },
		     PAST_EVENTS_MAX);
	assert_int_equal(head.all.cnt, 0);
	assert_true(now_ns() - begin < 20 * S); /* 0.5 s with sanitizers */
	kept__done(&head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_of_segments_holds_up_nobody),
		cmocka_unit_test(test_same_at_the_end),
		cmocka_unit_test(test_begun_by_a_key),
		cmocka_unit_test(test_labels_go_on),
		cmocka_unit_test(test_younger_than_the_window),
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_cut_inside_an_operator), cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_processes_that_end),
		cmocka_unit_test(test_compiled_before),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_full_memory),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_all_stacks_there_can_be),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_device_reasons),
		cmocka_unit_test(test_no_room_on_disk),
		cmocka_unit_test(test_little_room_on_disk),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
