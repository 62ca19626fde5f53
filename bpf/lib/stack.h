/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* stack: --stacks: where a thread is at a birth. Told before the birth's own record. */
#ifndef MT_BPF_STACK_H
#define MT_BPF_STACK_H

#include "lib/emit.h"

/* In stack.bpf.c: a global function, so that the verifier looks at it once. */
struct stack_ask {
	u64 addr, regs[MT_STACK_REGS];
	u8 dev, flags;
	u8 pad[6];
};
extern int stack_take(struct stack_ask *ask);

static __always_inline void stack_at(const struct pt_regs *regs, u8 dev, u8 flags, u64 addr, u64 size)
{
	struct stack_ask ask = { .addr = addr, .dev = dev, .flags = flags };

	if (!mt_config.stacks || size < mt_config.stack_size || !mt_stacks_on)
		return;
	stack_regs(ask.regs, regs);
	stack_take(&ask);
}

#endif
