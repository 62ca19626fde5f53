/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* region: a record_function region begins, by its name: for the functions probed for it (region.bpf.c, boxed.bpf.c). */
#ifndef MT_BPF_REGION_H
#define MT_BPF_REGION_H

#include "lib/frames.h"
#include "lib/text.h"

#define OPTIMIZE 0x657a696d6974704full /* "Optimize", of Optimizer.step# and Optimizer.zero_grad# */

/* A dispatcher call has reported the region: functions inside it, which may have probes, do not report it again. */
#define REGION_BEGUN 1
#define REGION_ENDED 2

static __always_inline int region_is_reported(struct mt_thread *t, u32 what)
{
	if (!(t->region_reported & what))
		return 0;
	t->region_reported &= ~what;
	return 1;
}

/* bytes 0: its name could not be read. */
static __always_inline void region_enter(struct mt_thread *t, const struct pt_regs *ctx, u64 name, u64 bytes)
{
	t->last_end = 0;
	regions_begin(t, ctx, bytes ? text_bytes(t, name, bytes) : 0);
	if (bytes && !t->module.optimizer && t->text.words[0] == OPTIMIZE)
		t->module.optimizer = t->regions;
}

/* Reported by a boxed call. Another one reports the end, unless their probe is removed before. */
static __always_inline void region_enter_boxed(struct mt_thread *t, const struct pt_regs *ctx, u64 name, u64 bytes)
{
	region_enter(t, ctx, name, bytes);
	if (!t->regions_boxed)
		t->regions_boxed = t->regions;
}

/* Boxed calls have no probe now: the ends of regions that they reported are not known. */
static __always_inline void regions_forget_boxed(struct mt_thread *t)
{
	if (!t->regions_boxed)
		return;
	t->regions = t->regions_boxed - 1;
	t->regions_boxed = t->regions_over = 0;
	if (t->module.optimizer > t->regions)
		t->module.optimizer = 0;
}

#endif
