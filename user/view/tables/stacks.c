/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/stacks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/table.h"

#define FRAMES_SHOWN 24 /* of a stack, in text */

static void put_words(struct cell *c, size_t *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void put_words(struct cell *c, size_t *n, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = *n < sizeof(c->buf) ? vsnprintf(c->buf + *n, sizeof(c->buf) - *n, fmt, args) : 0;
	va_end(args);
	*n += len > 0 ? (size_t)len : 0;
}

static const char *base_of(const struct report_frame *f)
{
	const char *base = f->file ? strrchr(f->file, '/') : NULL;

	return base ? base + 1 : f->file ? f->file : "?";
}

/*
 * Python's frames, if any, innermost first: "step (train.py:12) < main (train.py:30)". If the innermost is not the program's
 * own, first the line that the verdict names: "train.py:12: Tanh.forward (act.py:432) < step (train.py:12)".
 */
void stack_words(struct cell *c, const struct report_frame *frames, size_t cnt)
{
	const struct report_frame *line = facts_line(frames, cnt), *inner = NULL;
	size_t n = 0;

	c->buf[0] = '\0';
	for (size_t i = 0; i < cnt && !inner; i++)
		inner = frames[i].kind == EV_FRAME_PYTHON ? &frames[i] : NULL;
	if (line && line != inner)
		put_words(c, &n, "%s:%u: ", base_of(line), line->line);
	for (size_t i = 0, shown = 0; i < cnt; i++) {
		const struct report_frame *f = &frames[i];

		if (f->kind == EV_FRAME_CUT || (inner && f->kind != EV_FRAME_PYTHON))
			continue;
		put_words(c, &n, "%s%s (%s", shown++ ? " < " : "", f->function, base_of(f));
		if (f->line)
			put_words(c, &n, ":%u", f->line);
		put_words(c, &n, ")");
	}
	c->text = c->buf;
}

static void words(struct cell *c, const void *row)
{
	const struct report_stack *s = row;

	stack_words(c, s->frames, s->frames_cnt);
}

static const struct column columns[] = {
	{ NULL, "where, and what called it", COL_TEXT, VIA(words), .is_begin = 1, TUI(1, 24, .wide = 1) },
	{ NULL, "of peak", COL_SHARE, OF(report_stack, at_peak), .shown_if = drawn_at_end, TEXT(2, 9), TUI(3, 8) },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_stack, alloc_bytes), TEXT(4, 11), TUI(5, 10) },
	{ "alloc_count", "count", COL_COUNT, OF(report_stack, alloc_count), TEXT(5, 8), TUI(6, 8) },
	{ "at_peak", "at peak", COL_BYTES, OF(report_stack, at_peak), .is_bold = 1, .shown_if = drawn_at_end, TEXT(1, 10),
	  TUI(2, 9) },
	{ "live", "live", COL_BYTES, OF(report_stack, live), .shown_if = drawn_at_end, TEXT(3, 11), TUI(4, 9) },
	{ NULL, "then", COL_BYTES, OF(report_stack, live), .shown_if = drawn_then, TUI(2, 9) },
	{ NULL, "of it", COL_SHARE, OF(report_stack, live), .shown_if = drawn_then, TUI(3, 8) },
	{ "live_count", NULL, COL_COUNT, OF(report_stack, live_count) },
};

const struct table stack_table = TABLE(columns);

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

const char *stacks_none_words(const struct report *r)
{
	for (size_t i = 0; i < r->leaks.cnt; i++)
		if (r->leaks.rows[i].frames_cnt)
			return "none were recorded but those of what grows, under leaks (--stacks)";
	return "none were recorded (--stacks, --stack-size)";
}

void stacks_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t shown = 0;

	page__heading(p, "Stacks, by their part of the peak, innermost frame first");
	if (!r->stacks.total) {
		page__line(p, "  %s", stacks_none_words(r));
		return;
	}
	d.whole = report_peak_sum(r);
	table_lines__begin(&l, p, &stack_table, &d);
	for (; shown < r->stacks.cnt && shown < top; shown++) {
		const struct report_stack *s = &r->stacks.rows[shown];

		table_lines__row(&l, s);
		for (size_t i = 0; i < s->frames_cnt && i < FRAMES_SHOWN; i++)
			put_frame(p, &s->frames[i]);
		if (s->frames_cnt > FRAMES_SHOWN)
			put_more(p, s->frames_cnt - FRAMES_SHOWN);
	}
	table_lines__cells(&l, &r->stacks.none);
	page__line(p, "  without a stack: smaller than --stack-size, or from before");
	page__more(p, shown, r->stacks.total, "stacks (--top, --json)");
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

	if (!r->stacks.total)
		return;
	json__begin(j, "stacks", '[');
	for (size_t i = 0; i < r->stacks.cnt && i < top; i++) {
		json__begin(j, NULL, '{');
		table__fields(j, &stack_table, &d, &r->stacks.rows[i]);
		stack_json(j, "frames", r->stacks.rows[i].frames, r->stacks.rows[i].frames_cnt);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__u64(j, "stacks_total", r->stacks.total);
	table__object(j, "no_stack", &stack_table, &d, &r->stacks.none);
}
