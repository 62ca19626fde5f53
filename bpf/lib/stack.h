/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stack: where a thread is at an allocation, reported before the allocation's own record: for all that --stacks asks for,
 * else for allocations that are caught for a while (struct mt_catch).
 */
#ifndef MT_BPF_STACK_H
#define MT_BPF_STACK_H

#include "lib/emit.h"

/* In stack.bpf.c: global functions, so that the verifier looks at them once. */
struct stack_ask {
	u64 addr, regs[MT_STACK_REGS];
	u8 dev, flags;
	u8 pad[6];
};
extern int stack_take(struct stack_ask *ask);
extern int catch_take(u32 op, u32 dev, u64 addr, u64 size);

/* 0: none is open. */
static __always_inline u32 op_open(const struct mt_thread *t)
{
	u32 d = t ? t->depth : 0;

	return d && d <= MT_FRAMES_MAX ? t->frames[(d - 1) & (MT_FRAMES_MAX - 1)].op : 0;
}

/* t: its frames are settled; NULL: not known. */
static __always_inline void stack_at(const struct mt_thread *t, const struct pt_regs *regs, u8 dev, u8 flags, u64 addr,
				     u64 size)
{
	struct stack_ask ask = { .addr = addr, .dev = dev, .flags = flags };

	if (!mt_config.stacks || !mt_stacks_on)
		return;
	if ((mt_config.stacks & (MT_STACKS_PYTHON | MT_STACKS_NATIVE)) && size >= mt_config.stack_size &&
	    (mt_stacks_on & MT_STACKS_ON_ALL)) {
		stack_regs(ask.regs, regs);
		stack_take(&ask);
		return;
	}
	if ((mt_config.stacks & MT_STACKS_CATCH) && (mt_stacks_on & MT_STACKS_ON_CATCH))
		catch_take(op_open(t), dev, addr, size);
}

#endif
