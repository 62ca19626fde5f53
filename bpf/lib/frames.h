/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * frames: which operator is open, without a probe at its end.
 *
 * At entry of an operator its stack pointer and the return address that lies there are kept. At any
 * later event of the thread the frame is still open iff the stack pointer is below it and the word
 * is unchanged; the stack pointer alone is wrong, because a closed operator is followed by deeper
 * code (measured: right only for 73 to 97 % of allocations, with the word for all of them in plain
 * training). Frames are checked from the top and popped until one is open.
 *
 * Frames that a USDT op_begin opened end with op_end only. If an end is missing in a loop, the next
 * begin of the same name at the same stack pointer closes the one left open.
 */
#ifndef MT_BPF_FRAMES_H
#define MT_BPF_FRAMES_H

#include "lib/emit.h"

/*
 * Pops the thread's frames that are over at stack pointer `sp`. In frames.bpf.c: a global function is looked
 * at by the verifier once, its loop not again on every path of every program.
 */
extern int frames_settle(struct mt_thread *t, u64 sp);
/* Closes, before a new one, the explicit frame of the same name at the same place: its end was missed. */
extern int frames_close_same(struct mt_thread *t, u64 sp, u64 hash);

/*
 * An operator's site that is in a link's and in the newer one that replaces it: both programs run at each hit, in the same
 * thread, the newer link's first (the kernel puts consumers at the head of a place's list: consumer_add, 6.6 to 6.18).
 * The newer link's program reports the call, the older one skips it. So no call is reported twice, and none is missed when the
 * old link goes.
 */
static __always_inline int is_reported(struct mt_thread *t, const struct pt_regs *regs, u64 cookie)
{
	if (!(cookie & MT_COOKIE_FIRST)) {
		t->reported_ip = pc_of(regs);
		return 0;
	}
	if (t->reported_ip != pc_of(regs))
		return 0;
	t->reported_ip = 0;
	return 1;
}

/*
 * Operators and nodes are reported once all have their probes. Half of a graph gives categories that differ from those of
 * the whole, and from those without one.
 */
static __always_inline int is_partial(void)
{
	u32 pid;

	if (!mt_partial_cnt)
		return 0;
	pid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_lookup_elem(&partial, &pid) != NULL;
}

/* Opens a frame on top (settled); returns its number. op: as in struct mt_frame. */
static __always_inline u32 frames_open(struct mt_thread *t, u64 sp, u64 ret, u32 flags, u32 op)
{
	u32 d = t->depth, seq = ++t->seq;
	struct mt_frame *f;

	if (d >= MT_FRAMES_MAX) {
		loss_count(MT_LOSS_STACK_DEEP);
		if (flags & MT_FRAME_EXPLICIT)
			t->over++;
		return seq;
	}
	f = &t->frames[d & (MT_FRAMES_MAX - 1)];
	f->sp = sp;
	f->ret = ret;
	f->seq = seq;
	f->op = op;
	if (flags & MT_FRAME_NODE)
		flags |= MT_FRAME_IN_NODE;
	f->flags = flags | (d ? t->frames[(d - 1) & (MT_FRAMES_MAX - 1)].flags & MT_FRAME_IN_NODE : 0);
	f->outer = flags & MT_FRAME_NODE ? 0 : seq;
	if (d && !(flags & MT_FRAME_NODE) && t->frames[(d - 1) & (MT_FRAMES_MAX - 1)].outer)
		f->outer = t->frames[(d - 1) & (MT_FRAMES_MAX - 1)].outer;
	t->depth = d + 1;
	return seq;
}

/* … and reports it. */
static __always_inline void frames_push(struct mt_thread *t, u8 kind, u64 sp, u64 ret, u32 flags, u64 addr)
{
	u32 d = t->depth;

	emit_frame(kind, d, frames_open(t, sp, ret, flags, addr), addr);
}

/* A function entry. */
static __always_inline void frames_enter(struct mt_thread *t, u8 kind, const struct pt_regs *regs, u64 addr)
{
	u64 sp = sp_of(regs), ret = 0;

	frames_settle(t, sp);
	if (return_word(sp, &ret)) {
		loss_count(MT_LOSS_READ_FAULT);
		return;
	}
	frames_push(t, kind, sp, ret, 0, addr);
}

static __always_inline void frames_begin(struct mt_thread *t, const struct pt_regs *regs, u64 hash)
{
	u64 sp = sp_of(regs);

	frames_settle(t, sp);
	frames_close_same(t, sp, hash);
	frames_push(t, MT_EV_OP_BEGIN, sp, hash, MT_FRAME_EXPLICIT, hash);
}

static __always_inline void frames_end(struct mt_thread *t)
{
	u32 d = t->depth;

	if (t->over) {
		t->over--;
		return;
	}
	for (int i = 0; i < MT_FRAMES_MAX; i++) {
		if (!d || d > MT_FRAMES_MAX)
			return; /* began before the attach */
		d--;
		if (t->frames[d & (MT_FRAMES_MAX - 1)].flags & MT_FRAME_EXPLICIT)
			break;
	}
	t->depth = d;
	emit_addr(t, MT_EV_OP_END, MT_DEV_NONE, 0);
}

static __always_inline void regions_begin(struct mt_thread *t, const struct pt_regs *regs, u64 hash)
{
	u32 at = t->regions;

	frames_settle(t, sp_of(regs));
	if (at < MT_REGIONS_MAX) {
		t->regions = at + 1;
	} else {
		loss_count(MT_LOSS_STACK_DEEP);
		t->regions_over++;
	}
	emit_mem(t, MT_EV_REGION_BEGIN, MT_DEV_NONE, 0, hash, at);
}

static __always_inline void regions_end(struct mt_thread *t, const struct pt_regs *regs)
{
	if (t->regions_over) {
		t->regions_over--;
		return;
	}
	if (!t->regions)
		return; /* began before the attach */
	frames_settle(t, sp_of(regs));
	if (t->module.optimizer >= t->regions)
		t->module.optimizer = 0;
	if (t->regions_boxed >= t->regions)
		t->regions_boxed = 0;
	t->regions--;
	emit_mem(t, MT_EV_REGION_END, MT_DEV_NONE, 0, 0, t->regions);
}

#endif
