/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Each rule of the model, on its own. All of them together: tests/sim/sim_model. */

#include "model/core/procs.h"
#include "sim/dump.h"
#include "unit/model_help.h"

#define PID 100u

static uint64_t ts;
static struct tl_event tl[64];
static size_t tl_cnt;
static int tl_result;

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	if (tl_cnt < 64)
		tl[tl_cnt++] = *ev;
	return tl_result;
}

static int setup(void **state)
{
	const struct model_opts opts = { .timeline = keep, .timeline_ops = 1 };

	(void)state;
	ts = 1000;
	tl_cnt = 0;
	tl_result = 0;
	return model_begin(&opts);
}

static int send(struct event ev)
{
	ev.pid = ev.pid ? ev.pid : PID;
	ev.tid = ev.tid ? ev.tid : ev.pid;
	ev.ts_ns = ts++;
	return model__handle(m, &ev);
}
#define SEND(...) send((struct event){ __VA_ARGS__ })
#define NAME(text) .name = names__add(names, text)

static const struct report *report(void)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return rep;
}

static void alloc(uint64_t ptr, uint64_t size, uint32_t depth, uint32_t seq)
{
	SEND(.kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = MT_DEV_CPU,
	     .depth = (uint8_t)depth, .seq = seq);
}

static void free_block(uint64_t ptr)
{
	SEND(.kind = MT_EV_FREE, .addr = ptr, .dev = MT_DEV_CPU);
}

static void frame(uint8_t kind, const char *name, uint32_t depth, uint32_t seq)
{
	SEND(.kind = kind, NAME(name), .depth = (uint8_t)depth, .seq = seq);
}

static const char *op_of_last(void)
{
	return names__get(names, tl[tl_cnt - 1].op);
}

static const char *region_of_last(void)
{
	return names__get(names, tl[tl_cnt - 1].region);
}

static void blocks_live_and_die(void **state)
{
	const struct report_dev *d;

	(void)state;
	alloc(0x10, 100, 0, 0);
	alloc(0x20, 50, 0, 0);
	free_block(0x10);
	d = report()->devs;
	assert_int_equal(rep->devs_cnt, 1);
	assert_int_equal(d->dev, MT_DEV_CPU);
	assert_int_equal(d->live, 50);
	assert_int_equal(d->peak, 150);
	assert_int_equal(d->peak_ts_ns, 1001);
	assert_int_equal(d->allocs, 2);
	assert_int_equal(d->frees, 1);
	assert_int_equal(d->alloc_bytes, 150);
	assert_int_equal(d->free_bytes, 100);
	assert_int_equal(d->cats[CAT_UNKNOWN].at_peak, 150);
	assert_int_equal(rep->peak_blocks.cnt, 2);
	assert_int_equal(rep->peak_blocks.rows[0].size, 100);
	assert_int_equal(rep->peak_blocks.rows[0].freed_ts_ns, 1002);
	assert_int_equal(rep->peak_blocks.rows[1].freed_ts_ns, 0);
	assert_int_equal(rep->run.events[MT_EV_ALLOC], 2);
	assert_int_equal(tl[0].kind, TL_CREATE);
	assert_int_equal(tl[2].kind, TL_DESTROY);
	assert_int_equal(tl[2].id, tl[0].id);
	assert_int_equal(tl[2].size, 100);
}

static void preexisting_blocks_never_count_below_zero(void **state)
{
	(void)state;
	free_block(0x10);
	free_block(0);
	assert_int_equal(tl_cnt, 2);
	assert_int_equal(tl[0].kind, TL_PREEXISTING);
	assert_true(tl[0].size == TL_SIZE_UNKNOWN);
	assert_int_equal(tl[1].kind, TL_DESTROY);
	assert_int_equal(tl[1].id, tl[0].id);
	assert_int_equal(report()->devs[0].preexisting_frees, 1);
	assert_int_equal(rep->devs[0].live, 0);
	assert_int_equal(rep->devs[0].frees, 0);
}

static void a_second_alloc_means_a_lost_free(void **state)
{
	(void)state;
	alloc(0x10, 100, 0, 0);
	alloc(0x10, 30, 0, 0);
	assert_int_equal(report()->run.lost[MT_LOSS_REUSE], 1);
	assert_int_equal(rep->devs[0].live, 30);
	assert_int_equal(rep->devs[0].peak, 100);
	assert_int_equal(tl[1].kind, TL_DESTROY);
	assert_int_equal(tl[1].size, 100);
	assert_int_equal(tl[2].kind, TL_CREATE);
}

static void empty_tensors_are_none_but_malloc_0_is_a_block(void **state)
{
	(void)state;
	alloc(0x10, 0, 0, 0);
	SEND(.kind = MT_EV_ALLOC, .addr = 0x20, .dev = MT_DEV_HOST);
	SEND(.kind = MT_EV_ALLOC, .addr = 0, .size = 8, .dev = MT_DEV_HOST);
	SEND(.kind = MT_EV_FREE, .addr = 0x20, .dev = MT_DEV_HOST);
	assert_int_equal(report()->devs_cnt, 1);
	assert_int_equal(rep->devs[0].dev, MT_DEV_HOST);
	assert_int_equal(rep->devs[0].allocs, 1);
	assert_int_equal(rep->devs[0].frees, 1);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
}

static void layers_are_not_added(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_ALLOC, .addr = 0x20, .size = 64, .dev = MT_DEV_HOST);
	assert_int_equal(report()->ops.none.alloc_bytes, 64);
	alloc(0x20, 40, 0, 0);
	assert_int_equal(report()->ops.none.alloc_bytes, 40);
	assert_int_equal(rep->peak_blocks.cnt, 1);
	assert_int_equal(rep->procs[0].live, 40);
	assert_int_equal(rep->procs[0].host_live, 64);
}

static uint64_t calls_of(const char *op)
{
	const struct report *r = report();

	for (size_t i = 0; i < r->ops.cnt; i++)
		if (!strcmp(r->ops.rows[i].name, op))
			return r->ops.rows[i].count;
	return 0;
}

/* An operator that Python's dispatch is given, and calls by its handle, is one call; others inside of it are calls. */
static void counts_what_is_called_again_once(void **state)
{
	(void)state;
	frame(MT_EV_OP, "aten::mul", 0, 1);
	SEND(.kind = MT_EV_OP, NAME("aten::mul"), .flags = MT_OP_BY_HASH, .depth = 1, .seq = 2);
	assert_int_equal(calls_of("aten::mul"), 1);
	SEND(.kind = MT_EV_OP, NAME("aten::add"), .flags = MT_OP_BY_HASH, .depth = 2, .seq = 3);
	frame(MT_EV_OP, "aten::add", 3, 4); /* not by its handle: a call of an overload by another */
	assert_int_equal(calls_of("aten::add"), 2);
	SEND(.kind = MT_EV_OP, NAME("aten::mul"), .flags = MT_OP_BY_HASH, .depth = 0, .seq = 5);
	assert_int_equal(calls_of("aten::mul"), 2);
	alloc(0x10, 100, 1, 5);
	assert_string_equal(op_of_last(), "aten::mul");
}

static void the_innermost_op_owns_a_block(void **state)
{
	const struct report_op *op;

	(void)state;
	frame(MT_EV_OP, "aten::linear", 0, 1);
	frame(MT_EV_OP, "aten::addmm", 1, 2);
	alloc(0x10, 100, 2, 2);
	assert_string_equal(op_of_last(), "aten::addmm");
	alloc(0x20, 10, 1, 1); /* addmm is over */
	assert_string_equal(op_of_last(), "aten::linear");
	alloc(0x30, 1, 0, 0);
	assert_string_equal(op_of_last(), "");
	op = report()->ops.rows;
	assert_int_equal(rep->ops.total, 2);
	assert_string_equal(op[0].name, "aten::addmm");
	assert_int_equal(op[0].count, 1);
	assert_int_equal(op[0].live, 100);
	assert_int_equal(op[0].at_peak, 100);
	assert_int_equal(op[1].alloc_bytes, 10);
	assert_int_equal(rep->ops.none.alloc_bytes, 1);
	assert_int_equal(rep->run.lost[MT_LOSS_FRAME], 0);
}

static void a_lost_op_leaves_its_blocks_without_one(void **state)
{
	(void)state;
	frame(MT_EV_OP, "aten::linear", 0, 1);
	/* seq 2 at depth 1 was lost */
	alloc(0x10, 100, 2, 2);
	assert_string_equal(op_of_last(), "");
	frame(MT_EV_OP, "aten::mm", 1, 3);
	alloc(0x20, 100, 2, 3);
	assert_string_equal(op_of_last(), "aten::mm");
	assert_int_equal(report()->run.lost[MT_LOSS_FRAME], 1);
}

/* A node's children do not inherit it from a frame that may have been another's by then. */
static void nothing_is_inherited_across_a_loss(void **state)
{
	(void)state;
	frame(MT_EV_NODE, "MulBackward0", 0, 1);
	/* lost: another frame at depth 0, seq 2 */
	frame(MT_EV_OP, "aten::mul", 1, 3);
	frame(MT_EV_OP, "aten::empty", 1, 4);
	alloc(0x10, 100, 2, 4);
	assert_string_equal(region_of_last(), "");
	alloc(0x20, 100, 1, 1); /* so it was not another's */
	assert_string_equal(region_of_last(), "MulBackward0");
	frame(MT_EV_OP, "aten::empty", 1, 5);
	alloc(0x30, 100, 2, 5);
	assert_string_equal(region_of_last(), "MulBackward0");
}

static void depth_beyond_the_stack_is_safe(void **state)
{
	(void)state;
	frame(MT_EV_OP, "aten::deep", 255, 1);
	frame(MT_EV_NODE, "DeepBackward", 32, 2);
	alloc(0x10, 1, 255, 1);
	alloc(0x20, 1, 33, 2);
	alloc(0x30, 1, 32, 2);
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("r"), .aux = UINT32_MAX, .depth = 255);
	SEND(.kind = MT_EV_REGION_END, .aux = UINT32_MAX);
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("r"), .aux = 31);
	alloc(0x40, 1, 0, 0);
	assert_string_equal(region_of_last(), "r");
	assert_int_equal(report()->run.lost[MT_LOSS_FRAME], 3);
}

static void region_or_node_whichever_is_inner(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("backward"), .aux = 0);
	alloc(0x10, 1, 0, 0);
	assert_string_equal(region_of_last(), "backward");
	frame(MT_EV_NODE, "MulBackward0", 0, 1);
	alloc(0x20, 1, 1, 1);
	assert_string_equal(region_of_last(), "MulBackward0");
	assert_string_equal(op_of_last(), "");
	frame(MT_EV_OP, "aten::mul", 1, 2);
	alloc(0x30, 1, 2, 2);
	assert_string_equal(region_of_last(), "MulBackward0");
	assert_string_equal(op_of_last(), "aten::mul");
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("hook"), .aux = 1, .depth = 2, .seq = 2);
	alloc(0x40, 1, 2, 2);
	assert_string_equal(region_of_last(), "hook");
	SEND(.kind = MT_EV_REGION_END, .aux = 1);
	assert_int_equal(tl[tl_cnt - 1].kind, TL_REGION_END);
	assert_string_equal(region_of_last(), "hook");
	alloc(0x50, 1, 2, 2);
	assert_string_equal(region_of_last(), "MulBackward0");
	alloc(0x60, 1, 0, 0);
	assert_string_equal(region_of_last(), "backward");
	assert_int_equal(report()->regions.total, 3);
	assert_int_equal(rep->regions.rows[0].is_node, 1); /* two of the bytes at the peak */
	assert_int_equal(rep->regions.rows[0].at_peak, 3);
}

static void steps_are_marks_or_optimizer_regions(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.step#Adam.step"));
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.zero_grad#Adam.zero_grad"));
	assert_int_equal(report()->marks.steps_total, 3);
	SEND(.kind = MT_EV_STEP, .addr = 7);
	assert_int_equal(tl[tl_cnt - 1].kind, TL_STEP);
	assert_int_equal(tl[tl_cnt - 1].ptr, 7);
	assert_int_equal(report()->marks.steps_total, 1);
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("ProfilerStep#12"));
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("memtrace.step"));
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("memtrace.step"));
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("memtrace.steps"));
	assert_int_equal(report()->marks.steps_total, 4);
	for (size_t i = tl_cnt, n = 2; i--;) /* the marks: 7, 12, 1, 2 */
		if (tl[i].kind == TL_STEP)
			assert_int_equal(tl[i].ptr, ((uint64_t[]){ 12, 1, 2, 7 })[n-- & 3]);
}

static void oom_and_tag(void **state)
{
	(void)state;
	alloc(0x10, 5, 0, 0);
	SEND(.kind = MT_EV_OOM, .size = 1 << 30, .dev = MT_DEV_CPU);
	assert_int_equal(tl[tl_cnt - 1].kind, TL_OOM);
	SEND(.kind = MT_EV_TAG, .addr = 0x10, .dev = MT_DEV_CPU, NAME("weights"));
	assert_int_equal(tl[tl_cnt - 1].kind, TL_TAG);
	assert_int_equal(tl[tl_cnt - 1].id, tl[0].id);
	assert_string_equal(region_of_last(), "weights");
	assert_int_equal(report()->devs[0].ooms, 1);
	assert_int_equal(rep->devs[0].oom_bytes_last, 1 << 30);
}

static void proc(uint32_t pid, uint32_t how, uint64_t start)
{
	SEND(.kind = EV_PROC, .pid = pid, NAME("python3"), .addr = names__add(names, "python3 x.py").v,
	     .flags = (uint8_t)how, .size = start, .aux = 1);
}

/* Ten steps, all probes in slices, ten steps: is there a price? */
static uint64_t priced_steps(uint32_t how, bool steps_before)
{
	SEND(.kind = EV_BEGIN, NAME("0.1 6.18 host"), .addr = (uint64_t)-5);
	proc(PID, how, 1);
	for (int i = 0; steps_before && i < 10; i++)
		SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.step#Adam.step"));
	SEND(.kind = EV_ATTACH, .flags = EV_ATTACH_BEGINS);
	SEND(.kind = EV_ATTACH);
	for (int i = 0; i < 10; i++)
		SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.step#Adam.step"));
	SEND(.kind = EV_ATTACH, .flags = EV_ATTACH_BEGINS); /* a library that was loaded late */
	SEND(.kind = EV_ATTACH);
	for (int i = 0; i < 10; i++)
		SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.step#Adam.step"));
	return report()->cost.price.steps;
}

static void a_price_wants_steps_before_the_probes(void **state)
{
	(void)state;
	assert_int_not_equal(priced_steps(EV_PROC_ATTACHED, true), 0);
}

static void or_after_the_trace(void **state)
{
	(void)state;
	assert_int_equal(priced_steps(EV_PROC_ATTACHED, false), 0);
	for (int i = 0; i < 10; i++)
		SEND(.kind = EV_AFTER, .size = 1);
	SEND(.kind = EV_AFTER, .pid = PID + 7, .size = 1); /* nobody */
	assert_int_equal(report()->cost.price.steps_after, 10);
	assert_int_equal(rep->cost.price.steps_before, 0);
	assert_int_equal(rep->marks.steps_total, 20);
}

static bool is_boundary(uint8_t kind, const char *region)
{
	return model__is_boundary(m, &(struct event){ .kind = kind, .pid = PID, .name = names__add(names, region) });
}

static void boundaries_are_of_the_kind_that_the_process_has(void **state)
{
	(void)state;
	SEND(.kind = EV_BEGIN, NAME("0.1 6.18 host"), .addr = (uint64_t)-5);
	proc(PID, EV_PROC_ATTACHED, 1);
	assert_false(is_boundary(MT_EV_REGION_BEGIN, "Optimizer.step#Adam.step"));
	SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.step#Adam.step"));
	assert_true(is_boundary(MT_EV_REGION_BEGIN, "Optimizer.step#SGD.step"));
	assert_false(is_boundary(MT_EV_REGION_END, "Optimizer.step#SGD.step"));
	assert_false(is_boundary(MT_EV_REGION_BEGIN, "Optimizer.zero_grad#SGD.zero_grad"));
	assert_false(is_boundary(MT_EV_STEP, ""));
	SEND(.kind = MT_EV_STEP, .addr = 1);
	assert_true(is_boundary(MT_EV_STEP, ""));
	assert_true(is_boundary(MT_EV_REGION_BEGIN, "ProfilerStep#3"));
	assert_false(is_boundary(MT_EV_REGION_BEGIN, "Optimizer.step#SGD.step"));
	assert_false(is_boundary(MT_EV_ALLOC, ""));
}

static void no_price_without_steps_before_the_probes(void **state)
{
	(void)state;
	assert_int_equal(priced_steps(EV_PROC_ATTACHED, false), 0);
}

static void no_price_of_what_was_launched(void **state)
{
	(void)state;
	assert_int_equal(priced_steps(EV_PROC_LAUNCHED, true), 0);
}

static void exit_drops_blocks_and_detach_does_not(void **state)
{
	(void)state;
	SEND(.kind = EV_BEGIN, NAME("0.1 6.18 host"), .addr = (uint64_t)-5);
	proc(PID, EV_PROC_ATTACHED, 1);
	proc(200, EV_PROC_FORKED, 2);
	alloc(0x10, 100, 0, 0);
	SEND(.kind = MT_EV_ALLOC, .pid = 200, .addr = 0x10, .size = 7, .dev = MT_DEV_CPU);
	SEND(.kind = MT_EV_EXIT, .addr = 9, .size = 12345);
	SEND(.kind = EV_GONE, .aux = 9);
	SEND(.kind = EV_GONE, .pid = 200, .flags = 1);
	alloc(0x50, 1000, 0, 0); /* the dead do not allocate */
	free_block(0x10);
	assert_int_equal(report()->devs[0].live, 7);
	assert_int_equal(rep->devs[0].dropped, 1);
	assert_int_equal(rep->devs[0].dropped_bytes, 100);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
	assert_int_equal(rep->procs_cnt, 2);
	assert_int_equal(rep->procs[0].gone, 1);
	assert_int_equal(rep->procs[0].live_at_exit, 100);
	assert_int_equal(rep->procs[0].live, 0);
	assert_int_equal(rep->procs[0].exit_status, 9);
	assert_int_equal(rep->procs[0].rss_peak, 12345);
	assert_int_equal(rep->procs[1].gone, 2);
	assert_int_equal(rep->procs[1].live, 7);
	assert_int_equal(rep->run.pid, PID);
	assert_string_equal(rep->run.comm, "python3");
	assert_string_equal(rep->run.cmdline, "python3 x.py");
	assert_string_equal(rep->run.host, "0.1 6.18 host");
	assert_int_equal(rep->run.epoch_off_ns, -5);
}

static void exec_and_reused_pids_start_empty(void **state)
{
	(void)state;
	proc(PID, EV_PROC_ATTACHED, 1);
	alloc(0x10, 100, 0, 0);
	proc(PID, EV_PROC_EXECED, 1);
	assert_int_equal(report()->devs[0].dropped, 1);
	assert_int_equal(rep->procs_cnt, 1);
	alloc(0x10, 30, 0, 0);
	proc(PID, EV_PROC_FORKED, 2); /* its exit was not seen */
	assert_int_equal(report()->devs[0].dropped, 2);
	assert_int_equal(rep->procs_cnt, 2);
	assert_int_equal(rep->procs[0].gone, 1);
	assert_int_equal(rep->procs[1].gone, 0);
	assert_int_equal(rep->run.lost[MT_LOSS_REUSE], 0);
}

static void many_dead_processes_share_a_row(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PROCS_GONE_MAX + 10; i++) {
		proc(1000 + i, EV_PROC_FORKED, i + 1);
		SEND(.kind = MT_EV_ALLOC, .pid = 1000 + i, .addr = 8, .size = 5, .dev = MT_DEV_CPU);
		SEND(.kind = EV_CPU, .pid = 1000 + i, .size = 10);
		SEND(.kind = EV_CPU, .pid = 1000 + i, .size = 14);
		SEND(.kind = EV_GONE, .pid = 1000 + i);
	}
	assert_int_equal(report()->procs_cnt, PROCS_GONE_MAX + 1);
	assert_int_equal(rep->procs[0].pid, 1010);
	assert_int_equal(rep->procs[PROCS_GONE_MAX].pid, 0);
	assert_int_equal(rep->procs[PROCS_GONE_MAX].allocs, 10);
	assert_int_equal(rep->procs[PROCS_GONE_MAX].peak, 5);
	assert_int_equal(rep->procs[PROCS_GONE_MAX].cpu_ns, 40);
	assert_int_equal(rep->cost.target_cpu_ns, 4 * (PROCS_GONE_MAX + 10));
}

/* Beyond PROCS_MAX living processes: counted as a loss, their blocks still balance. */
static void too_many_living_processes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PROCS_MAX; i++)
		proc(1000 + i, EV_PROC_FORKED, 1);
	assert_int_equal(report()->run.lost[MT_LOSS_THREADS], 0);
	SEND(.kind = MT_EV_ALLOC, .pid = 9, .addr = 8, .size = 5, .dev = MT_DEV_CPU);
	SEND(.kind = MT_EV_ALLOC, .pid = 9, .addr = 16, .size = 6, .dev = MT_DEV_CPU);
	model__check(m);
	assert_int_equal(report()->run.lost[MT_LOSS_THREADS], 2);
	SEND(.kind = EV_GONE, .pid = 1000);
	proc(9, EV_PROC_FORKED, 1); /* now there is room */
	SEND(.kind = MT_EV_FREE, .pid = 9, .addr = 8, .dev = MT_DEV_CPU);
	model__check(m);
	SEND(.kind = EV_GONE, .pid = 9);
	assert_int_equal(report()->devs[0].live, 0);
}

/* operator delete tells, then the free that it calls: one death, of a block seen allocated or not. */
static void a_free_reported_twice(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_ALLOC, .addr = 0x10, .size = 5, .dev = MT_DEV_HOST);
	SEND(.kind = MT_EV_FREE, .addr = 0x10, .dev = MT_DEV_HOST);
	SEND(.kind = MT_EV_FREE, .addr = 0x10, .dev = MT_DEV_HOST, .flags = MT_F_FREE_AGAIN);
	SEND(.kind = MT_EV_FREE, .addr = 0x20, .dev = MT_DEV_HOST);
	SEND(.kind = MT_EV_FREE, .addr = 0x20, .dev = MT_DEV_HOST, .flags = MT_F_FREE_AGAIN);
	report();
	assert_int_equal(rep->devs[0].frees, 1);
	assert_int_equal(rep->devs[0].preexisting_frees, 1);
	/* Another thread got the address and handed it over: a death of its own. */
	SEND(.kind = MT_EV_ALLOC, .addr = 0x10, .size = 6, .dev = MT_DEV_HOST, .tid = 8);
	SEND(.kind = MT_EV_FREE, .addr = 0x10, .dev = MT_DEV_HOST, .flags = MT_F_FREE_AGAIN);
	report();
	assert_int_equal(rep->devs[0].frees, 2);
	assert_int_equal(rep->devs[0].live, 0);
}

static void private_and_shared_bytes(void **state)
{
	(void)state;
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PSS, .size = 700);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PRIVATE, .size = 300);
	SEND(.kind = EV_USE, .pid = 6, .aux = MT_USE_PSS, .size = 50);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PSS, .size = 600);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USES, .size = 1);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_RSS, .size = UINT64_MAX);
	report();
	assert_int_equal(rep->kernel.use[MT_USE_PSS], 650);
	assert_int_equal(rep->procs[0].use[MT_USE_PRIVATE], 300);
	assert_int_equal(rep->run.lost[MT_LOSS_DECODE], 2);
	assert_int_equal(rep->kernel.pss.points[0].live_max, 750);
	/* 300 readings more of another process: of all every eighth is kept, from the first on. */
	for (uint64_t i = 0; i < 300; i++) {
		SEND(.kind = EV_USE, .pid = 6, .aux = MT_USE_PRIVATE, .size = 1000 + i);
		SEND(.kind = EV_USE, .pid = 6, .aux = MT_USE_SHARED, .size = 5000 - i);
	}
	report();
	assert_int_equal(rep->procs[1].own.points_cnt, 38);
	for (uint32_t i = 0; i < 38; i++) {
		assert_int_equal(rep->procs[1].own.points[i].own, 1000 + 8 * i);
		assert_int_equal(rep->procs[1].own.points[i].shared, 5000 - 8 * i);
	}
	/* It has grown: its pages are counted, of which PSS is not known, and what was told of that before is over. */
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PSS, .size = 7, .flags = 1);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PRIVATE, .size = 400);
	report();
	assert_int_equal(rep->kernel.use[MT_USE_PSS], 50);
	assert_int_equal(rep->kernel.use_unknown_cnt, 1);
	assert_int_equal(rep->procs[0].use_unknown, 1u << MT_USE_PSS);
	assert_int_equal(rep->procs[0].use[MT_USE_PRIVATE], 400);
	assert_int_equal(rep->procs[0].own.reads, 2);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PSS, .size = 600);
	report();
	assert_int_equal(rep->kernel.use[MT_USE_PSS], 650);
	assert_int_equal(rep->kernel.use_unknown_cnt, 0);
	SEND(.kind = EV_GONE, .pid = 5);
	SEND(.kind = EV_USE, .pid = 5, .aux = MT_USE_PSS, .size = 9);
	report();
	assert_int_equal(rep->kernel.use[MT_USE_PSS], 50); /* its last reading stays with it */
	assert_int_equal(rep->procs[0].use[MT_USE_PSS], 600);
}

static void the_kernels_view(void **state)
{
	const struct report_proc *p;

	(void)state;
	SEND(.kind = MT_EV_RSS, .addr = MT_RSS_ANON, .size = 1000);
	SEND(.kind = MT_EV_RSS, .addr = MT_RSS_FILE, .size = 500);
	SEND(.kind = MT_EV_RSS, .addr = MT_RSS_ANON, .size = 200);
	SEND(.kind = MT_EV_RSS, .addr = MT_RSS_SWAP, .size = 99);
	SEND(.kind = MT_EV_RSS, .addr = 77, .size = 99);
	SEND(.kind = MT_EV_MMAP, .addr = 0x1000, .size = 0x3000, .flags = MT_MAP_ANON);
	SEND(.kind = MT_EV_MMAP, .addr = 0x9000, .size = 0x1000); /* a file */
	SEND(.kind = MT_EV_MUNMAP, .addr = 0x2000, .size = 0x1000);
	SEND(.kind = MT_EV_MUNMAP, .addr = 0x9000, .size = 0x1000);
	SEND(.kind = MT_EV_MUNMAP, .addr = 0x1000, .size = 0x1000, .flags = MT_MAP_REMAP);
	SEND(.kind = MT_EV_MMAP, .addr = 0x20000, .size = 0x8000, .flags = MT_MAP_REMAP);
	SEND(.kind = MT_EV_BRK, .addr = 5000);
	SEND(.kind = MT_EV_BRK, .addr = 7000);
	p = report()->procs;
	assert_int_equal(p->rss_total, 700);
	assert_int_equal(p->rss_peak, 1500);
	assert_int_equal(p->rss[MT_RSS_SWAP], 99);
	assert_int_equal(p->mapped, 0x9000);
	assert_int_equal(p->mapped_peak, 0x9000);
	assert_int_equal(p->brk_growth, 2000);
	assert_int_equal(rep->kernel.rss.points[0].live_max, 1500);
	assert_int_equal(rep->kernel.rss.points[0].live_end, 700);
	assert_int_equal(rep->run.lost[MT_LOSS_DECODE], 1);
}

static void a_mapping_that_stays_where_it_was_moved_from(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_MMAP, .addr = 0x1000, .size = 0x3000, .flags = MT_MAP_ANON);
	SEND(.kind = MT_EV_MUNMAP, .addr = 0x1000, .size = 0x3000, .flags = MT_MAP_REMAP);
	SEND(.kind = MT_EV_MMAP, .addr = 0x20000, .size = 0x3000, .flags = MT_MAP_REMAP | MT_MAP_STAYS);
	SEND(.kind = MT_EV_MMAP, .addr = 0x1000, .size = 0x3000, .flags = MT_MAP_REMAP);
	assert_int_equal(report()->procs->mapped, 0x6000);
	SEND(.kind = MT_EV_MMAP, .addr = 0x40000, .size = 0x1000, .flags = MT_MAP_REMAP); /* of none */
	assert_int_equal(report()->procs->mapped, 0x6000);
	/* mapped before the attach */
	SEND(.kind = MT_EV_MUNMAP, .addr = 0x90000, .size = 0x3000, .flags = MT_MAP_REMAP);
	SEND(.kind = MT_EV_MMAP, .addr = 0xa0000, .size = 0x3000, .flags = MT_MAP_REMAP | MT_MAP_STAYS);
	SEND(.kind = MT_EV_MMAP, .addr = 0x90000, .size = 0x3000, .flags = MT_MAP_REMAP);
	assert_int_equal(report()->procs->mapped, 0x6000);
}

static void what_memtrace_says_of_itself(void **state)
{
	uint64_t took;

	(void)state;
	SEND(.kind = EV_COVER, NAME("ops"), .addr = 10, .size = 9);
	SEND(.kind = EV_COVER, NAME("ops"), .addr = 12, .size = 12);
	SEND(.kind = EV_NOTE, NAME("static program"));
	SEND(.kind = EV_NOTE, NAME("static program"));
	SEND(.kind = EV_COST, .aux = MT_PROG_OP, .addr = 5, .size = 100);
	SEND(.kind = EV_COST, .aux = MT_PROG_OP, .addr = 10, .size = 200);
	SEND(.kind = EV_COST, .aux = MT_PROG_FW_NEW, .addr = 1, .size = 50);
	SEND(.kind = EV_COST, .aux = 1000000, .addr = 1, .size = 50);
	SEND(.kind = EV_LOSS, .aux = MT_LOSS_RING, .size = 3);
	SEND(.kind = EV_LOSS, .aux = MT_LOSS_FRAME, .size = 2);
	SEND(.kind = EV_LOSS, .aux = 4000000000u, .size = 2);
	alloc(0x10, 1, 1, 1); /* the model's own loss is added */
	SEND(.kind = EV_CPU, .size = 1000);
	SEND(.kind = EV_CPU, .size = 3500);
	SEND(.kind = EV_SELF, .addr = 11, .size = 22);
	SEND(.kind = EV_LABEL, NAME("RANK=3"));
	SEND(.kind = EV_LABEL, NAME("WORLD_SIZE=8"));
	SEND(.kind = EV_LABEL, NAME("RANK=4"));
	ts += 2000;
	SEND(.kind = EV_END, .aux = EV_END_TARGET_GONE);
	report();
	assert_int_equal(rep->probes.covers_cnt, 1);
	assert_int_equal(rep->probes.covers[0].attached, 12);
	assert_int_equal(rep->run.notes_cnt, 1);
	assert_int_equal(rep->cost.hits, 11);
	assert_int_equal(rep->cost.ns, 250);
	assert_int_equal(rep->cost.target_cpu_ns, 2500);
	assert_true(rep->cost.share == 0.1);
	took = rep->run.end_ts_ns - rep->run.start_ts_ns;
	assert_in_range(took, 1000, 2499); /* more than one thread was running */
	assert_true(rep->cost.share_most == 272.0 / (double)(took + 22)); /* 250 of probes, 22 of its own */
	assert_int_equal(rep->run.lost[MT_LOSS_RING], 3);
	assert_int_equal(rep->run.lost[MT_LOSS_FRAME], 3);
	assert_int_equal(rep->cost.self_rss, 11);
	assert_int_equal(rep->cost.self_cpu_ns, 22);
	assert_int_equal(rep->procs[0].labels_cnt, 2);
	assert_string_equal(rep->procs[0].labels[0], "RANK=4");
	assert_int_equal(rep->run.ended, 1);
	assert_int_equal(rep->run.end_reason, EV_END_TARGET_GONE);
}

static void odd_devices_sizes_and_kinds_are_counted(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_ALLOC, .addr = 8, .size = 8, .dev = MT_DEV_NONE);
	SEND(.kind = MT_EV_ALLOC, .addr = 8, .size = 8, .dev = 255);
	SEND(.kind = MT_EV_ALLOC, .addr = 8, .size = UINT64_MAX, .dev = MT_DEV_CUDA0);
	SEND(.kind = 200);
	SEND(.kind = MT_EV_NAME);
	SEND(.kind = EV_GONE, .pid = 77);
	assert_int_equal(report()->run.lost[MT_LOSS_DECODE], 5);
	assert_int_equal(rep->devs[0].live, 0);
}

static void the_timelines_error_comes_back(void **state)
{
	(void)state;
	tl_result = -28;
	assert_int_equal(SEND(.kind = MT_EV_ALLOC, .addr = 8, .size = 8, .dev = MT_DEV_CPU), -28);
	assert_int_equal(SEND(.kind = MT_EV_ALLOC, .addr = 8, .size = 9, .dev = MT_DEV_CPU), -28);
	assert_int_equal(tl_cnt, 2); /* told once an event */
	tl_result = 0;
	assert_int_equal(SEND(.kind = EV_TICK), 0);
	assert_int_equal(report()->devs[0].live, 9);
}

static void a_report_of_nothing(void **state)
{
	char *text;

	(void)state;
	text = report_dump(report());
	assert_non_null(text);
	free(text);
	assert_int_equal(rep->devs_cnt, 0);
	assert_int_equal(rep->marks.steps_total, 0);
	report__free(NULL);
	model__free(NULL);
}

static void categories_have_names(void **state)
{
	(void)state;
	assert_string_equal(category_name(CAT_AUTOGRAD_DETAIL), "AUTOGRAD_DETAIL");
	assert_string_equal(category_name(CAT_UNKNOWN), "unknown");
	assert_string_equal(category_name((enum category)99), "unknown");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* What each process holds, whether it is copied from the devices (one process) or summed over the blocks. */
static void what_each_process_holds(void **state)
{
	const struct report *r;

	(void)state;
	assert_int_equal(report()->lanes.cnt, 0);
	alloc(0x1000, 100, 0, 0);
	alloc(0x2000, 30, 0, 0);
	r = report();
	assert_int_equal(r->lanes.cnt, 1);
	assert_int_equal(r->lanes.rows[0].pid, PID);
	assert_int_equal(r->lanes.rows[0].dev, MT_DEV_CPU);
	assert_int_equal(r->lanes.rows[0].cats[CAT_UNKNOWN], 130);
	SEND(.kind = MT_EV_ALLOC, .pid = PID + 1, .addr = 0x1000, .size = 7, .dev = MT_DEV_CPU);
	SEND(.kind = MT_EV_ALLOC, .pid = PID - 1, .addr = 0x1000, .size = 5, .dev = MT_DEV_CUDA0);
	r = report();
	assert_int_equal(r->lanes.cnt, 3);
	assert_int_equal(r->lanes.rows[0].pid, PID - 1);
	assert_int_equal(r->lanes.rows[0].dev, MT_DEV_CUDA0);
	assert_int_equal(r->lanes.rows[1].cats[CAT_UNKNOWN], 130);
	assert_int_equal(r->lanes.rows[2].cats[CAT_UNKNOWN], 7);
	for (uint32_t i = 0; i < 2 * REPORT_LANES_MAX; i++)
		SEND(.kind = MT_EV_ALLOC, .pid = 1000 + i, .addr = 0x1000, .size = 2, .dev = MT_DEV_CPU);
	r = report();
	assert_in_range(r->lanes.cnt, REPORT_LANES_MAX / 2, REPORT_LANES_MAX);
	assert_int_equal(r->lanes.rows[0].pid, 0);
	uint64_t sum = 0;
	for (size_t i = 0; i < r->lanes.cnt; i++)
		sum += r->lanes.rows[i].cats[CAT_UNKNOWN];
	assert_int_equal(sum, 130 + 7 + 5 + 4 * REPORT_LANES_MAX);
}

/* What a process had on each of its devices at most, beside what it had on all of them. */
static void peaks_on_devices(void **state)
{
	const struct report_proc *p;

	(void)state;
	alloc(0x1000, 700, 0, 1);
	SEND(.kind = MT_EV_ALLOC, .addr = 0x2000, .size = 50, .dev = MT_DEV_CUDA0);
	free_block(0x1000);
	SEND(.kind = MT_EV_ALLOC, .addr = 0x3000, .size = 60, .dev = MT_DEV_CUDA0);
	alloc(0x1000, 300, 0, 2);
	p = &report()->procs[0];
	assert_int_equal(p->peak, 750);
	assert_int_equal(p->devs_cnt, 2);
	assert_int_equal(p->devs[0].dev, MT_DEV_CPU);
	assert_int_equal(p->devs[0].peak, 700);
	assert_int_equal(p->devs[1].dev, MT_DEV_CUDA0);
	assert_int_equal(p->devs[1].peak, 110);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_live_and_die),
		TEST(peaks_on_devices),
		TEST(preexisting_blocks_never_count_below_zero),
		TEST(a_second_alloc_means_a_lost_free),
		TEST(empty_tensors_are_none_but_malloc_0_is_a_block),
		TEST(layers_are_not_added),
		TEST(counts_what_is_called_again_once),
		TEST(the_innermost_op_owns_a_block),
		TEST(a_lost_op_leaves_its_blocks_without_one),
		TEST(nothing_is_inherited_across_a_loss),
		TEST(depth_beyond_the_stack_is_safe),
		TEST(region_or_node_whichever_is_inner),
		TEST(steps_are_marks_or_optimizer_regions),
		TEST(oom_and_tag),
		TEST(a_price_wants_steps_before_the_probes),
		TEST(or_after_the_trace),
		TEST(boundaries_are_of_the_kind_that_the_process_has),
		TEST(no_price_without_steps_before_the_probes),
		TEST(no_price_of_what_was_launched),
		TEST(exit_drops_blocks_and_detach_does_not),
		TEST(exec_and_reused_pids_start_empty),
		TEST(many_dead_processes_share_a_row),
		TEST(too_many_living_processes),
		TEST(a_free_reported_twice),
		TEST(private_and_shared_bytes),
		TEST(the_kernels_view),
		TEST(a_mapping_that_stays_where_it_was_moved_from),
		TEST(what_memtrace_says_of_itself),
		TEST(odd_devices_sizes_and_kinds_are_counted),
		TEST(the_timelines_error_comes_back),
		TEST(a_report_of_nothing),
		TEST(what_each_process_holds),
		TEST(categories_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
