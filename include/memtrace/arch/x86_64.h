/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#ifndef MT_ARCH_X86_64_H
#define MT_ARCH_X86_64_H

#define MT_ARG_REGS 6	  /* rdi rsi rdx rcx r8 r9 */
#define MT_ARGS_HIDDEN 1 /* of them: where the caller wants a result that does not come in registers */

/* In the order of the instruction encoding; 16 = rip. */
enum mt_reg {
	MT_REG_RAX = 0, MT_REG_RCX, MT_REG_RDX, MT_REG_RBX, MT_REG_RSP, MT_REG_RBP, MT_REG_RSI,
	MT_REG_RDI, MT_REG_R8, MT_REG_R9, MT_REG_R10, MT_REG_R11, MT_REG_R12, MT_REG_R13,
	MT_REG_R14, MT_REG_R15, MT_REG_RIP,
	MT_REG_ARG0 = MT_REG_RDI, MT_REG_ARG1 = MT_REG_RSI,
};

/* Unwinding begins with these: where the thread is, and the registers that functions keep for their callers. */
enum mt_stack_reg {
	MT_STACK_PC, MT_STACK_SP, MT_STACK_RBP, MT_STACK_RBX, MT_STACK_R12, MT_STACK_R13, MT_STACK_R14, MT_STACK_R15,
	MT_STACK_REGS,
};

#endif
