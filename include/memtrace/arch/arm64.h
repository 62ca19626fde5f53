/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Compiled (make check-arch), never run: user/arch/arm64 says so. */
#ifndef MT_ARCH_ARM64_H
#define MT_ARCH_ARM64_H

#define MT_ARG_REGS 8	  /* x0 to x7 */
#define MT_ARGS_HIDDEN 0 /* of them: that is x8 */

/* 0 to 30: x0 to x30. */
enum mt_reg {
	MT_REG_X0 = 0,
	MT_REG_SP = 31,
	MT_REG_ARG0 = 0, MT_REG_ARG1 = 1,
};

/* Unwinding begins with these: where the thread is, and the registers that functions keep for their callers. */
enum mt_stack_reg {
	MT_STACK_PC, MT_STACK_SP, MT_STACK_X19, MT_STACK_X20, MT_STACK_X21, MT_STACK_X22, MT_STACK_X23, MT_STACK_X24,
	MT_STACK_X25, MT_STACK_X26, MT_STACK_X27, MT_STACK_X28, MT_STACK_X29,
	MT_STACK_REGS,
};

#endif
