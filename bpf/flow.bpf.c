// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operator entries that also say which tensors they were given: for each, the data pointer, device and
 * size of its storage. Where a parameter lies is in a spec, made by user/plan from the operator's
 * signature; where c10's objects keep their fields is in a layout, one for each version of torch met,
 * whose number is in the site's cookie. Nothing is read from an object whose vtable pointer is not
 * that of an exported class of this process (TensorImpl's, StorageImpl's, AutogradMeta's): that check
 * also tells a tensor from whatever else a wrong spec or layout could point at.
 *
 * Backward nodes' apply() and AccumulateGrad's are frames too, with the tensors they were given.
 */
#include "lib/frames.h"

#define LIST_ITEM 16	 /* sizeof(c10::IValue) */
#define LIST_ITEMS 8	 /* of a boxed list: an index a dimension; further ones are counted */
#define ITAG_UNBOXED 0
#define ITAG_BOXED 1
#define ITAG_MATERIALIZED 2
#define IVALUE_TENSOR 1
#define DEVICE_CPU 0 /* c10::DeviceType */
#define DEVICE_CUDA 1
#define DEVICE_HIP 6

/*
 * A program may be preempted by another thread's on the same CPU (preempt=full), so a buffer is taken
 * for the time of a program: the first free one of the CPU. More than FLOW_SLOTS at once: counted.
 */
#define FLOW_SLOTS 4

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
};

/*
 * Operators call operators with what they were given (mul_ of a number: _to_copy, copy_). A tensor that
 * the outermost of them was given, not to write, has its edge in the data flow already: it is held by
 * that call, so the same object has the same storage, and reading it again (a third of all tensors)
 * would tell nothing new. An operator of which a tensor has no storage does not count: the model does
 * not believe it either.
 */
enum given {
	GIVEN_NONE = 0, /* all are read */
	GIVEN_NOTE,	/* the outermost operator: kept for those inside */
	GIVEN_SKIP,	/* inside: given[] are known */
};

/* By number; filled in by user/trace before a site with that number is set. */
struct mt_flow_layout mt_flow_layouts[MT_FLOW_LAYOUTS_MAX] = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct flow_buf);
} flow_bufs SEC(".maps");

/* Pointers of a list being read; of its own, because a per-CPU value has at most 32 KiB. */
struct flow_items {
	u64 at[MT_FLOW_ARGS_MAX];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct flow_items);
} flow_items SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_FLOW_SPECS_MAX);
	__type(key, u32);
	__type(value, struct mt_flow_spec);
} flow_specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_FLOW_CLASSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* user space alone adds */
	__type(key, struct mt_class_key);
	__type(value, u32);
} flow_classes SEC(".maps");

static __always_inline struct flow_buf *flow_buf(u32 slot)
{
	return bpf_map_lookup_elem(&flow_bufs, &slot);
}

/*
 * The functions below are global and take numbers alone, so that the verifier looks at each once and
 * not at every path of every caller; each finds the CPU's buffer itself.
 */
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

/*
 * Word at a place, in bytes, of what was read; all arrays have 8. Objects are read onto the stack: a read into
 * a per-CPU map costs a walk through the kernel's areas of memory where usercopy is hardened.
 */
static __always_inline u64 word_of(const u64 *words, u32 at)
{
	return words[at / 8 & 7];
}

static __always_inline u8 device_of(u16 device)
{
	u8 type = device, index = device >> 8;

	if (type == DEVICE_CPU)
		return MT_DEV_CPU;
	if ((type == DEVICE_CUDA || type == DEVICE_HIP) && index < MT_DEV_CUDA_MAX)
		return MT_DEV_CUDA0 + index;
	return MT_DEV_NONE;
}

/* A StorageImpl; 0 if it is one. */
static __always_inline int read_storage(struct flow_buf *b, u64 at, u64 st[MT_FLOW_STORAGE_WORDS])
{
	if (bpf_probe_read_user(st, MT_FLOW_STORAGE_WORDS * sizeof(u64), (void *)at)) {
		loss_count(MT_LOSS_READ_FAULT);
		return -1;
	}
	if (st[0] == b->storage)
		return 0;
	if (class_of(st[0]) != MT_CLASS_STORAGE) {
		loss_count(MT_LOSS_ARGS);
		return -1;
	}
	b->storage = st[0];
	return 0;
}

static __always_inline int is_given(const struct flow_buf *b, u64 impl)
{
	int is = 0;

	for (u32 i = 0; i < MT_GIVEN_MAX; i++)
		is |= b->given[i] == impl;
	return is;
}

static __always_inline void note_given(struct flow_buf *b, u64 impl, u32 flags, u64 ptr)
{
	if (!ptr && (flags & MT_FLOW_F_REQUIRED))
		b->given_how = GIVEN_NONE;
	else if (ptr && (flags & MT_FLOW_F_ONCE))
		b->given[b->given_cnt++ & (MT_GIVEN_MAX - 1)] = impl;
}

/* One tensor. meta = index | flags << 8 | item << 16, as in EV_ARG. Returns its enum mt_class. */
__noinline int flow_tensor(u32 slot, u64 impl, u32 meta)
{
	struct flow_buf *b = flow_buf(slot);
	const struct mt_flow_layout *l;
	u64 head[8] = {}, st[8] = {}, storage, ptr;
	struct mt_flow_arg *a;
	u32 n, class;

	if (!b || !impl)
		return 0;
	if (b->given_how == GIVEN_SKIP && (meta >> 8 & MT_FLOW_F_ONCE) && is_given(b, impl))
		return 0;
	n = b->rec.args_cnt;
	if (n >= MT_FLOW_ARGS_MAX) {
		b->rec.cut++;
		return 0;
	}
	if (bpf_probe_read_user(head, MT_FLOW_HEAD_WORDS * sizeof(u64), (void *)impl)) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	class = head[0] == b->plain ? MT_CLASS_PLAIN : class_of(head[0]);
	if (class >= MT_CLASS_MAX)
		class = MT_CLASS_UNKNOWN;
	if (class == MT_CLASS_PLAIN)
		b->plain = head[0];
	if (class == MT_CLASS_UNDEFINED && !(meta >> 8 & MT_FLOW_F_REQUIRED))
		return class;
	l = layout_of(b);
	b->autograd_meta = class ? word_of(head, l->impl_autograd_meta) : 0;
	storage = class && class != MT_CLASS_UNDEFINED ? word_of(head, l->impl_storage) : 0;
	ptr = storage && !read_storage(b, storage, st) ? word_of(st, l->storage_data) : 0;
	a = &b->args[n & (MT_FLOW_ARGS_MAX - 1)];
	a->ptr = ptr;
	a->size = ptr ? word_of(st, l->storage_size) : 0;
	a->index = (u8)meta;
	a->flags = (u8)(meta >> 8 & ~MT_FLOW_F_ONCE) | (!ptr ? MT_FLOW_F_NO_STORAGE :
		   word_of(st, l->storage_data + 16) != ptr ? MT_FLOW_F_FOREIGN : 0);
	a->item = (u16)(meta >> 16);
	a->dev = ptr ? device_of((u16)word_of(st, l->storage_dev)) : MT_DEV_NONE;
	a->class = (u8)class;
	b->rec.args_cnt = n + 1;
	if (b->given_how == GIVEN_NOTE)
		note_given(b, impl, meta >> 8, ptr);
	return class;
}

/* Loops over lists are the kernel's: the verifier looks at a turn once, not at each of a thousand. */
struct list_loop {
	u64 at;
	u32 slot, meta;
};

static long list_item(u32 i, struct list_loop *l)
{
	struct flow_items *items = bpf_map_lookup_elem(&flow_items, &l->slot);

	if (items)
		flow_tensor(l->slot, items->at[i & (MT_FLOW_ARGS_MAX - 1)], l->meta | i << 16);
	return !items;
}

/* An array of `cnt` pointers to TensorImpl at `at`. */
__noinline int flow_list(u32 slot, u64 at, u64 cnt, u32 meta)
{
	struct list_loop l = { .slot = slot, .meta = meta };
	struct flow_buf *b = flow_buf(slot);
	struct flow_items *items;
	u32 n;

	items = bpf_map_lookup_elem(&flow_items, &slot);
	if (!b || !items || !cnt)
		return 0;
	if (cnt > MT_FLOW_ARGS_MAX) {
		b->rec.cut += cnt - MT_FLOW_ARGS_MAX;
		cnt = MT_FLOW_ARGS_MAX;
	}
	n = (u32)cnt & (2 * MT_FLOW_ARGS_MAX - 1);
	if (n > MT_FLOW_ARGS_MAX)
		return 0;
	if (bpf_probe_read_user(items->at, n * sizeof(u64), (void *)at)) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	bpf_loop(n, list_item, &l, 0);
	return 0;
}

/* std::vector<Tensor> at `at`: {begin, end, …}. */
__noinline int flow_vector(u32 slot, u64 at, u32 meta)
{
	u64 range[2] = {};

	if (bpf_probe_read_user(range, sizeof(range), (void *)at))
		loss_count(MT_LOSS_READ_FAULT);
	else if (range[1] > range[0])
		flow_list(slot, range[0], (range[1] - range[0]) / 8, meta);
	return 0;
}

/* List<optional<Tensor>>: IValues of 16 bytes, {payload, tag}. */
__noinline int flow_ivalues(u32 slot, u64 impl, u32 meta)
{
	struct flow_buf *b = flow_buf(slot);
	u64 range[2], iv[2];

	if (!b || bpf_probe_read_user(range, sizeof(range), (void *)(impl + layout_of(b)->list_begin))) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	if (range[0] + LIST_ITEMS * LIST_ITEM < range[1])
		b->rec.cut++;
	for (u32 i = 0; i < LIST_ITEMS; i++) {
		if (range[0] + i * LIST_ITEM >= range[1])
			break;
		if (bpf_probe_read_user(iv, sizeof(iv), (void *)(range[0] + i * LIST_ITEM))) {
			loss_count(MT_LOSS_READ_FAULT);
			break;
		}
		if ((u32)iv[1] == IVALUE_TENSOR)
			flow_tensor(slot, iv[0], meta | i << 16);
	}
	return 0;
}

/* A vector of pointers to tensors. */
static long holder_item(u32 i, struct list_loop *l)
{
	u64 holder = 0, tensor = 0;

	if (bpf_probe_read_user(&holder, 8, (void *)(l->at + 8 * (u64)i)) ||
	    bpf_probe_read_user(&tensor, 8, (void *)holder))
		loss_count(MT_LOSS_READ_FAULT);
	else
		flow_tensor(l->slot, tensor, l->meta | i << 16);
	return 0;
}

/* ITensorListRef: a view, a boxed list, or pointers to tensors. */
__noinline int flow_ilist(u32 slot, u64 at, u32 meta)
{
	struct {
		u64 a, b;
		u32 tag;
		u32 pad;
	} ref = {};
	struct list_loop l = { .slot = slot, .meta = meta };
	struct flow_buf *buf = flow_buf(slot);
	u64 range[2] = {}, cnt;

	if (bpf_probe_read_user(&ref, 20, (void *)at)) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	if (ref.tag == ITAG_UNBOXED)
		return flow_list(slot, ref.a, ref.b, meta);
	if (bpf_probe_read_user(range, ref.tag == ITAG_BOXED ? 8 : sizeof(range), (void *)ref.a)) {
		loss_count(MT_LOSS_READ_FAULT);
		return 0;
	}
	if (ref.tag == ITAG_BOXED)
		return flow_ivalues(slot, range[0], meta);
	if (!buf || range[1] < range[0])
		return 0;
	cnt = (range[1] - range[0]) / 8;
	if (cnt > MT_FLOW_ARGS_MAX) {
		buf->rec.cut++;
		cnt = MT_FLOW_ARGS_MAX;
	}
	l.at = range[0];
	bpf_loop((u32)cnt, holder_item, &l, 0);
	return 0;
}

/* The word at a place of the calling convention. */
static __always_inline u64 word_at(const struct flow_buf *b, u32 where)
{
	u64 v = 0;

	if (where < MT_ARG_REGS)
		return b->regs[where];
	if (where >= MT_ARG_STACK && bpf_probe_read_user(&v, sizeof(v), (void *)stack_arg(b->sp, where - MT_ARG_STACK)))
		loss_count(MT_LOSS_READ_FAULT);
	return v;
}

__noinline int flow_arg(u32 slot, u32 form, u32 where, u32 meta)
{
	struct flow_buf *b = flow_buf(slot);
	u64 word, two[2] = {};

	if (!b)
		return 0;
	word = word_at(b, where);
	switch (form) {
	case MT_FLOW_TENSOR:
		if (bpf_probe_read_user(two, 8, (void *)word))
			loss_count(MT_LOSS_READ_FAULT);
		else
			flow_tensor(slot, two[0], meta);
		break;
	case MT_FLOW_OPTIONAL:
		if (bpf_probe_read_user(two, sizeof(two), (void *)word))
			loss_count(MT_LOSS_READ_FAULT);
		else if (layout_of(b)->optional_engaged ? (u8)two[1] : (u8)two[0])
			flow_tensor(slot, layout_of(b)->optional_engaged ? two[0] : two[1], meta);
		break;
	case MT_FLOW_LIST:
		flow_list(slot, word, word_at(b, where + 1), meta);
		break;
	case MT_FLOW_ILIST:
		flow_ilist(slot, word, meta);
		break;
	case MT_FLOW_LIST_OPTIONAL:
		if (bpf_probe_read_user(two, 8, (void *)word))
			loss_count(MT_LOSS_READ_FAULT);
		else
			flow_ivalues(slot, two[0], meta);
		break;
	case MT_FLOW_VECTOR:
		flow_vector(slot, word, meta);
		break;
	}
	return 0;
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

/* Opens the frame and sends it with what was read. */
static __always_inline void flow_send(struct flow_buf *b, struct mt_thread *t, u8 kind, u64 addr)
{
	u64 ret = 0, size;
	u32 n;

	if (return_word(b->sp, &ret)) {
		loss_count(MT_LOSS_READ_FAULT);
		return;
	}
	hdr_fill(&b->rec.hdr, kind, MT_DEV_NONE, bpf_ktime_get_ns());
	b->rec.hdr.depth = t->depth;
	b->rec.hdr.seq = frames_open(t, b->sp, ret, kind == MT_EV_OP ? 0 : MT_FRAME_NODE);
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

SEC("uprobe")
int mt_flow_op(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	u64 cookie = bpf_get_attach_cookie(ctx);
	const struct mt_flow_spec *s;
	struct flow_buf *b;
	u32 i = (u16)(cookie >> 32), slot = 0;

	hit_count(MT_PROG_FLOW_OP);
	s = bpf_map_lookup_elem(&flow_specs, &i);
	if (!t || !s || is_partial() || is_told(t, ctx, cookie))
		return 0;
	b = flow_begin(ctx, t, cookie & ~MT_COOKIE_FIRST, &slot);
	if (!b)
		return 0;
	given_begin(b, t);
	for (u32 k = 0; k < MT_FLOW_SPEC_ARGS_MAX; k++) {
		const struct mt_flow_spec_arg *a = &s->args[k];

		if (k >= s->args_cnt)
			break;
		flow_arg(slot, a->form, a->where, a->index | (u32)a->flags << 8);
	}
	flow_send(b, t, MT_EV_OP, (u32)cookie);
	given_end(b, t);
	flow_end(b, t);
	return 0;
}

/* variable_list apply(variable_list &&): a hidden result, this, inputs. */
SEC("uprobe")
int mt_flow_apply(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	struct flow_buf *b;
	u64 vtable = 0;
	u32 slot = 0;

	hit_count(MT_PROG_FLOW_APPLY);
	b = t && !is_partial() ? flow_begin(ctx, t, bpf_get_attach_cookie(ctx), &slot) : NULL;
	if (!b)
		return 0;
	if (bpf_probe_read_user(&vtable, sizeof(vtable), (void *)arg_behind_result(ctx, 0)))
		loss_count(MT_LOSS_READ_FAULT);
	flow_vector(slot, arg_behind_result(ctx, 1), 0);
	flow_send(b, t, MT_EV_APPLY, vtable);
	flow_end(b, t);
	return 0;
}

/* .grad of the tensor that flow_tensor read last, as it is now. */
static __always_inline void flow_grad(struct flow_buf *b, u32 slot, u32 index)
{
	const struct mt_flow_layout *l = layout_of(b);
	u64 meta[8] = {}, at = b->autograd_meta;

	if (!at)
		return;
	if (bpf_probe_read_user(meta, MT_FLOW_META_WORDS * sizeof(u64), (void *)at))
		loss_count(MT_LOSS_READ_FAULT);
	else if (class_of(meta[0]) != MT_CLASS_META)
		loss_count(MT_LOSS_ARGS);
	else
		flow_tensor(slot, word_of(meta, l->meta_grad), index);
}

SEC("uprobe")
int mt_flow_acc(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	struct flow_buf *b;
	u64 variable = 0;
	u32 slot = 0;

	hit_count(MT_PROG_FLOW_ACC);
	b = t && !is_partial() ? flow_begin(ctx, t, bpf_get_attach_cookie(ctx), &slot) : NULL;
	if (!b)
		return 0;
	if (bpf_probe_read_user(&variable, sizeof(variable), (void *)(arg_behind_result(ctx, 0) + layout_of(b)->acc_variable)))
		loss_count(MT_LOSS_READ_FAULT);
	else if (variable && flow_tensor(slot, variable, 0) != MT_CLASS_UNKNOWN)
		flow_grad(b, slot, 1);
	else
		loss_count(MT_LOSS_ARGS);
	flow_vector(slot, arg_behind_result(ctx, 1), 2);
	flow_send(b, t, MT_EV_ACC, 0);
	flow_end(b, t);
	return 0;
}
