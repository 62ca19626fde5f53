/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * JSON Lines: one object a decision, in time order. Blocks ("preexisting", "create", "version",
 * "destroy", "label") always have all of t, ev, dev, ptr, size, id, version, cat, op, region, tid, pid;
 * one of a device has stream from when it was told (caching allocator: after its birth);
 * a block that Python had a name for has name, root, kind, state and type too (not with --labels live);
 * other records those of them that mean something, and "step" (a number), "tag", "depth" (frames under
 * an operator). t is in ns since the epoch. A "node" stands where its labels were settled, steps after
 * its t, which is its start. With --stacks a "create" (or "preexisting") has "stack", the number of its innermost frame; before
 * a frame is first used a "stack" record tells it: stack, parent, kind, function, file, line. "create" and "destroy" have
 * module (path; null: the root itself), module_root and phase where they are known; a "mark" (with --ops) has
 * mark, tid, pid, and step. A part of a recording begins with "filter": what was asked for. "gap": what follows is not known
 * until one with begins false (docs/sampling.md). "compile" and "recompile" stand where they became known, up to seconds after
 * t, their begin: ns, backward, added (bytes, null: not known), compile_id, function, reason, failed, step (0: not known), pid.
 */
#include "event/event.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "view/export/rows.h"
#include "view/filter_said.h"
#include "view/fold/node_json.h"
#include "view/json.h"
#include "view/report_words.h"

static int begin(struct export_ctx *c, const struct export_to *to)
{
	struct json j;

	name_cache__init(&c->names, to->names, json_quote);
	c->to = to;
	if (!to->part)
		return 0;
	json__init(&j, &c->o);
	json__begin_flat(&j, NULL, '{');
	json__u64(&j, "t", to->report ? to->report->run.start_ts_ns + (uint64_t)to->report->run.epoch_off_ns : 0);
	json__str(&j, "ev", "filter");
	filter_json(&j, to->part);
	json__end(&j, '}');
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
	outbuf__str(o, export_rows__cat(c, ev));
	outbuf__char(o, '"');
	if (ev->has_stream) {
		outbuf__lit(o, ",\"stream\":");
		outbuf__u64(o, ev->stream);
	}
}

/* A frame of the stacks: its caller is the frame with the number `parent`. */
static void put_stack(struct export_ctx *c, const struct tl_event *ev)
{
	static const char *const kinds[] = { [EV_FRAME_PYTHON] = "python", [EV_FRAME_NATIVE] = "native",
					     [EV_FRAME_CUT] = "cut" };
	struct outbuf *o = &c->o;

	outbuf__lit(o, ",\"stack\":");
	outbuf__u64(o, ev->id);
	outbuf__lit(o, ",\"parent\":");
	outbuf__u64(o, ev->ptr);
	outbuf__lit(o, ",\"kind\":\"");
	outbuf__str(o, ev->depth >= EV_FRAME_PYTHON && ev->depth <= EV_FRAME_CUT ? kinds[ev->depth] : "?");
	outbuf__lit(o, "\",\"function\":");
	put_name(c, ev->op);
	outbuf__lit(o, ",\"file\":");
	put_name(c, ev->region);
	outbuf__lit(o, ",\"line\":");
	if (ev->version)
		outbuf__u64(o, ev->version);
	else
		outbuf__lit(o, "null");
	outbuf__lit(o, "}\n");
}

/* What Python calls the block, where it is known; by the first pass, so from its first line on. */
static void put_python(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;
	struct labels_name n;

	if (!c->to->labels || !labels__name(c->to->labels, ev->id, &n))
		return;
	outbuf__lit(o, ",\"name\":");
	put_name(c, n.path);
	outbuf__lit(o, ",\"root\":");
	put_name(c, n.root);
	outbuf__lit(o, ",\"kind\":\"");
	outbuf__str(o, tensor_kind_key(n.kind));
	outbuf__lit(o, "\",\"state\":");
	put_name(c, n.key);
	outbuf__lit(o, ",\"type\":");
	put_name(c, n.type);
}

/* Whose forward or backward made it, and in which phase, where that is known. */
static void put_module(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

	if (ev->root.v) {
		outbuf__lit(o, ",\"module\":");
		put_name(c, ev->module);
		outbuf__lit(o, ",\"module_root\":");
		put_name(c, ev->root);
	}
	if (ev->phase != PHASE_OTHER) {
		outbuf__lit(o, ",\"phase\":\"");
		outbuf__str(o, phase_name((enum phase)ev->phase));
		outbuf__char(o, '"');
	}
}

static void put_mark(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

	outbuf__lit(o, ",\"mark\":\"");
	outbuf__str(o, mark_name((enum tl_mark)ev->version));
	outbuf__char(o, '"');
	if (ev->version == MARK_STEP) {
		outbuf__lit(o, ",\"step\":");
		outbuf__u64(o, ev->ptr);
	}
	outbuf__lit(o, ",\"tid\":");
	outbuf__u64(o, ev->tid);
	outbuf__lit(o, ",\"pid\":");
	outbuf__u64(o, ev->pid);
	outbuf__lit(o, "}\n");
}

static void put_gap(struct outbuf *o, const struct tl_event *ev, int64_t epoch_off_ns)
{
	outbuf__lit(o, "{\"t\":");
	outbuf__u64(o, ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__lit(o, ",\"ev\":\"gap\",\"begins\":");
	outbuf__str(o, ev->version ? "true}\n" : "false}\n");
}

static void put_field(struct export_ctx *c, const char *key, name_id id)
{
	outbuf__str(&c->o, key);
	put_name(c, id);
}

static void put_compiled(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct outbuf *o = &c->o;

	outbuf__lit(o, "{\"t\":");
	outbuf__u64(o, ev->ptr + (uint64_t)epoch_off_ns);
	outbuf__str(o, ev->depth & EV_COMPILED_AGAIN ? ",\"ev\":\"recompile\",\"ns\":" : ",\"ev\":\"compile\",\"ns\":");
	outbuf__u64(o, ev->size);
	outbuf__str(o, ev->depth & EV_COMPILED_BACKWARD ? ",\"backward\":true,\"added\":" : ",\"backward\":false,\"added\":");
	if (ev->id == TL_SIZE_UNKNOWN)
		outbuf__lit(o, "null");
	else
		outbuf__u64(o, ev->id);
	put_field(c, ",\"compile_id\":", ev->key);
	put_field(c, ",\"function\":", ev->op);
	put_field(c, ",\"reason\":", ev->region);
	put_field(c, ",\"failed\":", ev->type);
	outbuf__lit(o, ",\"step\":");
	outbuf__u64(o, ev->version);
	outbuf__lit(o, ",\"pid\":");
	outbuf__u64(o, ev->pid);
	outbuf__lit(o, "}\n");
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct outbuf *o = &c->o;

	if (ev->kind == TL_COMPILED) {
		put_compiled(c, ev, epoch_off_ns);
		return o->err;
	}

	if (ev->kind == TL_GAP) {
		put_gap(o, ev, epoch_off_ns);
		return o->err;
	}
	if (ev->kind == TL_MARK ? !c->to->ops : ev->kind != TL_STACK && !export_rows__has(c, ev))
		return 0;
	if (ev->kind == TL_NODE) {
		node_json(o, &c->names, ev, epoch_off_ns, 0);
		return o->err;
	}
	outbuf__lit(o, "{\"t\":");
	outbuf__u64(o, ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__lit(o, ",\"ev\":\"");
	outbuf__str(o, ev->kind == TL_STACK ? "stack" : ev->kind == TL_MARK ? "mark" : tl_kind_name(ev->kind));
	outbuf__char(o, '"');
	if (ev->kind == TL_MARK) {
		put_mark(c, ev);
		return o->err;
	}
	if (ev->kind == TL_STACK) {
		put_stack(c, ev);
		return o->err;
	}
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
	if (ev->stack && ev->kind != TL_DESTROY) {
		outbuf__lit(o, ",\"stack\":");
		outbuf__u64(o, ev->stack);
	}
	outbuf__lit(o, ",\"tid\":");
	outbuf__u64(o, ev->tid);
	outbuf__lit(o, ",\"pid\":");
	outbuf__u64(o, ev->pid);
	if (ev->kind <= TL_DESTROY || ev->kind == TL_LABEL)
		put_python(c, ev);
	if (ev->kind == TL_CREATE || ev->kind == TL_DESTROY)
		put_module(c, ev);
	outbuf__lit(o, "}\n");
	return o->err;
}

const struct export_format export_jsonl = {
	.name = "jsonl",
	.help = "one JSON object a line: every block's allocation, free and tag, with its operator and region",
	.needs = EXPORT_MARKS | EXPORT_COMPILES | EXPORT_GAPS | EXPORT_PART,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.done = export_rows__done,
};
