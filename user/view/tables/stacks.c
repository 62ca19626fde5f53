/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/stacks.h"

#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/table.h"

#define FRAMES_SHOWN 24 /* of a stack, in text */

static const struct column columns[] = {
	{ NULL, "of peak", COL_SHARE, OF(report_stack, at_peak), TEXT(2, 9) },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_stack, alloc_bytes), TEXT(4, 11) },
	{ "alloc_count", "count", COL_COUNT, OF(report_stack, alloc_count), TEXT(5, 8) },
	{ "at_peak", "at peak", COL_BYTES, OF(report_stack, at_peak), .is_bold = 1, TEXT(1, 10) },
	{ "live", "live", COL_BYTES, OF(report_stack, live), TEXT(3, 11) },
	{ "live_count", NULL, COL_COUNT, OF(report_stack, live_count) },
};

static const struct table stack_table = TABLE(columns);

static void put_frame(struct page *p, const struct report_frame *f)
{
	const char *base = strrchr(f->file, '/');
	char place[TEXT_BYTES_MAX];
	int cols = (int)p->width - 46;

	page__put(p, "      ");
	if (f->kind == EV_FRAME_CUT) {
		page__style(p, STYLE_DIM);
		page__put(p, "(what called it is not known)");
	} else {
		page__cell(p, f->function, cols);
		page__put(p, "  ");
		page__style(p, STYLE_DIM);
		if (f->line)
			snprintf(place, sizeof(place), "%.400s:%u", base ? base + 1 : f->file, f->line);
		else
			snprintf(place, sizeof(place), "%.400s", base ? base + 1 : f->file);
		page__cell(p, place, 36);
	}
	page__style(p, STYLE_PLAIN);
	page__end_line(p);
}

static void put_more(struct page *p, size_t cnt)
{
	page__line(p, "      … and %zu more frames (--json)", cnt);
}

void stack_text(struct page *p, const struct report_frame *frames, size_t cnt, size_t max)
{
	size_t python = 0, shown = 0;

	for (size_t i = 0; i < cnt && cnt > max; i++)
		python += frames[i].kind == EV_FRAME_PYTHON;
	for (size_t i = 0; i < cnt && shown < max; i++) {
		if (python && frames[i].kind == EV_FRAME_NATIVE)
			continue;
		put_frame(p, &frames[i]);
		shown++;
	}
	if (shown < cnt)
		put_more(p, cnt - shown);
}

void stacks_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t shown = 0;

	page__heading(p, "Stacks, by their part of the peak, innermost frame first");
	if (!r->stacks_total) {
		page__line(p, "  none were recorded (--stacks, --stack-size)");
		return;
	}
	d.whole = report_peak_sum(r);
	table_lines__begin(&l, p, &stack_table, &d);
	for (; shown < r->stacks_cnt && shown < top; shown++) {
		const struct report_stack *s = &r->stacks[shown];

		table_lines__row(&l, s);
		for (size_t i = 0; i < s->frames_cnt && i < FRAMES_SHOWN; i++)
			put_frame(p, &s->frames[i]);
		if (s->frames_cnt > FRAMES_SHOWN)
			put_more(p, s->frames_cnt - FRAMES_SHOWN);
	}
	table_lines__cells(&l, &r->no_stack);
	page__line(p, "  without a stack: smaller than --stack-size, or from before");
	page__more(p, shown, r->stacks_total, "stacks (--top, --json)");
}

static void json_frame(struct json *j, const struct report_frame *f)
{
	json__begin_flat(j, NULL, '{');
	json__str(j, "kind", f->kind == EV_FRAME_PYTHON ? "python" : f->kind == EV_FRAME_NATIVE ? "native" : "cut");
	json__str(j, "function", f->function);
	json__str(j, "file", f->file);
	if (f->line)
		json__u64(j, "line", f->line);
	else
		json__null(j, "line");
	json__end(j, '}');
}

void stack_json(struct json *j, const char *key, const struct report_frame *frames, size_t cnt)
{
	json__begin(j, key, '[');
	for (size_t i = 0; i < cnt; i++)
		json_frame(j, &frames[i]);
	json__end(j, ']');
}

void stacks_json(struct json *j, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_JSON, r);

	if (!r->stacks_total)
		return;
	json__begin(j, "stacks", '[');
	for (size_t i = 0; i < r->stacks_cnt && i < top; i++) {
		json__begin(j, NULL, '{');
		table__fields(j, &stack_table, &d, &r->stacks[i]);
		stack_json(j, "frames", r->stacks[i].frames, r->stacks[i].frames_cnt);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__u64(j, "stacks_total", r->stacks_total);
	table__object(j, "no_stack", &stack_table, &d, &r->no_stack);
}
