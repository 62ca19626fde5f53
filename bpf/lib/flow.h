/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flow: shared by programs that read tensors: a buffer to read into, layouts, classes, the record. */
#ifndef MT_BPF_FLOW_H
#define MT_BPF_FLOW_H

#include "lib/frames.h"

#define IVALUE_BYTES 16 /* sizeof(c10::IValue): payload, tag */
#define IVALUE_TENSOR 1

/*
 * A program may be preempted by another thread's on the same CPU (preempt=full), so a buffer is taken
 * for the time of a program: the first free one of the CPU. More than FLOW_SLOTS at once: counted.
 */
#define FLOW_SLOTS 4

/* Of a boxed call: where the operator's name, the schema's Arguments and the stack's values of them are. */
struct flow_boxed {
	u64 name, name_bytes, name_word; /* its first eight bytes */
	u64 args, values;
	u64 cnt;
};

struct flow_buf {
	u64 busy;
	struct mt_rec_flow rec;
	struct mt_flow_arg args[MT_FLOW_ARGS_MAX];
	u64 regs[6];
	u64 sp;
	u64 layout; /* number of */
	u64 plain, storage; /* vtable pointers known to be TensorImpl's own and StorageImpl's; 0 = none yet */
	u64 autograd_meta; /* of the tensor read last */
	u32 given_how; /* enum given */
	u32 given_cnt;
	u64 given[MT_GIVEN_MAX];
	struct flow_boxed boxed;
};

/*
 * Operators call operators with what they were given (mul_ of a number: _to_copy, copy_). A tensor that
 * the outermost of them was given, not to write, has its edge in the data flow already: it is held by
 * that call, so the same object has the same storage, and reading it again (a third of all tensors)
 * would add nothing. An operator with a tensor without storage does not count: the model does not use
 * it either.
 */
enum given {
	GIVEN_NONE = 0, /* all are read */
	GIVEN_NOTE,	/* the outermost operator: kept for those inside */
	GIVEN_SKIP,	/* inside: given[] are known */
};

struct mt_flow_bufs_def {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct flow_buf);
};

struct mt_flow_classes_def {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_FLOW_CLASSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* user space alone adds */
	__type(key, struct mt_class_key);
	__type(value, u32);
};

#ifdef MT_DEFINE
struct mt_flow_bufs_def flow_bufs SEC(".maps");
struct mt_flow_classes_def flow_classes SEC(".maps");
struct mt_flow_layout mt_flow_layouts[MT_FLOW_LAYOUTS_MAX] = {};
#else
extern struct mt_flow_bufs_def flow_bufs SEC(".maps");
extern struct mt_flow_classes_def flow_classes SEC(".maps");
/* By number; filled in by user/trace before a site with that number is set. */
extern struct mt_flow_layout mt_flow_layouts[MT_FLOW_LAYOUTS_MAX];

/* One tensor: the TensorImpl at `impl`. meta = index | flags << 8 | item << 16, as in EV_ARG. Returns its enum mt_class. */
extern int flow_tensor(u32 slot, u64 impl, u32 meta);

static __always_inline struct flow_buf *flow_buf(u32 slot)
{
	return bpf_map_lookup_elem(&flow_bufs, &slot);
}

static __always_inline u32 class_of(u64 vtable)
{
	struct mt_class_key k = { .vtable = vtable, .pid = bpf_get_current_pid_tgid() >> 32 };
	u32 *class = bpf_map_lookup_elem(&flow_classes, &k);

	return class ? *class : 0;
}

static __always_inline const struct mt_flow_layout *layout_of(const struct flow_buf *b)
{
	return &mt_flow_layouts[b->layout & (MT_FLOW_LAYOUTS_MAX - 1)];
}

/* Takes a buffer; its number in *ret. NULL: none is free. */
static __always_inline struct flow_buf *flow_begin(struct pt_regs *ctx, struct mt_thread *t, u64 cookie, u32 *ret)
{
	frames_settle(t, sp_of(ctx));
	for (u32 slot = 0; slot < FLOW_SLOTS; slot++) {
		struct flow_buf *b = flow_buf(slot);

		if (!b || __sync_val_compare_and_swap(&b->busy, 0, 1))
			continue;
		b->rec.args_cnt = 0;
		b->rec.cut = 0;
		b->given_how = GIVEN_NONE;
		b->layout = cookie >> 48;
		b->plain = t->plain;
		b->storage = t->storage;
		b->sp = sp_of(ctx);
		args_take(b->regs, ctx);
		*ret = slot;
		return b;
	}
	loss_count(MT_LOSS_ARGS);
	return NULL;
}

/* The frame that t->given belongs to is open, so this operator is called by that one. */
static __always_inline int has_given(const struct mt_thread *t)
{
	u32 d = t->given_depth;

	return t->given_seq && d < t->depth && t->frames[d & (MT_FRAMES_MAX - 1)].seq == t->given_seq;
}

static __always_inline void given_begin(struct flow_buf *b, const struct mt_thread *t)
{
	b->given_how = has_given(t) ? GIVEN_SKIP : GIVEN_NOTE;
	b->given_cnt = 0;
	if (b->given_how == GIVEN_SKIP)
		__builtin_memcpy(b->given, t->given, sizeof(b->given));
	else
		__builtin_memset(b->given, 0, sizeof(b->given));
}

/* The frame is on top. */
static __always_inline void given_end(const struct flow_buf *b, struct mt_thread *t)
{
	if (b->given_how == GIVEN_SKIP)
		return;
	t->given_depth = t->depth - 1;
	t->given_seq = b->given_how == GIVEN_NOTE && b->given_cnt ? t->seq : 0;
	__builtin_memcpy(t->given, b->given, sizeof(t->given));
}

/* Opens the frame and sends it with the tensors read; flags: those of the event. */
static __always_inline void flow_send(struct flow_buf *b, struct mt_thread *t, u8 kind, u8 flags, u64 addr)
{
	u64 ret = 0, size;
	u32 n;

	if (return_word(b->sp, &ret)) {
		loss_count(MT_LOSS_READ_FAULT);
		return;
	}
	hdr_fill(&b->rec.hdr, kind, MT_DEV_NONE, bpf_ktime_get_ns());
	b->rec.hdr.depth = t->depth;
	b->rec.hdr.flags = flags;
	b->rec.hdr.seq = frames_open(t, b->sp, ret, kind == MT_EV_OP ? 0 : MT_FRAME_NODE, kind == MT_EV_OP ? addr : 0);
	b->rec.addr = addr;
	if (b->rec.cut)
		loss_count(MT_LOSS_ARGS);
	n = b->rec.args_cnt;
	if (n > MT_FLOW_ARGS_MAX)
		n = MT_FLOW_ARGS_MAX;
	size = sizeof(b->rec) + n * sizeof(b->args[0]);
	(void)ring_output(&b->rec, size);
}

static __always_inline void flow_end(struct flow_buf *b, struct mt_thread *t)
{
	t->plain = b->plain;
	t->storage = b->storage;
	*(volatile u64 *)&b->busy = 0;
}
#endif
#endif
