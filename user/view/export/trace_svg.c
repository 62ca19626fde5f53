/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * trace-svg: the plot that torch.distributed._tools.memory_tracker's show_traces draws, as one SVG: memory after each
 * outermost operator (optrace.h), with marks where forward and backward begin and steps end.
 *
 * Bounded by opcolumns.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/selection.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/selection_words.h"
#include "view/fold/opcolumns.h"
#include "view/outbuf.h"

#define WIDTH 1200
#define HEIGHT 520
#define LEFT 96
#define RIGHT 24
#define TOP 64
#define BOTTOM 56

struct export_ctx {
	struct outbuf o;
	const struct export_to *to;
	struct optrace *trace;
	struct opcolumns all;
};

static int line(void *ctx, const struct optrace_line *l)
{
	struct export_ctx *c = ctx;

	opcolumns__add(&c->all, l);
	return 0;
}

/* --- drawing ------------------------------------------------------------------------------------------- */

static double x_of(const struct export_ctx *c, double op)
{
	return LEFT + (WIDTH - LEFT - RIGHT) * op / (double)(c->all.ops ? c->all.ops : 1);
}

static double y_of(const struct export_ctx *c, uint64_t bytes)
{
	return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ((double)bytes / ((double)(c->all.high ? c->all.high : 1) * 1.05));
}

static void put_text(struct outbuf *o, const char *text, size_t len)
{
	char clean[CLEAN_BYTES_MAX];
	size_t n = clean_text(clean, sizeof(clean), text, len);

	for (size_t i = 0; i < n; i++) {
		if (clean[i] == '&')
			outbuf__lit(o, "&amp;");
		else if (clean[i] == '<')
			outbuf__lit(o, "&lt;");
		else if (clean[i] == '>')
			outbuf__lit(o, "&gt;");
		else
			outbuf__char(o, clean[i]);
	}
}

static const struct opspan *span_of(const struct opcolumn *col, int is_reserved)
{
	return is_reserved ? &col->reserved : &col->allocated;
}

/* Highest values from left to right; columns of several operators go down to their lowest and up again. */
static void put_line(struct export_ctx *c, const char *class, int is_reserved)
{
	struct outbuf *o = &c->o;

	outbuf__printf(o, "<path class=\"%s\" d=\"", class);
	for (uint64_t i = 0; i * c->all.each < c->all.ops; i++) {
		const struct opspan *s = span_of(&c->all.columns[i], is_reserved);
		double from = x_of(c, (double)(i * c->all.each));
		double to = x_of(c, (double)((i + 1) * c->all.each < c->all.ops ? (i + 1) * c->all.each : c->all.ops));

		outbuf__printf(o, "%c%.2f %.2fH%.2f", i ? 'L' : 'M', from, y_of(c, s->high), to);
		if (s->low != s->high)
			outbuf__printf(o, "V%.2fV%.2f", y_of(c, s->low), y_of(c, s->high));
	}
	outbuf__lit(o, "\"/>\n");
}

static void put_axes(struct export_ctx *c)
{
	struct outbuf *o = &c->o;
	uint64_t step = 1;
	char n[24];

	while (step < c->all.high / 6)
		step *= 2; /* whole KiB, MiB … */
	for (uint64_t v = 0; v <= c->all.high; v += step) {
		outbuf__printf(o, "<path class=\"grid\" d=\"M%d %.2fH%d\"/>", LEFT, y_of(c, v), WIDTH - RIGHT);
		outbuf__printf(o, "<text class=\"num\" x=\"%d\" y=\"%.2f\">%s</text>\n", LEFT - 8, y_of(c, v) + 4,
			       fmt_bytes(n, v));
		if (v > UINT64_MAX - step)
			break;
	}
	step = 1;
	for (int i = 0; step < c->all.ops / 8; i++)
		step *= i % 2 ? 2 : 5; /* 1, 5, 10, 50, 100 … */
	for (uint64_t at = 0; at <= c->all.ops; at += step)
		outbuf__printf(o, "<text class=\"at\" x=\"%.2f\" y=\"%d\">%llu</text>\n", x_of(c, (double)at),
			       HEIGHT - BOTTOM + 18, (unsigned long long)at);
	outbuf__printf(o, "<text class=\"at\" x=\"%d\" y=\"%d\"># operator calls</text>\n", (LEFT + WIDTH - RIGHT) / 2,
		       HEIGHT - 12);
}

static const char *mark_class(uint8_t kind)
{
	return kind == OPTRACE_FW_START ? "fw_start" : kind == OPTRACE_STEP ? "step" : "fw_bw_boundary";
}

static void put_marks(struct export_ctx *c)
{
	for (uint32_t i = 0; i < c->all.marks_cnt; i++) {
		const char *class = mark_class(c->all.marks[i].kind);

		outbuf__printf(&c->o, "<path class=\"%s\" d=\"M%.2f %dV%d\"><title>%s</title></path>\n", class,
			       x_of(c, (double)c->all.marks[i].at), TOP, HEIGHT - BOTTOM, class);
	}
}

static void put_legend(struct export_ctx *c)
{
	/* c10 reports a free when it is requested, so memory that waits for a stream is not shown separately */
	static const char *const reported[] = { "allocated", "allocated, active", "reserved", "reserved_memory", NULL };
	static const char *const cpu[] = { "allocated", "allocated = active = reserved (no caching allocator)", NULL };
	static const char *const marks[] = { "fw_start", "fw_start", "fw_bw_boundary", "fw_bw_boundary", "step", "step", NULL };
	static const char *const gpu[] = { "allocated", "allocated", NULL };
	const char *const *lines = optrace__has_totals(c->trace) ? reported :
				   optrace__dev(c->trace) >= MT_DEV_CUDA0 ? gpu : cpu;
	const char *const *lists[] = { lines, marks };
	int x = LEFT;

	for (int k = 0; k < 2; k++)
		for (const char *const *p = lists[k]; *p; p += 2) {
			outbuf__printf(&c->o, "<path class=\"%s\" d=\"M%d 50h18\"/>", p[0], x);
			outbuf__printf(&c->o, "<text x=\"%d\" y=\"54\">%s</text>\n", x + 24, p[1]);
			x += 48 + 7 * (int)strlen(p[1]);
		}
}

static const char style[] =
	"<style>text{font:12px system-ui,sans-serif;fill:#333}.num{text-anchor:end}.at{text-anchor:middle}"
	"path{fill:none;stroke-width:1.5}.grid{stroke:#ddd;stroke-width:1}.allocated{stroke:#1f77b4}"
	".reserved{stroke:#2ca02c}.fw_start{stroke:#222}.fw_bw_boundary{stroke:#d62728}"
	".step{stroke:#999;stroke-dasharray:4 3}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";

/* ", at step 16, category ACTIVATION" */
static void put_part(struct outbuf *o, const struct selection *part)
{
	char words[1024];

	if (part->at.text) {
		outbuf__str(o, strcmp(part->at.text, "peak") ? ", at " : ", at the ");
		put_text(o, part->at.text, strlen(part->at.text));
	}
	if (!selection_words(part, words, sizeof(words))[0])
		return;
	outbuf__lit(o, ", ");
	put_text(o, words, strlen(words));
}

static void put_head(struct export_ctx *c)
{
	const char *called = c->to->report && c->to->report->run.cmdline ? c->to->report->run.cmdline : "";
	uint64_t left_out = optrace__left_out(c->trace);
	struct outbuf *o = &c->o;
	char n[24], dev[16];

	outbuf__lit(o, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
	outbuf__printf(o, " width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>", WIDTH, HEIGHT, WIDTH, HEIGHT);
	put_text(o, called, strlen(called));
	outbuf__lit(o, "</title>\n");
	outbuf__lit(o, style);
	outbuf__printf(o, "<text x=\"%d\" y=\"26\">%s of process %u after each of %llu outermost operators, highest %s", LEFT,
		       dev_name(optrace__dev(c->trace), dev), optrace__pid(c->trace), (unsigned long long)c->all.ops,
		       fmt_bytes(n, c->all.high));
	if (c->to->part)
		put_part(o, c->to->part);
	if (left_out)
		outbuf__printf(o, "; %llu operators left out", (unsigned long long)left_out);
	if (c->all.round_each > 1)
		outbuf__printf(o, "; marks of each %lluth step", (unsigned long long)c->all.round_each);
	outbuf__lit(o, "</text>\n");
}

static int put_all(struct export_ctx *c)
{
	int r = optrace__end(c->trace);

	put_head(c);
	put_axes(c);
	put_marks(c);
	if (optrace__has_totals(c->trace))
		put_line(c, "reserved", 1);
	put_line(c, "allocated", 0);
	put_legend(c);
	outbuf__lit(&c->o, "</svg>\n");
	return r;
}

/* --- the format ---------------------------------------------------------------------------------------- */

static void done(struct export_ctx *c)
{
	optrace__free(c->trace);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	c->to = to;
	(void)opcolumns__init(&c->all, 0, 0); /* without a step there is nothing to fail */
	return optrace__new(&c->trace, to, line, c);
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return optrace__event(c->trace, ev);
}

static int end(struct export_ctx *c, const struct report *r)
{
	return r ? put_all(c) : 0;
}

const struct export_format export_trace_svg = {
	.name = "trace-svg",
	.help = "a picture: memory after each operator of the step that has the peak, and marks of forward, backward and steps "
		"(of all steps: --from 0s)",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_MARKS | EXPORT_GAPS | EXPORT_PART | EXPORT_STRETCH |
		 EXPORT_ONE_STEP,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
