/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Devices in the model: whose event makes a block, what a report says in layers, post-mortems. */
#include "unit/model_help.h"


#define PID 100u
#define C0 MT_DEV_CUDA0
#define MB (1ull << 20)
#define S (1000000000ull)

static uint64_t ts;

static int setup(void **state)
{
	(void)state;
	ts = 1000;
	return model_begin(NULL);
}

static void send(struct event ev)
{
	ev.pid = ev.pid ? ev.pid : PID;
	ev.tid = ev.tid ? ev.tid : ev.pid;
	ev.ts_ns = ts++;
	assert_int_equal(model__handle(m, &ev), 0);
	model__check(m);
}
#define SEND(...) send((struct event){ __VA_ARGS__ })
#define NAME(text) .name = names__add(names, text)

static const struct report_dev *dev(uint8_t which)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	for (size_t i = 0; i < rep->devs_cnt; i++)
		if (rep->devs[i].dev == which)
			return &rep->devs[i];
	fail_msg("no device %u", which);
	return NULL;
}

static void segment(uint8_t kind, uint64_t ptr, uint64_t size)
{
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = kind, .dev = C0, .addr = ptr, .size = size);
}

/* A block of the caching allocator, in the order in which it tells. */
static void cached(uint64_t ptr, uint64_t asked, uint64_t size, uint64_t allocated, uint64_t reserved)
{
	SEND(.kind = MT_EV_ALLOC, .dev = C0, .addr = ptr, .size = size);
	SEND(.kind = MT_EV_TOTALS, .dev = C0, .addr = allocated, .size = reserved);
	SEND(.kind = MT_EV_REQUEST, .dev = C0, .addr = ptr, .size = asked, .aux = 0x51);
}

static void uncached(uint64_t ptr, uint64_t allocated, uint64_t reserved)
{
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = ptr);
	SEND(.kind = MT_EV_FREE, .dev = C0, .addr = ptr);
	SEND(.kind = MT_EV_TOTALS, .dev = C0, .addr = allocated, .size = reserved);
}

static void caching_allocator(void **state)
{
	const struct report_segments *s;
	const struct report_dev *d;

	(void)state;
	segment(MT_SEG_DEVICE, 0x10000000, 20 * MB);
	segment(MT_SEG_DEVICE, 0x30000000, 4 * MB); /* a library's */
	cached(0x10000000, 5 * MB - 100, 5 * MB, 5 * MB, 20 * MB);
	cached(0x10000000 + 8 * MB, 1 * MB, 1 * MB, 6 * MB, 20 * MB);
	d = dev(C0);
	s = &d->segs;
	assert_int_equal(d->live, 6 * MB);
	assert_int_equal(d->allocs, 2); /* requests are no blocks of their own */
	assert_int_equal(s->backend, BACKEND_CACHING);
	assert_int_equal(s->driver, 24 * MB);
	assert_int_equal(s->allocator, 20 * MB);
	assert_int_equal(s->others, 4 * MB);
	assert_int_equal(s->tensors, 6 * MB - 100);
	assert_int_equal(s->rounding, 100);
	assert_int_equal(s->unused, 14 * MB);
	assert_int_equal(s->inactive, 14 * MB);
	assert_int_equal(s->largest_free, 11 * MB);
	assert_int_equal(s->allocated_before, 0);
	assert_true(rep->peak_blocks.rows[0].has_stream);
	assert_int_equal(rep->peak_blocks.rows[0].stream, 0x51);
	uncached(0x10000000, 1 * MB, 20 * MB);
	assert_int_equal(dev(C0)->live, 1 * MB);
	assert_int_equal(rep->devs[0].frees, 1);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
}

/* Attached in mid-run: what the allocator says to have and nobody saw allocated. */
static void before_the_attach(void **state)
{
	const struct report_segments *s;

	(void)state;
	cached(0x10000000, 1 * MB, 1 * MB, 11 * MB, 40 * MB);
	s = &dev(C0)->segs;
	assert_int_equal(s->allocated_before, 10 * MB);
	assert_int_equal(s->reserved_before, 40 * MB);
	assert_int_equal(s->driver, 40 * MB);
	assert_int_equal(s->unused, 29 * MB);
	SEND(.kind = MT_EV_FREE, .dev = C0, .addr = 0x50000000); /* one of those */
	SEND(.kind = MT_EV_TOTALS, .dev = C0, .addr = 3 * MB, .size = 40 * MB);
	s = &dev(C0)->segs;
	assert_int_equal(s->allocated_before, 2 * MB);
	SEND(.kind = MT_EV_TOTALS, .dev = C0, .addr = 0, .size = 40 * MB); /* less than is live: never negative */
	assert_int_equal(dev(C0)->segs.allocated_before, 0);
}

static void expandable_segments(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_RESERVED, .addr = 0x40000000, .size = 1ull << 38);
	for (unsigned i = 0; i < 2; i++) {
		SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_PHYSICAL, .dev = C0, .addr = 70 + i, .size = 20 * MB);
		SEND(.kind = MT_EV_SEG_MAP, .flags = MT_SEG_PHYSICAL, .addr = 0x40000000 + i * 20 * MB, .size = 20 * MB,
		     .aux = 70 + i);
	}
	cached(0x40000000, 30 * MB, 30 * MB, 30 * MB, 40 * MB);
	assert_int_equal(dev(C0)->segs.backend, BACKEND_EXPANDABLE);
	assert_int_equal(rep->devs[0].segs.live, 40 * MB);
	assert_int_equal(rep->devs[0].segs.others, 0);
	assert_int_equal(rep->driver.unknown[MT_SEG_RESERVED].live, 1ull << 38);
}

static void stream_ordered(void **state)
{
	const struct report_dev *d;

	(void)state;
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_ASYNC, .addr = 0x7000, .size = 3 * MB, .aux = 9); /* no device told */
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_ASYNC, .dev = C0, .addr = 0x10000000, .size = 5 * MB);
	d = dev(C0);
	assert_int_equal(d->live, 8 * MB);
	assert_int_equal(d->segs.live, 8 * MB);
	assert_int_equal(d->segs.backend, BACKEND_ASYNC);
	assert_int_equal(d->segs.tensors, 8 * MB);
	assert_int_equal(rep->peak_blocks.rows[1].stream, 9);
	SEND(.kind = MT_EV_SEG_FREE, .flags = MT_SEG_DEVICE, .addr = 0x7000); /* by cudaFree */
	assert_int_equal(dev(C0)->live, 5 * MB);
	SEND(.kind = MT_EV_SEG_RESET, .dev = C0);
	assert_int_equal(dev(C0)->live, 0);
	assert_int_equal(rep->devs[0].dropped, 1);
}

static void no_caching(void **state)
{
	(void)state;
	segment(MT_SEG_DEVICE, 0x10000000, 1000);
	SEND(.kind = MT_EV_REQUEST, .dev = C0, .addr = 0x10000000, .size = 1000);
	segment(MT_SEG_DEVICE, 0x20000000, 500); /* raw: nobody asked */
	assert_int_equal(dev(C0)->live, 1000);
	assert_int_equal(rep->devs[0].segs.backend, BACKEND_NO_CACHING);
	assert_int_equal(rep->devs[0].segs.others, 500);
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = 0x20000000); /* told for raw ones, too */
	SEND(.kind = MT_EV_SEG_FREE, .flags = MT_SEG_DEVICE, .addr = 0x20000000);
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = 0x10000000);
	SEND(.kind = MT_EV_SEG_FREE, .flags = MT_SEG_DEVICE, .addr = 0x10000000);
	assert_int_equal(dev(C0)->live, 0);
	assert_int_equal(rep->devs[0].frees, 1);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
	assert_int_equal(rep->devs[0].segs.live, 0);
}

/* An operator was given a tensor that nobody saw allocated. */
static void late(uint8_t where, uint64_t ptr, uint64_t size)
{
	static uint32_t seq;

	SEND(.kind = MT_EV_OP, NAME("aten::relu"), .seq = ++seq);
	SEND(.kind = EV_ARG, .dev = where, .addr = ptr, .size = size, .seq = seq, .depth = 1, .aux = MT_FLOW_F_REQUIRED << 8,
	     .flags = MT_CLASS_PLAIN);
}

/* Without the caching allocator's word the memory's end is theirs. */
static void what_was_late_ends_with_its_memory(void **state)
{
	(void)state;
	late(C0, 0x10000000, 1000);
	late(C0, 0x20000000, 500);
	assert_int_equal(dev(C0)->live, 1500);
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = 0x10000000); /* no caching */
	SEND(.kind = MT_EV_SEG_FREE, .flags = MT_SEG_DEVICE, .addr = 0x10000000);
	assert_int_equal(dev(C0)->live, 500);
	SEND(.kind = MT_EV_SEG_FREE, .flags = MT_SEG_ASYNC, .addr = 0x20000000);
	assert_int_equal(dev(C0)->live, 0);
	assert_int_equal(rep->devs[0].frees, 2);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
	late(C0, 0x30000000, 700); /* its end is not seen: the place is given anew */
	SEND(.kind = MT_EV_REQUEST, .dev = C0, .addr = 0x30000000, .size = 800);
	assert_int_equal(dev(C0)->live, 800);
	assert_int_equal(rep->devs[0].allocs, 1);
}

static void what_was_late_is_the_caching_allocators(void **state)
{
	(void)state;
	late(C0, 0x10000000, 1000);
	cached(0x20000000, 500, 512, 1536, 20 * MB);
	assert_int_equal(dev(C0)->live, 1512);
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = 0x10000000);
	assert_int_equal(dev(C0)->live, 1512);
	SEND(.kind = MT_EV_FREE, .dev = C0, .addr = 0x10000000);
	assert_int_equal(dev(C0)->live, 512);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
}

/* Two were seen at one address, on two devices (one of them no longer there), and now a third of another size. */
static void one_address_is_one_tensor(void **state)
{
	(void)state;
	late(MT_DEV_CPU, 0x10000000, 400);
	SEND(.kind = MT_EV_ALLOC, .dev = C0, .addr = 0x10000000, .size = 300);
	late(C0, 0x10000000, 256);
	dev(C0);
	late(MT_DEV_CPU, 0x20000000, 400);
	SEND(.kind = MT_EV_FREE, .dev = MT_DEV_CPU, .addr = 0x20000000);
	late(C0, 0x20000000, 4000);
	late(MT_DEV_CPU, 0x20000000, 256);
	late(C0, 0x20000000, 256);
	dev(C0);
}

/* The first TOTALS: what was taken for a block of cudaMallocAsync was a library's, requests were the allocator's. */
static void totals_decide(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_ASYNC, .dev = C0, .addr = 0x10000000, .size = 5 * MB);
	SEND(.kind = MT_EV_REQUEST, .dev = C0, .addr = 0x20000000, .size = 1 * MB);
	SEND(.kind = MT_EV_REQUEST, .dev = C0 + 1, .addr = 0x90000000, .size = 7 * MB);
	assert_int_equal(dev(C0)->live, 6 * MB);
	cached(0x30000000, 2 * MB, 2 * MB, 3 * MB, 20 * MB);
	assert_int_equal(dev(C0)->live, 3 * MB);
	assert_int_equal(rep->devs[0].segs.others, 5 * MB);
	assert_int_equal(rep->devs[0].segs.allocated_before, 0);
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_ASYNC, .dev = C0, .addr = 0x11000000, .size = 5 * MB);
	SEND(.kind = MT_EV_REQUEST, .dev = C0, .addr = 0x21000000, .size = 1 * MB);
	assert_int_equal(dev(C0)->live, 3 * MB);
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = 0x20000000);
	assert_int_equal(dev(C0)->live, 3 * MB); /* its FREE comes */
	SEND(.kind = MT_EV_FREE, .dev = C0, .addr = 0x20000000);
	assert_int_equal(dev(C0)->live, 2 * MB);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
	SEND(.kind = MT_EV_REQUEST_FREE, .addr = 0x90000000);
	assert_int_equal(dev(C0 + 1)->live, 0); /* the other device has no totals */
}

/* Another process with another backend on a device of the same number. */
static void backends_are_a_processs_own(void **state)
{
	(void)state;
	cached(0x30000000, 2 * MB, 2 * MB, 2 * MB, 20 * MB);
	SEND(.kind = MT_EV_SEG_ALLOC, .pid = 200, .flags = MT_SEG_ASYNC, .dev = C0, .addr = 0x30000000, .size = 5 * MB);
	assert_int_equal(dev(C0)->live, 7 * MB);
	SEND(.kind = EV_GONE, .pid = 200);
	assert_int_equal(dev(C0)->live, 2 * MB);
	assert_int_equal(rep->devs[0].segs.kinds[MT_SEG_ASYNC].live, 0);
	SEND(.kind = EV_PROC, .flags = EV_PROC_EXECED);
	assert_int_equal(dev(C0)->live, 0);
	assert_int_equal(rep->devs[0].segs.reserved, 0);
}

static void nvml_knows_more(void **state)
{
	const struct report_segments *s;

	(void)state;
	SEND(.kind = EV_PROC, .size = 1);
	segment(MT_SEG_DEVICE, 0x10000000, 20 * MB);
	assert_int_equal(model__handle(m, &(struct event){ .kind = EV_NVML, .dev = C0, .size = 900 * MB, .addr = 80000 * MB,
							   .ts_ns = ts }), 0);
	SEND(.kind = EV_NVML, .dev = C0, .size = 500 * MB);
	s = &dev(C0)->segs;
	assert_true(s->nvml && s->nvml_procs);
	assert_int_equal(s->nvml_used, 900 * MB);
	assert_int_equal(s->nvml_total, 80000 * MB);
	assert_int_equal(s->nvml_own, 500 * MB);
	assert_int_equal(s->residual, 480 * MB);
	SEND(.kind = EV_NVML, .dev = C0, .size = 10 * MB);
	assert_int_equal(dev(C0)->segs.residual, 0);
	SEND(.kind = EV_GONE);
	assert_int_equal(dev(C0)->segs.nvml_own, 0);
	assert_int_equal(rep->devs[0].segs.nvml_own_peak, 500 * MB);
}

/* --- the allocator's own counters ----------------------------------------------------------------------- */

static void counters(uint64_t allocated, uint64_t reserved, uint64_t allocated_peak, uint64_t reserved_peak)
{
	SEND(.kind = EV_COUNTERS, .dev = C0, .addr = allocated, .size = reserved);
	SEND(.kind = EV_COUNTERS, .dev = C0, .aux = EV_COUNTERS_PEAK, .addr = allocated_peak, .size = reserved_peak);
}

static void totals(uint64_t allocated, uint64_t reserved)
{
	SEND(.kind = MT_EV_TOTALS, .dev = C0, .addr = allocated, .size = reserved);
}

static void counters_are_believed_when_they_follow(void **state)
{
	(void)state;
	SEND(.kind = EV_PROC, .size = 1);
	counters(1 * MB, 20 * MB, 50 * MB, 60 * MB); /* nothing was traced yet */
	totals(2 * MB, 20 * MB);
	counters(2 * MB, 20 * MB, 50 * MB, 60 * MB);
	counters(2 * MB, 20 * MB, 50 * MB, 60 * MB); /* the same again */
	totals(3 * MB, 20 * MB);
	counters(4 * MB, 20 * MB, 50 * MB, 60 * MB); /* the job went on while they were read */
	counters(3 * MB, 20 * MB, 50 * MB, 60 * MB);
	assert_int_equal(dev(C0)->segs.counted, 0);
	totals(4 * MB, 20 * MB);
	counters(4 * MB, 20 * MB, 50 * MB, 60 * MB);
	assert_int_equal(dev(C0)->segs.counted, 1);
	assert_int_equal(rep->devs[0].segs.counted_allocated_peak, 50 * MB);
	assert_int_equal(rep->devs[0].segs.counted_reserved_peak, 60 * MB);
	assert_int_equal(rep->devs[0].segs.counted_resets, 0);
	counters(4 * MB, 20 * MB, 4 * MB, 20 * MB);
	counters(4 * MB, 20 * MB, 7 * MB, 80 * MB);
	assert_int_equal(dev(C0)->segs.counted_resets, 1);
	assert_int_equal(rep->devs[0].segs.counted_allocated_peak, 50 * MB);
	assert_int_equal(rep->devs[0].segs.counted_reserved_peak, 80 * MB);
}

/* Of no device of a GPU, and more than there can be. */
static void counters_that_cannot_be(void **state)
{
	(void)state;
	SEND(.kind = EV_PROC, .size = 1);
	totals(2 * MB, 20 * MB);
	for (unsigned i = 1; i < 10; i++) {
		totals(i * MB, 20 * MB);
		SEND(.kind = EV_COUNTERS, .dev = MT_DEV_CPU, .addr = i * MB, .size = 20 * MB);
		SEND(.kind = EV_COUNTERS, .dev = C0, .addr = ~0ull - i, .size = ~0ull);
		SEND(.kind = EV_COUNTERS, .dev = 255, .addr = i * MB, .size = 20 * MB);
	}
	assert_int_equal(dev(C0)->segs.counted, 0);
}

/* Those that have ended leave their peaks behind, and room for others. */
static void counters_of_many_processes(void **state)
{
	(void)state;
	for (uint32_t pid = 1000; pid < 1000 + 2 * 1024 + 10; pid++) {
		SEND(.kind = EV_PROC, .pid = pid, .size = 1);
		for (unsigned i = 1; i <= 3; i++) {
			SEND(.kind = MT_EV_TOTALS, .pid = pid, .dev = C0, .addr = i * MB, .size = 20 * MB);
			SEND(.kind = EV_COUNTERS, .pid = pid, .dev = C0, .addr = i * MB, .size = 20 * MB);
		}
		SEND(.kind = EV_COUNTERS, .pid = pid, .dev = C0, .aux = EV_COUNTERS_PEAK, .addr = pid * MB, .size = pid * MB);
		SEND(.kind = EV_GONE, .pid = pid);
	}
	assert_int_equal(dev(C0)->segs.counted_allocated_peak, (1000 + 2 * 1024 + 9) * MB);
	assert_int_equal(rep->devs[0].segs.counted, 1024);
}

/* --- categories ---------------------------------------------------------------------------------------- */

static void arg(uint64_t ptr, uint8_t device, uint32_t seq, unsigned index, unsigned flags)
{
	SEND(.kind = EV_ARG, .addr = ptr, .size = 512, .dev = device, .seq = seq, .depth = 1,
	     .aux = index | flags << 8);
}

/* One job, tensors on the GPU and on the CPU: each has its category. */
static void categories_on_two_devices(void **state)
{
	const uint64_t w[2] = { 0x1000, 0x900000000 }, g[2] = { 0x2000, 0x900001000 };
	uint32_t seq = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t d = i ? C0 : MT_DEV_CPU;

		SEND(.kind = MT_EV_OP, NAME("aten::mm"), .seq = ++seq);
		SEND(.kind = MT_EV_ALLOC, .addr = g[i], .size = 512, .dev = d, .depth = 1, .seq = seq);
		SEND(.kind = MT_EV_NODE, NAME("torch::autograd::AccumulateGrad"), .seq = ++seq);
		SEND(.kind = MT_EV_ACC, NAME("torch::autograd::AccumulateGrad"), .depth = 1, .seq = ++seq);
		SEND(.kind = EV_ARG, .addr = w[i], .size = 512, .dev = d, .seq = seq, .depth = 2, .aux = 0);
		SEND(.kind = EV_ARG, .addr = g[i], .size = 512, .dev = d, .seq = seq, .depth = 2, .aux = 2);
		SEND(.kind = MT_EV_OP, NAME("aten::detach"), .depth = 2, .seq = ++seq);
		SEND(.kind = EV_ARG, .addr = g[i], .size = 512, .dev = d, .seq = seq, .depth = 3,
		     .aux = MT_FLOW_F_REQUIRED << 8);
		SEND(.kind = MT_EV_REGION_BEGIN, NAME("Optimizer.step#SGD.step"));
		SEND(.kind = MT_EV_OP, NAME("aten::add_.Tensor"), .seq = ++seq);
		arg(w[i], d, seq, 0, MT_FLOW_F_WRITTEN | MT_FLOW_F_REQUIRED);
		arg(g[i], d, seq, 1, MT_FLOW_F_REQUIRED);
		SEND(.kind = MT_EV_REGION_END);
	}
	for (unsigned i = 0; i < 2; i++) {
		const struct report_dev *d = dev(i ? C0 : MT_DEV_CPU);

		assert_int_equal(d->preexisting_blocks, 1);
		assert_int_equal(d->cats[CAT_PARAMETER].live, 512);
		assert_int_equal(d->cats[CAT_GRADIENT].live, 512);
		assert_int_equal(d->live, 1024);
	}
}

/* --- post-mortems ---------------------------------------------------------------------------------------- */

static void fails(uint64_t size, uint32_t code)
{
	SEND(.kind = MT_EV_SEG_FAIL, .flags = MT_SEG_DEVICE, .dev = C0, .size = size, .aux = code, NAME("cudaMalloc"));
}

static void a_second_try_that_works_is_no_oom(void **state)
{
	(void)state;
	segment(MT_SEG_DEVICE, 0x10000000, 20 * MB);
	fails(40 * MB, 2);
	assert_int_equal(dev(C0)->segs.kinds[MT_SEG_DEVICE].fails, 1);
	assert_int_equal(rep->ooms.cnt, 1); /* as long as nobody knows */
	SEND(.kind = MT_EV_SEG_FREE, .flags = MT_SEG_DEVICE, .addr = 0x10000000);
	segment(MT_SEG_DEVICE, 0x50000000, 2 * MB); /* not as much */
	assert_int_equal(dev(C0) ? rep->ooms.cnt : 0, 1);
	segment(MT_SEG_DEVICE, 0x10000000, 40 * MB);
	dev(C0);
	assert_int_equal(rep->ooms.cnt, 0);
	assert_int_equal(rep->ooms.total, 0);
	fails(40 * MB, 801); /* not supported: no want of memory */
	dev(C0);
	assert_int_equal(rep->ooms.cnt, 0);
}

static void an_oom_keeps_what_was_live(void **state)
{
	const struct report_oom *o;

	(void)state;
	segment(MT_SEG_DEVICE, 0x10000000, 20 * MB);
	SEND(.kind = MT_EV_OP, NAME("aten::mm"), .seq = 1);
	SEND(.kind = MT_EV_ALLOC, .dev = C0, .addr = 0x10000000, .size = 5 * MB, .depth = 1, .seq = 1);
	SEND(.kind = MT_EV_TOTALS, .dev = C0, .addr = 5 * MB, .size = 20 * MB);
	SEND(.kind = MT_EV_OP, NAME("aten::conv2d"), .seq = 2);
	fails(40 * MB, 2);
	fails(40 * MB, 2);
	SEND(.kind = MT_EV_OOM, .dev = C0, .size = 39 * MB, .depth = 1, .seq = 2);
	dev(C0);
	assert_int_equal(rep->ooms.cnt, 1);
	o = &rep->ooms.rows[0];
	assert_int_equal(o->kind, OOM_DEVICE);
	assert_int_equal(o->dev, C0);
	assert_int_equal(o->asked, 39 * MB);
	assert_int_equal(o->code, 2);
	assert_string_equal(o->api, "cudaMalloc");
	assert_string_equal(o->op, "aten::conv2d");
	assert_int_equal(o->allocated, 5 * MB);
	assert_int_equal(o->reserved, 20 * MB);
	assert_int_equal(o->unused, 15 * MB);
	assert_int_equal(o->largest_free, 15 * MB);
	assert_int_equal(o->live, 5 * MB);
	assert_int_equal(o->cats[CAT_UNKNOWN], 5 * MB);
	assert_int_equal(o->ops_cnt, 1);
	assert_string_equal(o->ops[0].name, "aten::mm");
	assert_int_equal(o->segs_cnt, 1);
	assert_int_equal(o->segs[0].size, 20 * MB);
	assert_int_equal(o->segs[0].used, 5 * MB);
	assert_int_equal(o->segs[0].largest_free, 15 * MB);
	assert_int_equal(o->segs[0].blocks, 1);
	assert_int_equal(o->blocks_cnt, 1);
	assert_int_equal(o->blocks[0].size, 5 * MB);
	assert_int_equal(o->times, 2);
	segment(MT_SEG_DEVICE, 0x50000000, 40 * MB); /* later: it was final all the same */
	dev(C0);
	assert_int_equal(rep->ooms.cnt, 1);
}

static void a_death_keeps_what_was_live(void **state)
{
	const struct report_oom *o;

	(void)state;
	SEND(.kind = EV_PROC, .size = 1, NAME("python"));
	SEND(.kind = EV_PROC, .pid = 200, .size = 1, NAME("other"));
	SEND(.kind = EV_OOM_KILL, .size = 5);
	SEND(.kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = 0x1000, .size = 300);
	SEND(.kind = MT_EV_ALLOC, .pid = 200, .dev = MT_DEV_CPU, .addr = 0x1000, .size = 7);
	SEND(.kind = MT_EV_RSS, .addr = MT_RSS_ANON, .size = 12345);
	SEND(.kind = MT_EV_EXIT, .addr = 9, .size = 20000);
	SEND(.kind = EV_GONE);
	SEND(.kind = EV_OOM_KILL, .size = 6);
	dev(MT_DEV_CPU);
	assert_int_equal(rep->ooms.cnt, 1);
	o = &rep->ooms.rows[0];
	assert_int_equal(o->kind, OOM_DEATH);
	assert_int_equal(o->exit_status, 9);
	assert_true(o->killed);
	assert_int_equal(o->live, 300);
	assert_int_equal(o->rss[MT_RSS_ANON], 12345);
	assert_string_equal(o->comm, "python");
	assert_int_equal(rep->procs[0].exit_status, 9); /* GONE of one who is not our child knows none */
	ts += 10 * S;
	SEND(.kind = EV_GONE, .pid = 200, .aux = 9); /* somebody's kill -9 */
	dev(MT_DEV_CPU);
	assert_int_equal(rep->ooms.cnt, 2);
	assert_false(rep->ooms.rows[1].killed);
}

/* Read by chance before the process was gone. */
static void the_killers_counter_may_come_first(void **state)
{
	(void)state;
	SEND(.kind = EV_PROC, .size = 1, NAME("python"));
	SEND(.kind = EV_OOM_KILL, .size = 5);
	SEND(.kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = 0x1000, .size = 300);
	SEND(.kind = EV_OOM_KILL, .size = 6);
	SEND(.kind = EV_GONE, .aux = 9);
	dev(MT_DEV_CPU);
	assert_true(rep->ooms.rows[0].killed);
}

/* The kernel's mark tells whom it took: of two killed in that moment not the other one. */
static void a_mark_is_certain(void **state)
{
	(void)state;
	SEND(.kind = EV_PROC, .size = 1, NAME("python"));
	SEND(.kind = EV_PROC, .pid = 200, .size = 1, NAME("other"));
	SEND(.kind = EV_OOM_KILL, .size = 5, .flags = 1);
	SEND(.kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = 0x1000, .size = 300);
	SEND(.kind = MT_EV_OOM_VICTIM);
	SEND(.kind = EV_OOM_KILL, .size = 6, .flags = 1);
	SEND(.kind = EV_GONE, .pid = 200, .aux = 9);
	SEND(.kind = EV_GONE, .aux = 9);
	dev(MT_DEV_CPU);
	assert_int_equal(rep->ooms.cnt, 2);
	assert_false(rep->ooms.rows[0].killed);
	assert_false(rep->ooms.rows[0].marked);
	assert_true(rep->ooms.rows[1].killed);
	assert_true(rep->ooms.rows[1].marked);
}

static void send_away(uint32_t first, uint32_t cnt, uint32_t status)
{
	for (uint32_t i = first; i < first + cnt; i++) {
		SEND(.kind = EV_PROC, .pid = i, .size = 1, NAME("worker"));
		SEND(.kind = EV_GONE, .pid = i, .aux = status);
	}
}

/* Its workers go after it: sent away, then killed. */
static void what_the_job_died_of_is_kept(void **state)
{
	(void)state;
	SEND(.kind = EV_PROC, .size = 1, NAME("python"));
	SEND(.kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = 0x1000, .size = 300);
	SEND(.kind = MT_EV_OOM_VICTIM);
	SEND(.kind = EV_GONE, .aux = 9);
	send_away(300, 6, 15);
	dev(MT_DEV_CPU);
	assert_true(rep->ooms.rows[0].pid == PID && rep->ooms.rows[0].marked);
	send_away(400, 6, 9);
	send_away(500, 6, 15);
	dev(MT_DEV_CPU);
	assert_true(rep->ooms.rows[0].pid == PID && rep->ooms.rows[0].marked);
	assert_int_equal(rep->ooms.rows[3].pid, 405);
	assert_int_equal(rep->ooms.total, 19);
	assert_int_equal(rep->ooms.cnt, REPORT_OOMS_MAX);
}

/* Memory of the host, though a driver's call asked for it. */
static void pinned_memory_is_the_hosts(void **state)
{
	(void)state;
	segment(MT_SEG_DEVICE, 0x1000000, 2 * MB);
	SEND(.kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = 0x1000, .size = 300);
	SEND(.kind = MT_EV_SEG_FAIL, .flags = MT_SEG_PINNED, .size = 1ull << 40, .aux = 2, NAME("cudaHostAlloc"));
	dev(C0);
	assert_int_equal(rep->ooms.cnt, 1);
	assert_int_equal(rep->ooms.rows[0].kind, OOM_HOST);
	assert_int_equal(rep->ooms.rows[0].dev, MT_DEV_CPU);
	assert_int_equal(rep->ooms.rows[0].live, 300);
	assert_string_equal(rep->ooms.rows[0].api, "cudaHostAlloc");
}

static void a_pools_memory_is_where_the_pool_is(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_SEG_POOL, .dev = MT_DEV_CUDA0 + 3, .addr = 0x77);
	SEND(.kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_ASYNC, .addr = 0x1000, .size = 300, .aux = 0x77);
	dev(MT_DEV_CUDA0 + 3);
	assert_int_equal(rep->devs_cnt, 1); /* a pool alone makes no device */
	assert_int_equal(rep->devs[0].dev, MT_DEV_CUDA0 + 3);
	assert_int_equal(rep->devs[0].segs.live, 300);
}

static void four_are_kept_and_deaths_go_first(void **state)
{
	(void)state;
	SEND(.kind = MT_EV_OOM, .dev = MT_DEV_CPU, .size = 99);
	for (uint32_t i = 0; i < 6; i++) {
		SEND(.kind = EV_PROC, .pid = 300 + i, .size = 1, NAME("worker"));
		SEND(.kind = EV_GONE, .pid = 300 + i, .aux = 15);
	}
	dev(MT_DEV_CPU);
	assert_int_equal(rep->ooms.cnt, REPORT_OOMS_MAX);
	assert_int_equal(rep->ooms.total, 7);
	assert_int_equal(rep->ooms.rows[0].asked, 99);
	assert_int_equal(rep->ooms.rows[3].pid, 305);
	for (uint32_t i = 0; i < 9; i++) {
		ts += S;
		SEND(.kind = MT_EV_OOM, .dev = MT_DEV_CPU, .size = 1000 + i);
	}
	dev(MT_DEV_CPU);
	assert_int_equal(rep->ooms.rows[3].asked, 1008);
	ts += 5; /* the same once more, at once */
	SEND(.kind = MT_EV_OOM, .dev = MT_DEV_CPU, .size = 1008);
	dev(MT_DEV_CPU);
	assert_int_equal(rep->ooms.rows[3].times, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(caching_allocator), TEST(before_the_attach), TEST(expandable_segments), TEST(stream_ordered),
		TEST(no_caching), TEST(what_was_late_ends_with_its_memory),
		TEST(what_was_late_is_the_caching_allocators), TEST(one_address_is_one_tensor), TEST(totals_decide),
		TEST(backends_are_a_processs_own), TEST(nvml_knows_more),
		TEST(counters_are_believed_when_they_follow), TEST(counters_that_cannot_be), TEST(counters_of_many_processes),
		TEST(categories_on_two_devices), TEST(a_second_try_that_works_is_no_oom),
		TEST(an_oom_keeps_what_was_live), TEST(a_death_keeps_what_was_live),
		TEST(the_killers_counter_may_come_first), TEST(a_mark_is_certain),
		TEST(a_pools_memory_is_where_the_pool_is), TEST(four_are_kept_and_deaths_go_first),
		TEST(what_the_job_died_of_is_kept), TEST(pinned_memory_is_the_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
