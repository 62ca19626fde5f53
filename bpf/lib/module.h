/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* module: which nn.Module's forward runs on a thread at a birth. Told before the birth's own record, when it changed. */
#ifndef MT_BPF_MODULE_H
#define MT_BPF_MODULE_H

#include "lib/emit.h"

/* In module.bpf.c: global functions, so that the verifier looks at them once. */
extern int module_take(struct mt_thread *t, u32 in_node);
extern u64 module_node_seq(u64 node);

/* The thread's frames are settled. */
static __always_inline void module_at(struct mt_thread *t)
{
	const struct mt_frame *f;
	u32 d, outer, in_node;

	if (!mt_modules_on || !t || (t->module.optimizer && !t->module.told))
		return; /* an optimizer's step has hundreds of births, all of them of no module */
	d = t->depth;
	f = d && d <= MT_FRAMES_MAX ? &t->frames[(d - 1) & (MT_FRAMES_MAX - 1)] : NULL;
	outer = f ? f->outer : 0;
	in_node = f ? f->flags & MT_FRAME_IN_NODE : 0;
	if (outer && outer == t->module.outer)
		return; /* the same call from Python as at the last birth */
	t->module.outer = outer;
	module_take(t, in_node);
}

#endif
