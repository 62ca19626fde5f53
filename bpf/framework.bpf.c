// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The framework's own reports of tensor memory. CPU (c10/core/CPUAllocator.h): New is called after
 * the allocation, Delete before the free, with a profiler or without. One entry probe each is
 * enough: no other thread can be given an address before its Delete was seen.
 */
#include "lib/frames.h"
#include "lib/module.h"
#include "lib/stack.h"

#define C10_CUDA 1 /* c10::DeviceType */

SEC("uprobe")
int mt_fw_new(struct pt_regs *ctx)
{
	u64 ptr = arg(ctx, 1), size = arg(ctx, 2);
	struct mt_thread *t;

	hit_count(MT_PROG_FW_NEW);
	if (!ptr || !size)
		return 0; /* the framework does not count them either */
	t = thread_get();
	if (t)
		frames_settle(t, sp_of(ctx));
	module_at(t);
	stack_at(t, ctx, MT_DEV_CPU, 0, ptr, size);
	alloc_tell(t, MT_DEV_CPU, ptr, size);
	return 0;
}

SEC("uprobe")
int mt_fw_delete(struct pt_regs *ctx)
{
	u64 ptr = arg(ctx, 1);
	struct mt_thread *t;

	hit_count(MT_PROG_FW_DELETE);
	if (!ptr)
		return 0;
	t = thread_get();
	if (t)
		frames_settle(t, sp_of(ctx));
	emit_addr(t, MT_EV_FREE, MT_DEV_CPU, ptr);
	return 0;
}

/*
 * c10::Device by value: type in the low byte, index in the next; the bytes above may be anything. Only
 * CUDA's (HIP's builds say CUDA too): the CPU allocator calls the same functions, while a profiler runs.
 */
static __always_inline u8 device_of(u64 device)
{
	if ((device & 0xff) != C10_CUDA || ((device >> 8) & 0xff) >= MT_DEV_CUDA_MAX)
		return MT_DEV_NONE;
	return MT_DEV_CUDA0 + (u8)(device >> 8);
}

/*
 * The caching allocator, under its lock: every block that it gives out or takes back (size rounded, < 0:
 * taken back), with its device's totals after that.
 */
SEC("uprobe")
int mt_fw_usage(struct pt_regs *ctx)
{
	u8 dev = device_of(arg(ctx, 4));
	s64 size = arg(ctx, 1);
	struct mt_thread *t;

	hit_count(MT_PROG_FW_USAGE);
	if (!dev || !arg(ctx, 0) || !size)
		return 0;
	t = thread_get();
	if (t) {
		frames_settle(t, sp_of(ctx));
		t->freeing = 0;
	}
	if (size > 0) {
		module_at(t);
		stack_at(t, ctx, dev, 0, arg(ctx, 0), size);
		alloc_tell(t, dev, arg(ctx, 0), size);
	} else {
		emit_addr(t, MT_EV_FREE, dev, arg(ctx, 0));
	}
	emit_mem(t, MT_EV_TOTALS, dev, 0, arg(ctx, 2), arg(ctx, 3));
	return 0;
}

SEC("uprobe")
int mt_fw_usage_oom(struct pt_regs *ctx)
{
	u8 dev = device_of(arg(ctx, 3));
	struct mt_thread *t;

	hit_count(MT_PROG_FW_USAGE_OOM);
	if (!dev)
		return 0;
	t = thread_get();
	if (t)
		frames_settle(t, sp_of(ctx));
	module_refused(t);
	/* the cached memory has just been given back, which no block's event shows */
	emit_mem(t, MT_EV_TOTALS, dev, 0, arg(ctx, 1), arg(ctx, 2));
	emit_mem(t, MT_EV_OOM, dev, 0, 0, arg(ctx, 0));
	return 0;
}

SEC("uprobe")
int mt_fw_oom(struct pt_regs *ctx)
{
	struct mt_thread *t;

	hit_count(MT_PROG_FW_OOM);
	t = thread_get();
	if (t)
		frames_settle(t, sp_of(ctx));
	module_refused(t);
	emit_mem(t, MT_EV_OOM, MT_DEV_CPU, 0, 0, arg(ctx, 1));
	return 0;
}
