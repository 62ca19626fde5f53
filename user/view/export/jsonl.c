/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * JSON Lines: one object a decision, in time order (or in that of --sort). Blocks ("preexisting", "create", "version",
 * "destroy", "label") always have all of t, ev, dev, ptr, size, id, version, cat, op, region, tid, pid;
 * one of a device has stream once it was reported (caching allocator: after its allocation);
 * a block that Python had a name for also has name, root, kind, state and type (not with --labels live);
 * other records those of them that apply, and "step" (a number), "tag", "depth" (frames under
 * an operator). t is in ns since the epoch. A "node" stands where its labels were settled, steps after
 * its t, which is its start. With --stacks a "create" (or "preexisting") has "stack", the number of its innermost frame; before
 * a frame is first used a "stack" record has it: stack, parent, kind, function, file, line. "create" and "destroy", and
 * "preexisting" of blocks live at a part's begin, have module (path; null: the root itself), module_root and phase if known;
 * with "learned":true cat, op, region and these are not measured, but those of the same allocation in a traced step
 * (docs/sampling.md). A "mark" (with --ops) has mark, tid, pid, and step. A part of a recording begins with "filter": its
 * options. "gap": what follows is unknown until one with begins false (docs/sampling.md). "compile" and "recompile" stand where
 * they became known, up to seconds after t, their begin: ns, backward, added (bytes, null: not known), compile_id, function,
 * reason, failed, step (0: not known), pid.
 */
#include "event/event.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "view/export/rows.h"
#include "view/fold/node_json.h"
#include "view/json.h"
#include "view/report_words.h"

static int begin(struct export_ctx *c, const struct export_to *to)
{
	name_cache__init(&c->names, to->names, json_quote);
	c->to = to;
	export_part_line(&c->o, to);
	return export_rows__begin(c);
}

static void put_name(struct export_ctx *c, name_id id)
{
	if (id.v)
		name_cache__put(&c->names, &c->o, id);
	else
		outbuf__lit(&c->o, "null");
}

/* The key is a literal, up to the name's or text's beginning. */
#define put_field(c, key, id) (outbuf__lit(&(c)->o, key), put_name(c, id))
#define put_text(o, key, text) (outbuf__lit(o, key), outbuf__str(o, text), outbuf__char(o, '"'))

static void put_u64_or_null(struct outbuf *o, uint64_t v, int is_known)
{
	if (is_known)
		outbuf__u64(o, v);
	else
		outbuf__lit(o, "null");
}

static void put_size(struct outbuf *o, uint64_t size)
{
	outbuf__lit(o, ",\"size\":");
	put_u64_or_null(o, size, size != TL_SIZE_UNKNOWN);
}

static void put_dev(struct export_ctx *c, uint8_t dev)
{
	put_text(&c->o, ",\"dev\":\"", c->names.dev_names[dev]);
}

static void put_block(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

	put_dev(c, ev->dev);
	outbuf__lit(o, ",\"ptr\":\"");
	outbuf__hex(o, ev->ptr);
	outbuf__char(o, '"');
	put_size(o, ev->size);
	outbuf__lit_u64(o, ",\"id\":", ev->id);
	outbuf__lit_u64(o, ",\"version\":", ev->version);
	put_text(o, ",\"cat\":\"", ev->learned ? tl_cat_name(ev->learned->cat) : export_rows__cat(c, ev));
	if (ev->has_stream)
		outbuf__lit_u64(o, ",\"stream\":", ev->stream);
}

/* A frame of the stacks: its caller is the frame with the number `parent`. */
static void put_stack(struct export_ctx *c, const struct tl_event *ev)
{
	static const char *const kinds[] = { [EV_FRAME_PYTHON] = "python", [EV_FRAME_NATIVE] = "native",
					     [EV_FRAME_CUT] = "cut" };
	struct outbuf *o = &c->o;

	outbuf__lit_u64(o, ",\"stack\":", ev->node);
	outbuf__lit_u64(o, ",\"parent\":", ev->parent);
	outbuf__lit(o, ",\"kind\":\"");
	outbuf__str(o, ev->frame_kind >= EV_FRAME_PYTHON && ev->frame_kind <= EV_FRAME_CUT ? kinds[ev->frame_kind] : "?");
	put_field(c, "\",\"function\":", ev->function);
	put_field(c, ",\"file\":", ev->file);
	outbuf__lit(o, ",\"line\":");
	put_u64_or_null(o, ev->line, ev->line != 0);
	outbuf__lit(o, "}\n");
}

/* The block's name in Python, if known; by the first pass, so from its first line on. */
static void put_python(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;
	struct labels_name n;

	if (!c->to->labels || !labels__name(c->to->labels, ev->id, &n))
		return;
	put_field(c, ",\"name\":", n.path);
	put_field(c, ",\"root\":", n.root);
	outbuf__lit(o, ",\"kind\":\"");
	outbuf__str(o, tensor_kind_key(n.kind));
	put_field(c, "\",\"state\":", n.key);
	put_field(c, ",\"type\":", n.type);
}

/* The module whose forward or backward made it, and the phase, if known. */
static void put_module(struct export_ctx *c, const struct tl_event *ev)
{
	const struct tl_learned measured = { .module = ev->module, .root = ev->root, .phase = ev->phase };
	const struct tl_learned *is = ev->learned ? ev->learned : &measured;
	struct outbuf *o = &c->o;

	if (is->root.v) {
		put_field(c, ",\"module\":", is->module);
		put_field(c, ",\"module_root\":", is->root);
	}
	if (is->phase != PHASE_OTHER) {
		put_text(o, ",\"phase\":\"", phase_name((enum phase)is->phase));
	}
	if (ev->learned)
		outbuf__lit(o, ",\"learned\":true");
}

static void put_mark(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

	put_text(o, ",\"mark\":\"", mark_name((enum tl_mark)ev->version));
	if (ev->version == MARK_STEP)
		outbuf__lit_u64(o, ",\"step\":", ev->ptr);
	outbuf__lit_u64(o, ",\"tid\":", ev->tid);
	outbuf__lit_u64(o, ",\"pid\":", ev->pid);
	outbuf__lit(o, "}\n");
}

static void put_gap(struct outbuf *o, const struct tl_event *ev, int64_t epoch_off_ns)
{
	outbuf__lit_u64(o, "{\"t\":", ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__lit(o, ",\"ev\":\"gap\",\"begins\":");
	outbuf__str(o, ev->version ? "true}\n" : "false}\n");
}

static void put_compiled(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct outbuf *o = &c->o;

	outbuf__lit_u64(o, "{\"t\":", ev->begin_ns + (uint64_t)epoch_off_ns);
	outbuf__str(o, ev->compiled & EV_COMPILED_AGAIN ? ",\"ev\":\"recompile\",\"ns\":" : ",\"ev\":\"compile\",\"ns\":");
	outbuf__u64(o, ev->took_ns);
	outbuf__lit(o, ",\"backward\":");
	outbuf__str(o, ev->compiled & EV_COMPILED_BACKWARD ? "true,\"added\":" : "false,\"added\":");
	put_u64_or_null(o, ev->added, ev->added != TL_SIZE_UNKNOWN);
	put_field(c, ",\"compile_id\":", ev->compile_id);
	put_field(c, ",\"function\":", ev->function);
	put_field(c, ",\"reason\":", ev->reason);
	put_field(c, ",\"failed\":", ev->failed);
	outbuf__lit_u64(o, ",\"step\":", ev->step);
	outbuf__lit_u64(o, ",\"pid\":", ev->pid);
	outbuf__lit(o, "}\n");
}

static void put_begin(struct outbuf *o, const struct tl_event *ev, int64_t epoch_off_ns, const char *what)
{
	outbuf__lit_u64(o, "{\"t\":", ev->ts_ns + (uint64_t)epoch_off_ns);
	put_text(o, ",\"ev\":\"", what);
}

/* A block, an operator, a region. */
static void put_row(struct export_ctx *c, const struct tl_event *ev)
{
	struct outbuf *o = &c->o;

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
		outbuf__lit_u64(o, ",\"step\":", ev->ptr);
		break;
	default:
		outbuf__lit_u64(o, ",\"depth\":", ev->depth);
	}
	put_field(c, ",\"op\":", ev->learned ? ev->learned->op : ev->op);
	if (ev->kind == TL_TAG)
		put_field(c, ",\"tag\":", ev->region);
	else
		put_field(c, ",\"region\":", ev->learned ? ev->learned->region : ev->region);
	if (ev->stack && ev->kind != TL_DESTROY)
		outbuf__lit_u64(o, ",\"stack\":", ev->stack);
	outbuf__lit_u64(o, ",\"tid\":", ev->tid);
	outbuf__lit_u64(o, ",\"pid\":", ev->pid);
	if (ev->kind <= TL_DESTROY || ev->kind == TL_LABEL)
		put_python(c, ev);
	if (ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING || ev->kind == TL_DESTROY)
		put_module(c, ev);
	outbuf__lit(o, "}\n");
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct outbuf *o = &c->o;

	if (ev->kind == TL_COMPILED) {
		put_compiled(c, ev, epoch_off_ns);
	} else if (ev->kind == TL_GAP) {
		put_gap(o, ev, epoch_off_ns);
	} else if (ev->kind == TL_STACK) {
		put_begin(o, ev, epoch_off_ns, "stack");
		put_stack(c, ev);
	} else if (ev->kind == TL_MARK) {
		if (!c->to->ops)
			return 0;
		put_begin(o, ev, epoch_off_ns, "mark");
		put_mark(c, ev);
	} else if (!export_rows__has(c, ev)) {
		return 0;
	} else if (ev->kind == TL_NODE) {
		node_json(o, &c->names, ev, epoch_off_ns, 0);
	} else {
		put_begin(o, ev, epoch_off_ns, tl_kind_name(ev->kind));
		put_row(c, ev);
	}
	return export_rows__put(c, ev, ev->learned);
}

const struct export_format export_jsonl = {
	.name = "jsonl",
	.help = "one JSON object a line: every block's allocation, free and tag, with its operator and region",
	.needs = EXPORT_MARKS | EXPORT_COMPILES | EXPORT_GAPS | EXPORT_PART,
	.sorts = EXPORT_ROWS_SORTS,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = export_rows__end,
	.done = export_rows__done,
};
