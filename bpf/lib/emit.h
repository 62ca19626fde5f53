/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * emit: how records get into the rings. Room is reserved, filled whole and submitted; a failed
 * reserve is counted. No wake-up an event: user space polls, and is woken only when a ring passes
 * mt_config.wake_bytes (looked at every 64th event of a CPU).
 *
 * Records that only one source has are put together there, in room from ring_reserve. Two reserve
 * without it, which counts for the share of the process that runs: the record of a victim of the OOM
 * killer is about another one (kernel.bpf.c), and mt_lookup wakes user space with no record (op.bpf.c).
 */
#ifndef MT_BPF_EMIT_H
#define MT_BPF_EMIT_H

#include "lib/state.h"

static __always_inline u32 ring_number(void)
{
	return bpf_get_smp_processor_id() & mt_config.ring_mask;
}

static __always_inline void *ring_get(void)
{
	u32 i = ring_number();

	return bpf_map_lookup_elem(&rings, &i);
}

static __always_inline u64 ring_wake_flags(void *ring)
{
	struct mt_counters *c = counters_get();
	u64 waiting;

	if (c->hits[MT_PROG_MAX]++ & 63)
		return BPF_RB_NO_WAKEUP;
	waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	c->is_crowded = waiting > mt_config.ring_bytes / 4;
	return waiting > mt_config.wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/*
 * May this process put `size` bytes into its CPU's ring, of which `waiting` are taken? If not that is counted. In share.bpf.c:
 * a global function is looked at by the verifier once.
 */
extern int share_takes(u64 waiting, u64 size);

/* Each 64th record checks whether the ring fills; while it does, every record checks (20 to 40 ns). */
static __always_inline int share_has_room(void *ring, u64 size)
{
	struct mt_counters *c = counters_get();
	u64 waiting;

	if (!c->is_crowded)
		return 1;
	waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	c->is_crowded = waiting > mt_config.ring_bytes / 4;
	return !c->is_crowded || share_takes(waiting, size);
}

static __always_inline void ring_is_full(void)
{
	counters_get()->is_crowded = 1;
	loss_count(MT_LOSS_RING);
}

/* Room for a record of this process, or NULL: that was counted. */
static __always_inline void *ring_reserve(void *ring, const u64 size)
{
	void *r;

	if (ring && !share_has_room(ring, size))
		return NULL;
	r = ring ? bpf_ringbuf_reserve(ring, size, 0) : NULL;
	if (!r)
		ring_is_full();
	return r;
}

/* A record that is whole already. 0: it went out; else that was counted. */
static __always_inline int ring_output(void *rec, u64 size)
{
	void *ring = ring_get();

	if (ring && !share_has_room(ring, size))
		return -1;
	if (ring && !bpf_ringbuf_output(ring, rec, size, ring_wake_flags(ring)))
		return 0;
	ring_is_full();
	return -1;
}

static __always_inline void hdr_fill(struct mt_hdr *h, u8 kind, u8 dev, u64 ts_ns)
{
	u64 id = bpf_get_current_pid_tgid();

	h->ts_ns = ts_ns;
	h->pid = id >> 32;
	h->tid = (u32)id;
	h->kind = kind;
	h->dev = dev;
	h->depth = 0;
	h->flags = 0;
	h->seq = 0;
}

/* Innermost open frame into the header. */
static __always_inline void hdr_place(struct mt_hdr *h, const struct mt_thread *t)
{
	u32 d = t->depth;

	if (d && d <= MT_FRAMES_MAX) {
		h->depth = d;
		h->seq = t->frames[(d - 1) & (MT_FRAMES_MAX - 1)].seq;
	}
}

/* t may be NULL: then the event has no frame. Returns 0 if it went out. */
static __always_inline int emit_addr_at(const struct mt_thread *t, u8 kind, u8 dev, u8 flags, u64 addr,
					u64 ts_ns)
{
	void *ring = ring_get();
	struct mt_rec_addr *r;

	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return -1;
	hdr_fill(&r->hdr, kind, dev, ts_ns);
	r->hdr.flags = flags;
	if (t)
		hdr_place(&r->hdr, t);
	r->addr = addr;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
	return 0;
}

static __always_inline int emit_addr(const struct mt_thread *t, u8 kind, u8 dev, u64 addr)
{
	return emit_addr_at(t, kind, dev, 0, addr, bpf_ktime_get_ns());
}

static __always_inline int emit_mem(const struct mt_thread *t, u8 kind, u8 dev, u8 flags, u64 addr,
				    u64 size)
{
	void *ring = ring_get();
	struct mt_rec_mem *r;

	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return -1;
	hdr_fill(&r->hdr, kind, dev, bpf_ktime_get_ns());
	r->hdr.flags = flags;
	if (t)
		hdr_place(&r->hdr, t);
	r->addr = addr;
	r->size = size;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
	return 0;
}

static __always_inline void emit_seg(const struct mt_thread *t, u8 kind, u8 dev, u8 flags, u32 api, u64 addr,
				     u64 size, u64 aux, u64 ts_ns)
{
	void *ring = ring_get();
	struct mt_rec_seg *r;

	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return;
	hdr_fill(&r->hdr, kind, dev, ts_ns);
	r->hdr.flags = flags;
	hdr_place(&r->hdr, t);
	r->addr = addr;
	r->size = size;
	r->aux = aux;
	r->api = api;
	r->pad = 0;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
}

/* A frame is opened: depth = frames under it, seq = its own number. */
static __always_inline void emit_frame(u8 kind, u8 depth, u32 seq, u64 addr)
{
	void *ring = ring_get();
	struct mt_rec_addr *r;

	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return;
	hdr_fill(&r->hdr, kind, MT_DEV_NONE, bpf_ktime_get_ns());
	r->hdr.depth = depth;
	r->hdr.seq = seq;
	r->addr = addr;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
}

static __always_inline int emit_name(u64 hash, const struct mt_text *text)
{
	void *ring = ring_get();
	struct mt_rec_name *r;

	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return -1;
	hdr_fill(&r->hdr, MT_EV_NAME, MT_DEV_NONE, bpf_ktime_get_ns());
	r->hash = hash;
	__builtin_memcpy(r->text, text->text, sizeof(r->text));
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
	return 0;
}

#endif
