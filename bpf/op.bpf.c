// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Operator entries (at::_ops::X::call) and backward nodes (Engine::evaluate_function). */
#include "lib/frames.h"

SEC("uprobe")
int mt_op(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();

	hit_count(MT_PROG_OP);
	if (t)
		frames_enter(t, MT_EV_OP, ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* (Engine *this, shared_ptr<GraphTask> &, Node *, InputBuffer &, shared_ptr<ReadyQueue> const &) */
SEC("uprobe")
int mt_node(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	u64 vtable = 0;

	hit_count(MT_PROG_NODE);
	if (!t)
		return 0;
	if (bpf_probe_read_user(&vtable, sizeof(vtable), (void *)ctx->dx))
		loss_count(MT_LOSS_READ_FAULT);
	frames_enter(t, MT_EV_NODE, ctx, vtable);
	return 0;
}
