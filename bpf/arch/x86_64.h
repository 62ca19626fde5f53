/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef MT_BPF_X86_64_H
#define MT_BPF_X86_64_H

/* arch/x86/include/uapi/asm/ptrace.h, a fixed user ABI. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip,
		cs, flags, sp, ss;
};

struct thread_struct {
	unsigned long fsbase;
} CORE;

#define PAGE_SIZE 4096ull

/* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_MMAP 9
#define NR_MUNMAP 11
#define NR_BRK 12
#define NR_MREMAP 25

/* --- calls: System V ------------------------------------------------------------------------------------ */

static __always_inline u64 arg(const struct pt_regs *ctx, int n)
{
	switch (n) {
	case 0: return ctx->di;
	case 1: return ctx->si;
	case 2: return ctx->dx;
	case 3: return ctx->cx;
	case 4: return ctx->r8;
	case 5: return ctx->r9;
	default: return 0;
	}
}

static __always_inline void args_take(u64 *regs, const struct pt_regs *ctx)
{
	regs[0] = ctx->di;
	regs[1] = ctx->si;
	regs[2] = ctx->dx;
	regs[3] = ctx->cx;
	regs[4] = ctx->r8;
	regs[5] = ctx->r9;
}

/* Above the return address. */
static __always_inline u64 stack_arg(u64 sp, u64 k)
{
	return sp + 8 + 8 * k;
}

static __always_inline u64 sp_of(const struct pt_regs *ctx)
{
	return ctx->sp;
}

static __always_inline u64 pc_of(const struct pt_regs *ctx)
{
	return ctx->ip;
}

static __always_inline u64 result_of(const struct pt_regs *ctx)
{
	return ctx->ax;
}

static __always_inline long return_word(u64 sp, u64 *ret)
{
	return bpf_probe_read_user(ret, sizeof(*ret), (void *)sp);
}

static __always_inline u64 sp_after(u64 sp)
{
	return sp + 8;
}

/* --- registers ------------------------------------------------------------------------------------------- */

static __always_inline void stack_regs(u64 *regs, const struct pt_regs *ctx)
{
	regs[MT_STACK_PC] = ctx->ip;
	regs[MT_STACK_SP] = ctx->sp;
	regs[MT_STACK_RBP] = ctx->bp;
	regs[MT_STACK_RBX] = ctx->bx;
	regs[MT_STACK_R12] = ctx->r12;
	regs[MT_STACK_R13] = ctx->r13;
	regs[MT_STACK_R14] = ctx->r14;
	regs[MT_STACK_R15] = ctx->r15;
}

static __always_inline u64 reg_read(const struct pt_regs *r, u8 reg)
{
	switch (reg) {
	case MT_REG_RAX: return r->ax;
	case MT_REG_RCX: return r->cx;
	case MT_REG_RDX: return r->dx;
	case MT_REG_RBX: return r->bx;
	case MT_REG_RSP: return r->sp;
	case MT_REG_RBP: return r->bp;
	case MT_REG_RSI: return r->si;
	case MT_REG_RDI: return r->di;
	case MT_REG_R8: return r->r8;
	case MT_REG_R9: return r->r9;
	case MT_REG_R10: return r->r10;
	case MT_REG_R11: return r->r11;
	case MT_REG_R12: return r->r12;
	case MT_REG_R13: return r->r13;
	case MT_REG_R14: return r->r14;
	case MT_REG_R15: return r->r15;
	case MT_REG_RIP: return r->ip;
	default: return 0;
	}
}

/* --- a thread's variables: glibc's sysdeps/x86_64/nptl/tls.h ------------------------------------------------ */

#define thread_pointer(task) ((task)->thread.fsbase)

static __always_inline u64 dtv_of(u64 thread_pointer)
{
	return thread_pointer + 8;
}

/* --- system calls ---------------------------------------------------------------------------------------------- */

static __always_inline void syscall_nr(u64 *ret, const struct pt_regs *regs)
{
	bpf_probe_read_kernel(ret, sizeof(*ret), &regs->orig_ax);
}

/* At sys_exit the registers still hold the arguments (only rax has changed). */
static __always_inline void syscall_args(u64 args[4], const struct pt_regs *regs)
{
	bpf_probe_read_kernel(&args[0], 8, &regs->di);
	bpf_probe_read_kernel(&args[1], 8, &regs->si);
	bpf_probe_read_kernel(&args[2], 8, &regs->dx);
	bpf_probe_read_kernel(&args[3], 8, &regs->r10);
}

/*
 * A 64-bit program may call by the 32-bit interface (int 0x80), whose numbers are other calls.
 * arch/x86/include/asm/thread_info.h
 */
#define TS_COMPAT 2
struct thread_info {
	u32 status;
} CORE;
struct task_struct___compat {
	struct thread_info thread_info;
} CORE;

static __always_inline int syscall_is_compat(void)
{
	struct task_struct___compat *task = (void *)bpf_get_current_task_btf();

	return task->thread_info.status & TS_COMPAT;
}

#endif
