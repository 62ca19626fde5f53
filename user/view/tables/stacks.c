/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/stacks.h"

#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"

#define FRAMES_SHOWN 24 /* of a stack, in text */

static void put_numbers(struct page *p, const struct report_stack *s, uint64_t peak)
{
	char a[24];

	page__put(p, "  ");
	page__style(p, STYLE_BOLD);
	page__cell(p, fmt_bytes(a, s->at_peak), -10);
	page__style(p, STYLE_PLAIN);
	page__cell(p, fmt_share(a, (double)s->at_peak, (double)peak), -9);
	page__cell(p, fmt_bytes(a, s->live), -11);
	page__cell(p, fmt_bytes(a, s->alloc_bytes), -11);
	page__cell(p, fmt_count(a, (double)s->alloc_count), -8);
}

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
	page__printf(p, "      … and %zu more frames (--json)", cnt);
	page__end_line(p);
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

static void put_stack(struct page *p, const struct report_stack *s, uint64_t peak)
{
	put_numbers(p, s, peak);
	page__end_line(p);
	for (size_t i = 0; i < s->frames_cnt && i < FRAMES_SHOWN; i++)
		put_frame(p, &s->frames[i]);
	if (s->frames_cnt > FRAMES_SHOWN)
		put_more(p, s->frames_cnt - FRAMES_SHOWN);
}

void stacks_text(struct page *p, const struct report *r, size_t top)
{
	uint64_t peak = report_peak_sum(r);
	size_t shown = 0;

	page__heading(p, "Stacks, by their part of the peak, innermost frame first");
	if (!r->stacks_total) {
		page__put(p, "  none were recorded (--stacks, --stack-size)");
		page__end_line(p);
		return;
	}
	page__put(p, "     at peak  of peak       live  allocated   count");
	page__end_line(p);
	for (; shown < r->stacks_cnt && shown < top; shown++)
		put_stack(p, &r->stacks[shown], peak);
	put_numbers(p, &r->no_stack, peak);
	page__put(p, "  without a stack: smaller than --stack-size, or from before");
	page__end_line(p);
	if (r->stacks_total > shown) {
		page__style(p, STYLE_DIM);
		page__printf(p, "  … and %zu more stacks (--top, --json)", r->stacks_total - shown);
		page__style(p, STYLE_PLAIN);
		page__end_line(p);
	}
}

static void json_sums(struct json *j, const struct report_stack *s)
{
	json__u64(j, "alloc_bytes", s->alloc_bytes);
	json__u64(j, "alloc_count", s->alloc_count);
	json__u64(j, "at_peak", s->at_peak);
	json__u64(j, "live", s->live);
	json__u64(j, "live_count", s->live_count);
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
	if (!r->stacks_total)
		return;
	json__begin(j, "stacks", '[');
	for (size_t i = 0; i < r->stacks_cnt && i < top; i++) {
		json__begin(j, NULL, '{');
		json_sums(j, &r->stacks[i]);
		stack_json(j, "frames", r->stacks[i].frames, r->stacks[i].frames_cnt);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__u64(j, "stacks_total", r->stacks_total);
	json__begin_flat(j, "no_stack", '{');
	json_sums(j, &r->no_stack);
	json__end(j, '}');
}
