/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * args: all that programs know of the processor. Each bpf/arch/X.h has
 *
 *   struct pt_regs             what a uprobe program gets
 *   struct thread_struct       what the kernel keeps of a thread, cut down
 *   PAGE_SIZE
 *   NR_MMAP …                  numbers of system calls
 *   arg(ctx, n)                integer argument n of a function, at its entry; n is a constant
 *   args_take(regs, ctx)       all of them that come in registers, MT_ARG_REGS
 *   stack_arg(sp, k)           address of word k of those on the stack
 *   sp_of(ctx), pc_of(ctx)     stack pointer, program counter
 *   result_of(ctx)             what a function returns, at its end
 *   return_word(sp, ret)       the return address of a call that began at stack pointer sp, while that is open
 *   sp_after(sp)               the stack pointer when it is over
 *   stack_regs(regs, ctx)      what a stack is unwound from (enum mt_stack_reg)
 *   reg_read(ctx, reg)         a register that a USDT probe's note names (enum mt_reg)
 *   thread_pointer(task)       a thread's struct pthread (the result of pthread_self())
 *   dtv_of(thread_pointer)     where the address of its table of modules' blocks is
 *   syscall_nr, syscall_args   of the registers at sys_exit
 *   syscall_is_compat()        was it made by the interface of an older machine, with other numbers
 */
#ifndef MT_BPF_ARGS_H
#define MT_BPF_ARGS_H

#if defined(__TARGET_ARCH_x86)
#include "arch/x86_64.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arch/arm64.h"
#endif

/* Argument n of a function whose caller passes the address for the result. */
#define arg_behind_result(ctx, n) arg(ctx, (n) + MT_ARGS_HIDDEN)

#endif
