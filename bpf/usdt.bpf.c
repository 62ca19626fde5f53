// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Any USDT probe: its cookie is the index of a spec with the kind of event and the places of its
 * arguments (from the probe's SDT note). Operators and regions that a program names itself use the
 * same frames and names as the framework's.
 */
#include "lib/frames.h"
#include "lib/stack.h"
#include "lib/text.h"

/* Sign- or zero-extends the low `bytes` of v. */
static __always_inline u64 arg_extend(u64 v, u8 bytes, u8 is_signed)
{
	switch (bytes) {
	case 1: return is_signed ? (u64)(s64)(signed char)v : (u8)v;
	case 2: return is_signed ? (u64)(s64)(short)v : (u16)v;
	case 4: return is_signed ? (u64)(s64)(s32)v : (u32)v;
	default: return v;
	}
}

/*
 * pt_regs may only be read at constant offsets, and the compiler would merge the switch of reg_read into
 * one access at a computed one: so `regs` is a copy of them.
 */
static __noinline u64 arg_read(struct pt_regs *regs, const struct mt_usdt_arg *a, u64 none)
{
	u64 v = none;

	if (!regs || !a)
		return none;
	switch (a->form) {
	case MT_ARG_CONST:
		v = a->value;
		break;
	case MT_ARG_REG:
		v = reg_read(regs, a->reg) >> (a->shift & 63);
		break;
	case MT_ARG_MEM: {
		u64 at = a->value + reg_read(regs, a->reg);
		u64 raw = 0;

		if (a->index != MT_REG_NONE)
			at += reg_read(regs, a->index) * a->scale;
		if (bpf_probe_read_user(&raw, sizeof(raw), (void *)at) &&
		    bpf_probe_read_user(&raw, a->bytes == 4 ? 4 : 1, (void *)at)) {
			loss_count(MT_LOSS_READ_FAULT);
			return none;
		}
		v = raw;
		break;
	}
	default:
		return none;
	}
	return arg_extend(v, a->bytes, a->is_signed);
}

static __always_inline u8 device_of(struct pt_regs *regs, const struct mt_usdt_spec *s)
{
	s64 d;

	if (s->device.form == MT_ARG_NONE)
		return MT_DEV_NONE;
	d = (s64)arg_read(regs, &s->device, (u64)-1);
	if (d < 0)
		return MT_DEV_CPU;
	return d < MT_DEV_CUDA_MAX ? MT_DEV_CUDA0 + (u8)d : MT_DEV_CUDA0 + MT_DEV_CUDA_MAX - 1;
}

SEC("uprobe")
int mt_usdt(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	u32 i = (u32)cookie;
	const struct mt_usdt_spec *s = bpf_map_lookup_elem(&specs, &i);
	struct mt_thread *t;
	struct pt_regs *regs;
	u64 ptr;

	hit_count(MT_PROG_USDT);
	fired_count(cookie);
	if (!s)
		return 0;
	t = thread_get();
	if (!t)
		return 0;
	regs = &t->regs;
	if (bpf_probe_read_kernel(regs, sizeof(*regs), ctx))
		return 0;
	switch (s->kind) {
	case MT_EV_ALLOC:
		ptr = arg_read(regs, &s->ptr, 0);
		frames_settle(t, sp_of(regs));
		if (ptr) {
			u64 size = arg_read(regs, &s->size, 0);
			u8 dev = device_of(regs, s) ?: MT_DEV_CPU;

			stack_at(t, regs, dev, 0, ptr, size);
			emit_mem(t, MT_EV_ALLOC, dev, 0, ptr, size);
		}
		break;
	case MT_EV_FREE:
		ptr = arg_read(regs, &s->ptr, 0);
		frames_settle(t, sp_of(regs));
		if (ptr)
			emit_addr(t, MT_EV_FREE, device_of(regs, s), ptr);
		break;
	case MT_EV_REQUEST:
		ptr = arg_read(regs, &s->ptr, 0);
		frames_settle(t, sp_of(regs));
		if (ptr)
			emit_seg(t, MT_EV_REQUEST, device_of(regs, s), 0, 0, ptr, arg_read(regs, &s->size, 0),
				 arg_read(regs, &s->name, 0), bpf_ktime_get_ns());
		break;
	case MT_EV_REQUEST_FREE:
		ptr = arg_read(regs, &s->ptr, 0);
		frames_settle(t, sp_of(regs));
		t->freeing = ptr;
		if (ptr)
			emit_addr(t, MT_EV_REQUEST_FREE, MT_DEV_NONE, ptr);
		break;
	case MT_EV_TAG:
		frames_settle(t, sp_of(regs));
		emit_mem(t, MT_EV_TAG, device_of(regs, s), 0, arg_read(regs, &s->ptr, 0),
			 text_cstring(t, arg_read(regs, &s->name, 0)));
		break;
	case MT_EV_OP_BEGIN:
		frames_begin(t, regs, text_cstring(t, arg_read(regs, &s->name, 0)));
		break;
	case MT_EV_OP_END:
		frames_settle(t, sp_of(regs));
		frames_end(t);
		break;
	case MT_EV_REGION_BEGIN:
		regions_begin(t, regs, text_cstring(t, arg_read(regs, &s->name, 0)));
		break;
	case MT_EV_REGION_END:
		regions_end(t, regs);
		break;
	case MT_EV_STEP:
		frames_settle(t, sp_of(regs));
		emit_addr(t, MT_EV_STEP, MT_DEV_NONE, arg_read(regs, &s->ptr, 0));
		break;
	}
	return 0;
}
