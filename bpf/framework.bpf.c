// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The framework's own reports of CPU tensor memory (c10/core/CPUAllocator.h): New is called after
 * the allocation, Delete before the free, with a profiler or without. So one entry probe each, and
 * no other thread can be given an address before its Delete has been seen.
 */
#include "lib/frames.h"

SEC("uprobe")
int mt_fw_new(struct pt_regs *ctx)
{
	u64 ptr = ctx->si, size = ctx->dx;
	struct mt_thread *t;

	hit_count(MT_PROG_FW_NEW);
	if (!ptr || !size)
		return 0; /* the framework does not count them either */
	t = thread_get();
	if (t)
		frames_settle(t, ctx->sp);
	emit_mem(t, MT_EV_ALLOC, MT_DEV_CPU, 0, ptr, size);
	return 0;
}

SEC("uprobe")
int mt_fw_delete(struct pt_regs *ctx)
{
	u64 ptr = ctx->si;
	struct mt_thread *t;

	hit_count(MT_PROG_FW_DELETE);
	if (!ptr)
		return 0;
	t = thread_get();
	if (t)
		frames_settle(t, ctx->sp);
	emit_addr(t, MT_EV_FREE, MT_DEV_CPU, ptr);
	return 0;
}

SEC("uprobe")
int mt_fw_oom(struct pt_regs *ctx)
{
	struct mt_thread *t;

	hit_count(MT_PROG_FW_OOM);
	t = thread_get();
	if (t)
		frames_settle(t, ctx->sp);
	emit_mem(t, MT_EV_OOM, MT_DEV_CPU, 0, 0, ctx->si);
	return 0;
}
