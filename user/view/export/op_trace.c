/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * op-trace: JSON Lines: memory after each operator, and where forward, backward and steps begin (optrace.h). For programs,
 * as tools/python's MemoryTracker; the same as a picture is trace-svg.
 *
 * Every line has t (ns since the epoch), ev, i (operators entered before it), tid, allocated, reserved. ev "op" and "node"
 * (backward): name, depth (operators around it), phase, created (bytes allocated in it); "region" and "region_end": name;
 * "mark": name, and of a step its number. The last line is "end" with pid, dev, totals (a caching allocator reported its own:
 * else reserved is allocated) and left_out (operators without a line). A part of a recording begins with "filter": its
 * options.
 */
#include <errno.h>
#include <stdlib.h>

#include "event/event.h"
#include "view/export.h"
#include "view/fold/name_cache.h"
#include "view/fold/optrace.h"
#include "view/json.h"

struct export_ctx {
	struct outbuf o;
	struct name_cache names;
	struct optrace *trace;
	int64_t epoch_off_ns;
};

static const char *const evs[] = {
	[OPTRACE_OP] = "op", [OPTRACE_NODE] = "node", [OPTRACE_REGION] = "region", [OPTRACE_REGION_END] = "region_end",
	[OPTRACE_FW_START] = "mark", [OPTRACE_FW_BW_BOUNDARY] = "mark", [OPTRACE_STEP] = "mark",
};

static void put_u64(struct outbuf *o, const char *key, uint64_t v)
{
	outbuf__lit(o, ",\"");
	outbuf__str(o, key);
	outbuf__lit_u64(o, "\":", v);
}

static void put_name(struct export_ctx *c, const struct optrace_line *l)
{
	struct outbuf *o = &c->o;

	outbuf__lit(o, ",\"name\":");
	if (l->kind == OPTRACE_FW_START)
		outbuf__lit(o, "\"fw_start\"");
	else if (l->kind == OPTRACE_FW_BW_BOUNDARY)
		outbuf__lit(o, "\"fw_bw_boundary\"");
	else if (l->kind == OPTRACE_STEP)
		outbuf__lit(o, "\"step\"");
	else if (l->name.v)
		name_cache__put(&c->names, o, l->name);
	else
		outbuf__lit(o, "null");
}

static int line(void *ctx, const struct optrace_line *l)
{
	struct export_ctx *c = ctx;
	struct outbuf *o = &c->o;

	outbuf__lit_u64(o, "{\"t\":", l->ts_ns + (uint64_t)c->epoch_off_ns);
	outbuf__lit(o, ",\"ev\":\"");
	outbuf__str(o, evs[l->kind]);
	outbuf__char(o, '"');
	put_u64(o, "i", l->index);
	put_name(c, l);
	if (l->kind == OPTRACE_STEP)
		put_u64(o, "step", l->number);
	if (l->kind == OPTRACE_OP || l->kind == OPTRACE_NODE) {
		put_u64(o, "depth", l->depth);
		outbuf__lit(o, ",\"phase\":\"");
		outbuf__str(o, phase_name((enum phase)l->phase));
		outbuf__char(o, '"');
		put_u64(o, "created", l->created);
	}
	put_u64(o, "allocated", l->allocated);
	put_u64(o, "reserved", l->reserved);
	put_u64(o, "tid", l->tid);
	outbuf__lit(o, "}\n");
	return o->err;
}

static void done(struct export_ctx *c)
{
	optrace__free(c->trace);
	name_cache__done(&c->names);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	name_cache__init(&c->names, to->names, json_quote);
	export_part_line(&c->o, to);
	return optrace__new(&c->trace, to, line, c);
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	c->epoch_off_ns = epoch_off_ns;
	return optrace__event(c->trace, ev);
}

static int end(struct export_ctx *c, const struct report *report)
{
	char dev[16];
	int r;

	if (!report)
		return 0;
	r = optrace__end(c->trace);
	outbuf__lit(&c->o, "{\"ev\":\"end\"");
	put_u64(&c->o, "pid", optrace__pid(c->trace));
	outbuf__lit(&c->o, ",\"dev\":\"");
	outbuf__str(&c->o, dev_name(optrace__dev(c->trace), dev));
	outbuf__lit(&c->o, "\",\"totals\":");
	outbuf__str(&c->o, optrace__has_totals(c->trace) ? "true" : "false");
	put_u64(&c->o, "left_out", optrace__left_out(c->trace));
	outbuf__lit(&c->o, "}\n");
	return r;
}

const struct export_format export_op_trace = {
	.name = "op-trace",
	.help = "one JSON object an operator: memory after it; where forward, backward and steps begin",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_MARKS | EXPORT_GAPS | EXPORT_PART | EXPORT_STRETCH,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
