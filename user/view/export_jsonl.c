/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * JSON Lines: one object a decision, in time order. Blocks ("preexisting", "create", "version",
 * "destroy", "label") always have all of t, ev, dev, ptr, size, id, version, cat, op, region, tid, pid;
 * other records those of them that mean something, and "step" (a number), "tag", "depth" (frames under
 * an operator). t is in ns since the epoch.
 */
#include <errno.h>
#include <stdlib.h>

#include "view/export.h"
#include "view/json.h"
#include "view/name_cache.h"

struct export_ctx {
	struct outbuf o;
	struct name_cache names;
};

static int begin(struct export_ctx **ret, const struct export_to *to)
{
	struct export_ctx *c = calloc(1, sizeof(*c));

	if (!c || outbuf__init(&c->o, to->out)) {
		free(c);
		return -ENOMEM;
	}
	name_cache__init(&c->names, to->names, json_quote);
	*ret = c;
	return 0;
}

static void put_name(struct export_ctx *c, name_id id)
{
	if (id.v)
		name_cache__put(&c->names, &c->o, id);
	else
		outbuf__lit(&c->o, "null");
}

static void put_size(struct outbuf *o, uint64_t size)
{
	outbuf__lit(o, ",\"size\":");
	if (size == TL_SIZE_UNKNOWN)
		outbuf__lit(o, "null");
	else
		outbuf__u64(o, size);
}

static void put_dev(struct export_ctx *c, uint8_t dev)
{
	outbuf__lit(&c->o, ",\"dev\":\"");
	outbuf__str(&c->o, c->names.dev_names[dev]);
	outbuf__char(&c->o, '"');
}

static void put_block(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

	put_dev(c, ev->dev);
	outbuf__lit(o, ",\"ptr\":\"");
	outbuf__hex(o, ev->ptr);
	outbuf__char(o, '"');
	put_size(o, ev->size);
	outbuf__lit(o, ",\"id\":");
	outbuf__u64(o, ev->id);
	outbuf__lit(o, ",\"version\":");
	outbuf__u64(o, ev->version);
	outbuf__lit(o, ",\"cat\":\"");
	outbuf__str(o, tl_cat_name(ev->cat));
	outbuf__char(o, '"');
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct outbuf *o = &c->o;
	const char *kind = tl_kind_name(ev->kind);

	if (!kind)
		return 0;
	outbuf__lit(o, "{\"t\":");
	outbuf__u64(o, ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__lit(o, ",\"ev\":\"");
	outbuf__str(o, kind);
	outbuf__char(o, '"');
	switch (ev->kind) {
	case TL_PREEXISTING:
	case TL_CREATE:
	case TL_VERSION:
	case TL_DESTROY:
	case TL_TAG:
	case TL_LABEL:
		put_block(c, ev);
		break;
	case TL_OOM:
		put_dev(c, ev->dev);
		put_size(o, ev->size);
		break;
	case TL_STEP:
		outbuf__lit(o, ",\"step\":");
		outbuf__u64(o, ev->ptr);
		break;
	default:
		outbuf__lit(o, ",\"depth\":");
		outbuf__u64(o, ev->depth);
	}
	outbuf__lit(o, ",\"op\":");
	put_name(c, ev->op);
	if (ev->kind == TL_TAG)
		outbuf__lit(o, ",\"tag\":");
	else
		outbuf__lit(o, ",\"region\":");
	put_name(c, ev->region);
	outbuf__lit(o, ",\"tid\":");
	outbuf__u64(o, ev->tid);
	outbuf__lit(o, ",\"pid\":");
	outbuf__u64(o, ev->pid);
	outbuf__lit(o, "}\n");
	return o->err;
}

static int end(struct export_ctx *c, const struct report *r)
{
	int err;

	(void)r;
	if (!c)
		return 0;
	err = outbuf__flush(&c->o);
	outbuf__done(&c->o);
	name_cache__done(&c->names);
	free(c);
	return err;
}

const struct export_format export_jsonl = {
	.name = "jsonl",
	.help = "one JSON object a line: every block's birth, free and tag, with its operator and region",
	.begin = begin,
	.event = event,
	.end = end,
};
