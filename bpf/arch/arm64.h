/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compiled (make check-arch), never run: user/arch/arm64 says so. */
#ifndef MT_BPF_ARM64_H
#define MT_BPF_ARM64_H

/* struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h, a fixed user ABI. */
struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};

/* The kernel has behind it the first argument, which the result has overwritten, and the call's number. */
struct pt_regs___kernel {
	u64 orig_x0;
	s32 syscallno;
} CORE;

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} CORE;

#define PAGE_SIZE 4096ull

/* include/uapi/asm-generic/unistd.h */
#define NR_MMAP 222
#define NR_MUNMAP 215
#define NR_BRK 214
#define NR_MREMAP 216

/* --- calls: AAPCS64 ------------------------------------------------------------------------------------- */

static __always_inline u64 arg(const struct pt_regs *ctx, int n)
{
	return n < MT_ARG_REGS ? ctx->regs[n] : 0;
}

static __always_inline void args_take(u64 *regs, const struct pt_regs *ctx)
{
	for (int i = 0; i < MT_ARG_REGS; i++)
		regs[i] = ctx->regs[i];
}

static __always_inline u64 stack_arg(u64 sp, u64 k)
{
	return sp + 8 * k;
}

static __always_inline u64 sp_of(const struct pt_regs *ctx)
{
	return ctx->sp;
}

static __always_inline u64 pc_of(const struct pt_regs *ctx)
{
	return ctx->pc;
}

static __always_inline u64 result_of(const struct pt_regs *ctx)
{
	return ctx->regs[0];
}

/* Not yet: it comes in a register (x30), and each function saves it where it chooses. */
static __always_inline long return_word(u64 sp, u64 *ret)
{
	return -1;
}

static __always_inline u64 sp_after(u64 sp)
{
	return sp;
}

/* --- registers ------------------------------------------------------------------------------------------- */

static __always_inline void stack_regs(u64 *regs, const struct pt_regs *ctx)
{
	regs[MT_STACK_PC] = ctx->pc;
	regs[MT_STACK_SP] = ctx->sp;
	for (int i = MT_STACK_X19; i < MT_STACK_REGS; i++)
		regs[i] = ctx->regs[19 + i - MT_STACK_X19];
}

static __always_inline u64 reg_read(const struct pt_regs *r, u8 reg)
{
	return reg < 31 ? r->regs[reg] : reg == MT_REG_SP ? r->sp : 0;
}

/* --- a thread's variables: glibc's sysdeps/aarch64/nptl/tls.h ----------------------------------------------- */

/* Not yet: struct pthread lies before it, by its size, which differs from glibc to glibc. */
#define thread_pointer(task) ((task)->thread.uw.tp_value)

static __always_inline u64 dtv_of(u64 thread_pointer)
{
	return thread_pointer;
}

/* --- system calls ---------------------------------------------------------------------------------------------- */

static __always_inline void syscall_nr(u64 *ret, const struct pt_regs *regs)
{
	const struct pt_regs___kernel *k = (const void *)regs;

	*ret = (u64)BPF_CORE_READ(k, syscallno);
}

static __always_inline void syscall_args(u64 args[4], const struct pt_regs *regs)
{
	const struct pt_regs___kernel *k = (const void *)regs;

	args[0] = BPF_CORE_READ(k, orig_x0);
	bpf_probe_read_kernel(&args[1], 3 * 8, &regs->regs[1]);
}

static __always_inline int syscall_is_compat(void)
{
	return 0; /* not yet: 32-bit programs have numbers of their own */
}

#endif
