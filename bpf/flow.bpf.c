// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operator entries with the tensors that the operator was given: for each, the data pointer, device
 * and size of its storage. A spec, made by user/plan from the operator's signature, has the places of
 * parameters; a layout, one for each version of torch seen, has the places of fields in c10's objects,
 * and its number is in the site's cookie. Nothing is read from an object whose vtable pointer is not
 * that of an exported class of this process (TensorImpl's, StorageImpl's, AutogradMeta's): that check
 * also rejects whatever else a wrong spec or layout could point at.
 *
 * Backward nodes' apply() and AccumulateGrad's are frames too, with the tensors they were given.
 */
#include "lib/flow.h"

#define LIST_ITEMS 8	 /* of a boxed list: an index a dimension; further ones are counted */
#define ITAG_UNBOXED 0
#define ITAG_BOXED 1
#define DEVICE_CPU 0 /* c10::DeviceType */
#define DEVICE_CUDA 1
#define DEVICE_HIP 6

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

/*
 * Word at an offset, in bytes, of an array read before; all have 8 words. Objects are read onto the stack: a read into
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

/*
 * The functions below are global and take numbers alone, so that the verifier looks at each once and
 * not at every path of every caller; each finds the CPU's buffer itself.
 */
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
	if (range[0] + LIST_ITEMS * IVALUE_BYTES < range[1])
		b->rec.cut++;
	for (u32 i = 0; i < LIST_ITEMS; i++) {
		if (range[0] + i * IVALUE_BYTES >= range[1])
			break;
		if (bpf_probe_read_user(iv, sizeof(iv), (void *)(range[0] + i * IVALUE_BYTES))) {
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
	if (!t || !s || is_partial() || is_reported(t, ctx, cookie))
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
	flow_send(b, t, MT_EV_OP, 0, (u32)cookie);
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
	flow_send(b, t, MT_EV_APPLY, 0, vtable);
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
	flow_send(b, t, MT_EV_ACC, 0, 0);
	flow_end(b, t);
	return 0;
}
