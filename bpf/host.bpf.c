// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The malloc family. The pointer is known only at the return, so these have return probes, except
 * free. Allocators call themselves (realloc → malloc, posix_memalign → …): only the outermost call
 * of a thread counts, recognised by its stack pointer: inside it the stack pointer is lower; a
 * return belongs to it iff the stack pointer is back just above the return address.
 *
 * realloc: its free has the time of the entry: after that another thread may be given the address,
 * before that none can. Nothing is freed if it fails.
 *
 * operator new may throw, and a return probe would end the process then: unwinding does not get past the
 * kernel's trampoline. So its `ret` instructions are probed (user/arch/exits.h). A call that never arrives
 * there has thrown: out of memory. An allocation inside it (the exception) counts as the process's, too,
 * unless it is of the same size: that is the block itself.
 *
 * operator delete may call free: the same pointer twice, in one call. The second is reported with a flag
 * and counts only if the block is live, because another thread may have got the address meanwhile and
 * handed it to this one.
 */
#include "lib/frames.h"
#include "lib/stack.h"

#define ENOMEM 12

/* Of this process; it has one from its first block on. NULL: of too many processes. */
static __always_inline struct mt_live_count *live_count(u32 pid)
{
	struct mt_live_count *c = bpf_map_lookup_elem(&live_counts, &pid), none = {};

	if (c || bpf_map_update_elem(&live_counts, &pid, &none, BPF_NOEXIST))
		return c;
	return bpf_map_lookup_elem(&live_counts, &pid);
}

/* As user/base/quota.h has it. Those that count at once may be over it by a few. */
static __always_inline int live_has_room(const struct mt_live_count *c)
{
	u64 all = mt_live_cnt, others = all > c->cnt ? all - c->cnt : 0;

	return others < MT_LIVE_MAX && c->cnt < (MT_LIVE_MAX - others) / 2;
}

static __always_inline void live_is_over(struct mt_live_count *c, u32 pid)
{
	loss_count(MT_LOSS_LIVE_TABLE);
	if (c && !__sync_fetch_and_add(&c->left_out, 1))
		mt_live_over[__sync_fetch_and_add(&mt_live_over_cnt, 1) & (MT_LIVE_OVER_MAX - 1)] = pid;
}

/* Functions of their own: their stack is not added to that of recording an allocation's stack. */
static __noinline int live_put(u64 ptr, u64 size)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct mt_live_key k = { .ptr = ptr, .pid = pid };
	struct mt_live_count *c = live_count(pid);

	if (c && !bpf_map_update_elem(&live, &k, &size, BPF_EXIST))
		return 1; /* its free was not seen */
	if (!c || !live_has_room(c) || bpf_map_update_elem(&live, &k, &size, BPF_NOEXIST)) {
		live_is_over(c, pid);
		return 0;
	}
	__sync_fetch_and_add(&c->cnt, 1);
	__sync_fetch_and_add(&mt_live_cnt, 1);
	return 1;
}

static __noinline int live_take(u64 ptr)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct mt_live_key k = { .ptr = ptr, .pid = pid };
	struct mt_live_count *c;

	if (bpf_map_delete_elem(&live, &k))
		return 0;
	c = bpf_map_lookup_elem(&live_counts, &pid);
	if (c)
		__sync_fetch_and_add(&c->cnt, -1);
	__sync_fetch_and_add(&mt_live_cnt, -1);
	return 1;
}

static __always_inline int live_add(u64 ptr, u64 size)
{
	return !mt_config.min_size || (size >= mt_config.min_size && live_put(ptr, size));
}

static __always_inline int live_remove(u64 ptr)
{
	return !mt_config.min_size || live_take(ptr);
}

/* n * size, saturating; BPF has no 128-bit product for the compiler's own overflow check. */
static __always_inline u64 product(u64 n, u64 size)
{
	u64 limit = n ? ~0ull / n : ~0ull;

	barrier_var(limit); /* else the compiler turns this into that product */
	return size > limit ? ~0ull : n * size;
}

static __always_inline int host_nested(const struct mt_thread *t, u64 sp)
{
	return t->host.sp && sp < t->host.sp;
}

/* Whether a call at this stack pointer is part of one that is already noted. */
static __always_inline int free_nested(const struct mt_thread *t, u64 sp)
{
	return host_nested(t, sp) && !MT_HOST_MAY_THROW(t->host.fn);
}

SEC("uprobe")
int mt_host_free(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), ptr = arg(ctx, 0);
	struct mt_thread *t;
	u8 flags = 0;

	hit_count(MT_PROG_HOST_FREE);
	fired_count(cookie);
	if (!ptr)
		return 0;
	t = thread_get();
	if (t) {
		if (free_nested(t, sp_of(ctx)))
			return 0;
		if (t->freed_ptr == ptr && sp_of(ctx) <= t->freed_sp && (u32)cookie != t->freed_fn)
			flags = MT_F_FREE_AGAIN;
		t->freed_ptr = ptr;
		t->freed_sp = sp_of(ctx);
		t->freed_fn = (u32)cookie;
		frames_settle(t, sp_of(ctx));
	}
	if (live_remove(ptr))
		emit_addr_at(t, MT_EV_FREE, MT_DEV_HOST, flags, ptr, bpf_ktime_get_ns());
	return 0;
}

/* Where a call at this stack pointer is to be noted; NULL: it is part of one that is. */
static __always_inline struct mt_pending *host_place(struct mt_thread *t, u64 sp, u32 fn, u64 size)
{
	struct mt_pending *p = &t->host;

	if (p->sp && sp < p->sp) {
		if (!MT_HOST_MAY_THROW(p->fn))
			return NULL;
		p = &t->inner;
		return p->sp && sp < p->sp ? NULL : p;
	}
	t->inner.sp = 0;
	if (!p->sp)
		return p;
	/* The same stack pointer is a tail call: realloc(NULL, n) jumps to malloc. The callee decides. */
	if (p->sp == sp && p->fn != fn && p->size == size)
		return p;
	if (MT_HOST_MAY_THROW(p->fn))
		emit_mem(t, MT_EV_OOM, MT_DEV_HOST, 0, 0, p->size);
	else if (p->sp != sp)
		loss_count(MT_LOSS_PENDING); /* left by longjmp: nothing was given out */
	return p;
}

SEC("uprobe")
int mt_host_enter(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	u64 a = arg(ctx, 0), b = arg(ctx, 1), c = arg(ctx, 2), ptr = 0, size = 0;
	struct mt_thread *t = thread_get();
	struct mt_pending *p;

	hit_count(MT_PROG_HOST_ENTER);
	fired_count(cookie);
	if (!t)
		return 0;
	switch ((u32)cookie) {
	case MT_HOST_MALLOC:
	case MT_HOST_VALLOC:
		size = a;
		break;
	case MT_HOST_CALLOC:
		size = product(a, b);
		break;
	case MT_HOST_REALLOC:
		ptr = a;
		size = b;
		break;
	case MT_HOST_REALLOCARRAY:
		ptr = a;
		size = product(b, c);
		break;
	case MT_HOST_MEMALIGN:
		size = b;
		break;
	case MT_HOST_POSIX_MEMALIGN:
		ptr = a;
		size = c;
		break;
	default:
		if (!MT_HOST_MAY_THROW((u32)cookie))
			return 0;
		size = a;
	}
	p = host_place(t, sp_of(ctx), (u32)cookie, size);
	if (!p)
		return 0;
	t->freed_ptr = 0;
	p->ts_ns = bpf_ktime_get_ns();
	p->ptr = ptr;
	p->size = size;
	p->fn = (u32)cookie;
	p->has_given = 0;
	p->sp = sp_of(ctx);
	return 0;
}

/* `how`: of the place where the probe is (MT_STACK_F_*). */
static __always_inline void host_done(const struct pt_regs *regs, u8 how, const struct mt_thread *t,
				      const struct mt_pending *p)
{
	int moves = p->fn == MT_HOST_REALLOC || p->fn == MT_HOST_REALLOCARRAY;
	u64 ret = result_of(regs);
	u8 flags = 0;

	if (p->fn == MT_HOST_POSIX_MEMALIGN) {
		u64 out = 0;

		if ((u32)ret && (u32)ret != ENOMEM)
			return; /* a bad alignment is not for want of memory */
		if (!ret && bpf_probe_read_user(&out, sizeof(out), (void *)p->ptr))
			loss_count(MT_LOSS_READ_FAULT);
		ret = (u32)ret ? 0 : out;
	}
	if (moves && p->ptr && (ret || !p->size)) {
		flags = ret ? MT_F_BLOCK_MOVED : 0;
		if (live_remove(p->ptr))
			emit_addr_at(t, MT_EV_FREE, MT_DEV_HOST, flags, p->ptr, p->ts_ns);
		if (!ret)
			return; /* realloc(ptr, 0) */
	}
	if (!ret) {
		emit_mem(t, MT_EV_OOM, MT_DEV_HOST, 0, 0, p->size);
	} else if (live_add(ret, p->size)) {
		stack_at(t, regs, MT_DEV_HOST, how, ret, p->size);
		emit_mem(t, MT_EV_ALLOC, MT_DEV_HOST, flags, ret, p->size);
	}
}

SEC("uretprobe")
int mt_host_ret(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	struct mt_pending p;

	hit_count(MT_PROG_HOST_RET);
	if (!t || !t->host.sp)
		return 0;
	if (t->inner.sp && sp_of(ctx) == sp_after(t->inner.sp)) {
		p = t->inner;
		t->inner.sp = 0;
		if (p.size == t->host.size)
			return 0; /* operator new's own: reported at its end */
		t->host.has_given = 1;
	} else if (sp_of(ctx) == sp_after(t->host.sp)) {
		p = t->host;
		t->host.sp = 0;
	} else {
		return 0;
	}
	frames_settle(t, sp_of(ctx));
	host_done(ctx, MT_STACK_F_RETURN, t, &p);
	return 0;
}

/* At a `ret`: the return address is still on the stack. */
SEC("uprobe")
int mt_host_exit(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	struct mt_pending p;

	hit_count(MT_PROG_HOST_EXIT);
	if (!t || !t->host.sp || sp_of(ctx) != t->host.sp || !MT_HOST_MAY_THROW(t->host.fn))
		return 0;
	p = t->host;
	t->host.sp = 0;
	frames_settle(t, sp_after(sp_of(ctx)));
	host_done(ctx, 0, t, &p);
	return 0;
}
