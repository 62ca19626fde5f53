// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel's own view of the followed processes: mappings, the program break, RSS, death.
 *
 * Mappings come from the sys_exit tracepoint, which every system call of the machine passes once it
 * is on: 0.1 us a call. (fexit programs on the four calls alone would be cheaper, but
 * kernels that forbid function tracing do not load them.)
 * RSS is read from /proc by user/live/usage.c: the tracepoint rss_stat is passed twice for every page that is faulted in
 * (0.35 us a page, 4,900 pages a step of a job with 1 MB temporaries). Only an OOM victim's is reported here, since it
 * cannot be read afterwards: the kernel's counter without its per-CPU rests, off by at most 32 pages a CPU.
 */
#include "lib/emit.h"

#include <bpf/bpf_tracing.h>

#define MAP_SHARED 0x01
#define MAP_ANONYMOUS 0x20
#define MAP_HUGETLB 0x40000
#define MREMAP_DONTUNMAP 4
#define ERRNO_MAX 4095ul
#define PID_LAST 0x7fffffff

static __always_inline int is_followed(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&targets, &pid) != NULL;
}

static __always_inline u64 page_align(u64 len)
{
	return (len + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
}

/* Not inlined, so that the verifier walks through it once. */
__noinline int emit_map(u32 kind, u32 flags, u64 addr, u64 size)
{
	emit_mem(NULL, kind, MT_DEV_NONE, flags, addr, size);
	return 0;
}

/*
 * At sys_exit the registers still hold the arguments, so one program sees call and result together and no state is kept
 * between them. Calls of an older machine's interface have other numbers: those are passed over.
 */
SEC("tp_btf/sys_exit")
int BPF_PROG(mt_sys_exit, const struct pt_regs *regs, long ret)
{
	u64 a[4] = {}, nr = 0;
	u8 flags = 0;

	syscall_nr(&nr, regs);
	if (nr != NR_MMAP && nr != NR_MUNMAP && nr != NR_BRK && nr != NR_MREMAP)
		return 0;
	if (!is_followed() || syscall_is_compat())
		return 0;
	hit_count(MT_PROG_SYSCALL);
	if ((unsigned long)ret >= -ERRNO_MAX)
		return 0;
	syscall_args(a, regs);
	switch (nr) {
	case NR_MMAP:
		if (a[3] & MAP_ANONYMOUS)
			flags |= MT_MAP_ANON;
		if (a[3] & MAP_SHARED)
			flags |= MT_MAP_SHARED;
		if (a[3] & MAP_HUGETLB)
			flags |= MT_MAP_HUGETLB;
		emit_map(MT_EV_MMAP, flags, ret, page_align(a[1]));
		break;
	case NR_MREMAP:
		if (a[3] & MREMAP_DONTUNMAP)
			flags = MT_MAP_STAYS;
		emit_map(MT_EV_MUNMAP, MT_MAP_REMAP, a[0], page_align(a[1]));
		emit_map(MT_EV_MMAP, MT_MAP_REMAP | flags, ret, page_align(a[2]));
		if (flags)
			emit_map(MT_EV_MMAP, MT_MAP_REMAP, a[0], page_align(a[1]));
		break;
	case NR_MUNMAP:
		emit_map(MT_EV_MUNMAP, 0, a[0], page_align(a[1]));
		break;
	case NR_BRK:
		emit_addr(NULL, MT_EV_BRK, MT_DEV_NONE, ret);
		break;
	}
	return 0;
}

static __always_inline s64 rss_pages(struct mm_struct *mm, u32 member)
{
	struct mm_struct___old *old = (void *)mm;
	s64 pages = 0;

	if (bpf_core_type_exists(struct mm_rss_stat___old)) {
		if (member < MT_RSS_KINDS)
			bpf_probe_read_kernel(&pages, sizeof(pages), &old->rss_stat.count[member].counter);
	} else if (member < MT_RSS_KINDS) {
		u64 each = bpf_core_type_size(struct percpu_counter);
		u64 base = (u64)__builtin_preserve_access_index(&mm->rss_stat);
		u64 at = bpf_core_field_offset(struct percpu_counter, count);

		bpf_probe_read_kernel(&pages, sizeof(pages), (void *)(base + member * each + at));
	}
	return pages > 0 ? pages : 0;
}

#define SIGNAL_ABORT 6

/*
 * An operator new that throws is reported when its thread next asks for memory; if the exception is not caught, that
 * is never. The exception took memory inside of it, which an abort for another reason would not.
 */
static __always_inline void exit_uncaught(struct task_struct *p)
{
	struct mt_thread *t;

	if ((p->signal->group_exit_code & 0x7f) != SIGNAL_ABORT)
		return;
	t = bpf_task_storage_get(&threads, p, 0, 0);
	if (t && t->host.sp && t->host.has_given && MT_HOST_MAY_THROW(t->host.fn))
		emit_mem(t, MT_EV_OOM, MT_DEV_HOST, 0, 0, t->host.size);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(mt_process_exit, struct task_struct *p)
{
	u64 code;

	if (!is_followed())
		return 0;
	exit_uncaught(p);
	if (p->signal->live.counter)
		return 0; /* other threads go on */
	hit_count(MT_PROG_EXIT);
	code = p->signal->group_exit_code ?: p->exit_code;
	emit_mem(NULL, MT_EV_EXIT, MT_DEV_NONE, 0, code, p->signal->maxrss * PAGE_SIZE);
	return 0;
}

/* A new program has none of the old one's frames and regions. Always loaded. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(mt_process_exec, struct task_struct *p)
{
	(void)bpf_task_storage_delete(&threads, p);
	return 0;
}

/* Most often the process that asked for too much is the one that is taken. */
static __always_inline void rss_of_victim(u32 pid)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if ((u32)task->tgid != pid)
		return;
	for (u32 m = 0; m < MT_RSS_KINDS; m++)
		emit_mem(NULL, MT_EV_RSS, MT_DEV_NONE, 0, m, rss_pages(task->mm, m) * PAGE_SIZE);
}

/*
 * The OOM killer marks its victim, in whichever process asked for memory last. The argument is the task that still has the
 * memory. Before 6.9, except in older branches with that change, it is that thread's number. If the process's first thread
 * has ended, that is not the process's number, and the victim is not reported.
 */
SEC("raw_tp/mark_victim")
int mt_oom_victim(struct bpf_raw_tracepoint_args *ctx)
{
	u64 victim = ctx->args[0];
	u32 pid = victim <= PID_LAST ? (u32)victim : (u32)BPF_CORE_READ((struct task_struct *)victim, tgid);
	struct mt_rec_addr *r;
	void *ring;

	if (!bpf_map_lookup_elem(&targets, &pid))
		return 0;
	rss_of_victim(pid);
	ring = ring_get();
	r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		loss_count(MT_LOSS_RING);
		return 0;
	}
	hdr_fill(&r->hdr, MT_EV_OOM_VICTIM, MT_DEV_NONE, bpf_ktime_get_ns());
	r->hdr.pid = r->hdr.tid = pid;
	r->addr = pid;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
	return 0;
}
