/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * module: which nn.Module's forward runs on a thread at an allocation: reported before the allocation's own record, if it
 * changed. And which line of Python allocates, if no operator is open: code that torch.compile generated calls its kernels
 * itself.
 */
#ifndef MT_BPF_MODULE_H
#define MT_BPF_MODULE_H

#include "lib/frames.h"

/* In module.bpf.c: global functions, so that the verifier looks at them once. */
extern int module_take(struct mt_thread *t, u32 in_node);
extern int module_refused(struct mt_thread *t);
extern u64 module_node_seq(u64 node);
extern u64 place_take(struct mt_thread *t);

/* The thread's frames are settled. */
static __always_inline void module_at(struct mt_thread *t)
{
	const struct mt_frame *f;
	u32 d, outer, in_node;

	if (!mt_modules_on || !t || (t->module.optimizer && !t->module.reported))
		return; /* an optimizer's step has hundreds of allocations, all of them of no module */
	d = t->depth;
	f = d && d <= MT_FRAMES_MAX ? &t->frames[(d - 1) & (MT_FRAMES_MAX - 1)] : NULL;
	outer = f ? f->outer : 0;
	in_node = f ? f->flags & MT_FRAME_IN_NODE : 0;
	if (outer && outer == t->module.outer)
		return; /* the same call from Python as at the last allocation */
	t->module.outer = outer;
	module_take(t, in_node);
}

/* None but a node of backward itself: a backward compiled by torch.compile runs directly in one. */
static __always_inline int no_operator_is_open(const struct mt_thread *t)
{
	u32 d = t->depth;

	return !d || (d <= MT_FRAMES_MAX && (t->frames[(d - 1) & (MT_FRAMES_MAX - 1)].flags & MT_FRAME_NODE));
}

/* An optimizer that is not compiled allocates some numbers a parameter, with no operator open: looks would cost most there. */
#define NUMBER_BYTES_MAX 16

static __always_inline u64 place_at(struct mt_thread *t, u64 size)
{
	if (!mt_modules_on || !t || !no_operator_is_open(t) || is_partial())
		return 0;
	return t->module.optimizer && size <= NUMBER_BYTES_MAX ? 0 : place_take(t);
}

/* An allocation's own record; the thread's frames are settled. */
static __always_inline void alloc_tell(struct mt_thread *t, u8 dev, u64 addr, u64 size)
{
	u64 place = place_at(t, size);
	struct mt_rec_at *r;
	void *ring;

	if (!place) {
		emit_mem(t, MT_EV_ALLOC, dev, 0, addr, size);
		return;
	}
	ring = ring_get();
	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return;
	hdr_fill(&r->hdr, MT_EV_ALLOC_AT, dev, bpf_ktime_get_ns());
	hdr_place(&r->hdr, t);
	r->addr = addr;
	r->size = size;
	r->place = place;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
}

#endif
