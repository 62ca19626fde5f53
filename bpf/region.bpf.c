// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * record_function regions. Enter: record_function_enter_new(sret, std::string const &name, …).
 * Exit has no exported function of its own. If the function that unpacks its argument is exported, that one is probed. Else
 * at::RecordFunction::end(): it is called twice for every record (end, then the destructor), and for every backward node's and,
 * while a profiler runs, operator's record too; those lie on the stack, Python's on the heap. A heap may begin right behind a
 * thread's stack, so a record's distance is not enough: the stack of a thread ends where its struct pthread begins
 * (glibc 2.36, nptl/allocatestack.c); the main thread's lies above all heaps, and its struct pthread elsewhere.
 */
#include "lib/region.h"

#define STACK_RECORD_REACH (64 << 10)
#define OLD_STRING_HEAD 24 /* length, capacity, reference count (bits/cow_string.h) */

SEC("uprobe")
int mt_region_begin(struct pt_regs *ctx)
{
	u32 cookie = bpf_get_attach_cookie(ctx);
	struct mt_thread *t = thread_get();
	struct {
		u64 ptr, len;
	} str = {};
	long err;

	hit_count(MT_PROG_REGION_BEGIN);
	if (!t || region_is_reported(t, REGION_BEGUN))
		return 0;
	if (cookie == MT_REGION_BRIEF)
		regions_forget_boxed(t);
	if (cookie == MT_REGION_OLD_STRING) {
		err = bpf_probe_read_user(&str.ptr, sizeof(str.ptr), (void *)arg_behind_result(ctx, 0));
		if (!err)
			err = bpf_probe_read_user(&str.len, sizeof(str.len), (void *)(str.ptr - OLD_STRING_HEAD));
	} else {
		err = bpf_probe_read_user(&str, sizeof(str), (void *)arg_behind_result(ctx, 0));
	}
	if (err) {
		loss_count(MT_LOSS_READ_FAULT);
		str.len = 0;
	}
	region_enter(t, ctx, str.ptr, str.len);
	if (cookie == MT_REGION_BRIEF)
		regions_end(t, ctx);
	return 0;
}

static __always_inline int is_on_stack(u64 record, u64 sp)
{
	u64 end = thread_pointer((struct task_struct *)bpf_get_current_task_btf());

	return record - sp < STACK_RECORD_REACH && !(end > sp && record >= end);
}

SEC("uprobe")
int mt_region_end(struct pt_regs *ctx)
{
	u64 record = arg(ctx, 0);
	struct mt_thread *t;

	hit_count(MT_PROG_REGION_END);
	if ((u32)bpf_get_attach_cookie(ctx) == MT_REGION_ONCE) {
		t = thread_get();
		if (t && !region_is_reported(t, REGION_ENDED))
			regions_end(t, ctx);
		return 0;
	}
	if (is_on_stack(record, sp_of(ctx)))
		return 0;
	t = thread_get();
	if (!t)
		return 0;
	if (record == t->last_end) {
		t->last_end = 0;
		return 0;
	}
	t->last_end = record;
	regions_end(t, ctx);
	return 0;
}
