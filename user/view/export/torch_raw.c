/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * As torch.profiler's export_memory_timeline writes .raw.json.gz: one list of [time in ns since the
 * epoch, action 1..4, signed bytes, category 0..7].
 */
#include <errno.h>
#include <stdlib.h>

#include "view/export.h"
#include "view/fold/torch_actions.h"
#include "view/outbuf.h"

struct export_ctx {
	struct outbuf o;
	struct torch_actions *actions;
	int has_one;
};

static int put_record(void *ctx, const struct torch_record *r)
{
	struct export_ctx *c = ctx;
	struct outbuf *o = &c->o;

	outbuf__str(o, c->has_one ? ",\n[" : "[");
	c->has_one = 1;
	outbuf__i64(o, r->t_ns);
	outbuf__lit_u64(o, ", ", r->action);
	outbuf__lit(o, ", ");
	outbuf__i64(o, r->bytes);
	outbuf__lit_u64(o, ", ", r->index);
	outbuf__char(o, ']');
	return o->err;
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	outbuf__char(&c->o, '[');
	return torch_actions__new(&c->actions, to, 0, put_record, c);
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	return torch_actions__event(c->actions, ev, epoch_off_ns);
}

static int end(struct export_ctx *c, const struct report *r)
{
	int err = torch_actions__flush(c->actions);

	(void)r;
	outbuf__lit(&c->o, "]\n");
	return err;
}

static void done(struct export_ctx *c)
{
	torch_actions__free(c->actions);
}

const struct export_format export_torch_raw = {
	.name = "torch-raw",
	.help = "torch.profiler's raw memory timeline: [ns, action, bytes, category] of each block (JSON)",
	.needs = EXPORT_NODES | EXPORT_LABELS | EXPORT_COMPAT,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
