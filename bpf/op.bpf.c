// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Operator entries (at::_ops::X::call) and backward nodes (Engine::evaluate_function; Python's own by their type's name). */
#include "lib/flow.h"
#include "lib/module.h"
#include "lib/text.h"

#define PY_TYPE_OF 8    /* of a PyObject: its type (CPython 3.10 to 3.13, builds with a GIL) */
#define PY_TYPE_NAME 24 /* of a type: tp_name */

SEC("uprobe")
int mt_op(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	u64 cookie = bpf_get_attach_cookie(ctx);

	hit_count(MT_PROG_OP);
	if (t && !is_partial() && !is_reported(t, ctx, cookie))
		frames_enter(t, MT_EV_OP, ctx, cookie & ~MT_COOKIE_FIRST);
	return 0;
}

/*
 * c10::Dispatcher::findSchemaOrThrow: the first call of an operator looks its schema up. If its probe was taken away, user
 * space sets it again, as soon as this has woken it.
 */
SEC("uprobe")
int mt_lookup(struct pt_regs *ctx)
{
	void *ring, *r;

	hit_count(MT_PROG_LOOKUP);
	if (__sync_val_compare_and_swap(&mt_looked_up_ns, 0, bpf_ktime_get_ns()))
		return 0;
	ring = ring_get();
	r = ring ? bpf_ringbuf_reserve(ring, sizeof(u64), 0) : NULL;
	if (r) /* nothing to report; a full ring wakes it, too */
		bpf_ringbuf_discard(r, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Of a node's Python object, its address in *ret: hash of the name of its type; 0: it is not known. */
static __always_inline u64 python_name(struct mt_thread *t, u64 node, u64 cookie, u64 *ret)
{
	const struct mt_flow_layout *l = &mt_flow_layouts[cookie >> 48 & (MT_FLOW_LAYOUTS_MAX - 1)];
	u64 at = 0;

	if (!(cookie & MT_NODE_LAYOUT) || !l->node_python)
		return 0;
	if (bpf_probe_read_user(ret, sizeof(*ret), (void *)(node + l->node_python)) ||
	    bpf_probe_read_user(&at, sizeof(at), (void *)(*ret + PY_TYPE_OF)) ||
	    bpf_probe_read_user(&at, sizeof(at), (void *)(at + PY_TYPE_NAME))) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	return text_cstring(t, at);
}

struct saved_loop {
	u64 at;
	u32 slot, bytes;
};

static long saved_item(u32 i, struct saved_loop *l)
{
	u64 impl = 0;

	if (bpf_probe_read_user(&impl, sizeof(impl), (void *)(l->at + (u64)i * l->bytes)))
		loss_count(MT_LOSS_READ_FAULT);
	else
		flow_tensor(l->slot, impl, 0);
	return 0;
}

/*
 * What a Python-defined node has saved. Its own kernels, and those that inductor generated, get it without an operator, and
 * the job may hold it, too: then nothing else shows that it is kept.
 */
__noinline int saved_read(u32 slot, u64 object)
{
	struct saved_loop l = { .slot = slot };
	struct flow_buf *b = flow_buf(slot);
	u64 range[2] = {}, bytes;

	if (!b)
		return 0;
	l.bytes = layout_of(b)->saved_bytes;
	if (!l.bytes)
		return 0;
	if (bpf_probe_read_user(range, sizeof(range), (void *)(object + layout_of(b)->node_saved))) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	bytes = range[1] - range[0];
	if (range[1] <= range[0] || bytes % l.bytes)
		return 0;
	l.at = range[0];
	if (bytes / l.bytes > MT_FLOW_ARGS_MAX) {
		b->rec.cut++;
		bytes = (u64)MT_FLOW_ARGS_MAX * l.bytes;
	}
	bpf_loop((u32)(bytes / l.bytes), saved_item, &l, 0);
	return 0;
}

/* Of the frame on top. */
static __always_inline void saved_send(struct flow_buf *b, const struct mt_thread *t)
{
	u32 n = b->rec.args_cnt;

	if (b->rec.cut)
		loss_count(MT_LOSS_ARGS);
	if (!n)
		return;
	if (n > MT_FLOW_ARGS_MAX)
		n = MT_FLOW_ARGS_MAX;
	hdr_fill(&b->rec.hdr, MT_EV_SAVED, MT_DEV_NONE, bpf_ktime_get_ns());
	hdr_place(&b->rec.hdr, t);
	b->rec.addr = 0;
	(void)ring_output(&b->rec, sizeof(b->rec) + n * sizeof(b->args[0]));
}

/* … with the number that it was given when it was made, in the forward pass. */
static __always_inline void node_enter(struct mt_thread *t, struct pt_regs *ctx, u64 vtable, u64 python)
{
	u64 ret = 0, seq = mt_modules_on ? module_node_seq(arg(ctx, 2)) : 0;
	void *ring;
	struct mt_rec_mem *r;
	u32 depth, num;

	frames_settle(t, sp_of(ctx));
	if (return_word(sp_of(ctx), &ret)) {
		loss_count(MT_LOSS_READ_FAULT);
		return;
	}
	depth = t->depth;
	num = frames_open(t, sp_of(ctx), ret, MT_FRAME_NODE, 0);
	ring = ring_get();
	r = ring_reserve(ring, sizeof(*r));
	if (!r)
		return;
	hdr_fill(&r->hdr, MT_EV_NODE, MT_DEV_NONE, bpf_ktime_get_ns());
	r->hdr.depth = depth;
	r->hdr.seq = num;
	r->hdr.flags = python ? MT_NODE_PYTHON : 0;
	r->addr = python ? python : vtable;
	r->size = seq;
	bpf_ringbuf_submit(r, ring_wake_flags(ring));
}

/* (Engine *this, shared_ptr<GraphTask> &, Node *, InputBuffer &, shared_ptr<ReadyQueue> const &) */
SEC("uprobe")
int mt_node(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	u64 cookie = bpf_get_attach_cookie(ctx), vtable = 0, python = 0, object = 0;
	struct flow_buf *b = NULL;
	u32 slot = 0;

	hit_count(MT_PROG_NODE);
	if (!t || is_partial())
		return 0;
	if (bpf_probe_read_user(&vtable, sizeof(vtable), (void *)arg(ctx, 2)))
		loss_count(MT_LOSS_READ_FAULT);
	else if (class_of(vtable) == MT_CLASS_PY_NODE)
		python = python_name(t, arg(ctx, 2), cookie, &object);
	if (python)
		b = flow_begin(ctx, t, cookie, &slot);
	if (b)
		saved_read(slot, object);
	node_enter(t, ctx, vtable, python);
	if (b) { /* flow_begin would have closed the frame */
		saved_send(b, t);
		flow_end(b, t);
	}
	return 0;
}
