/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/marks.h"

#include <stdio.h>

#include "view/report_words.h"

/* --- JSON ----------------------------------------------------------------------------------------------------- */

static void put_at(struct json *j, const struct report *r, const struct mark_at *at)
{
	json__u64(j, "t", at->ts_ns + (uint64_t)r->epoch_off_ns);
	json__u64(j, "live", at->live);
	json__u64(j, "peak", at->peak);
}

void step_json(struct json *j, const char *key, const struct report *r, const struct step_marks *s)
{
	if (!s->pid)
		return;
	json__begin_flat(j, key, '{');
	json__u64(j, "number", s->number);
	json__u64(j, "pid", s->pid);
	if (s->begin_ts_ns)
		json__u64(j, "begin", s->begin_ts_ns + (uint64_t)r->epoch_off_ns);
	else
		json__null(j, "begin");
	json__u64(j, "peak", step_marks__peak(s));
	json__begin(j, "marks", '{');
	for (unsigned i = 1; i < MARK_MAX; i++) {
		if (!s->at[i].ts_ns)
			continue;
		json__begin(j, mark_name((enum tl_mark)i), '{');
		put_at(j, r, &s->at[i]);
		json__end(j, '}');
	}
	json__end(j, '}');
	json__end(j, '}');
}

void marks_json(struct json *j, const struct report *r)
{
	json__begin_flat(j, "marks", '{');
	for (unsigned i = 1; i < MARK_MAX; i++)
		json__u64(j, mark_name((enum tl_mark)i), r->marks_by_kind[i]);
	json__end(j, '}');
	json__begin(j, "markers", '[');
	for (size_t i = 0; i < r->marks_cnt; i++) {
		const struct report_mark *k = &r->marks[i];

		json__begin_flat(j, NULL, '{');
		put_at(j, r, &k->at);
		json__str(j, "name", mark_name((enum tl_mark)k->kind));
		json__u64(j, "pid", k->pid);
		json__u64(j, "tid", k->tid);
		if (k->kind == MARK_STEP)
			json__u64(j, "step", k->number);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__begin(j, "steps", '[');
	for (size_t i = 0; i < r->step_rows_cnt; i++)
		step_json(j, NULL, r, &r->step_rows[i]);
	json__end(j, ']');
}

/* --- text ----------------------------------------------------------------------------------------------------- */

static void put_bytes(struct page *p, const struct mark_at *at, uint64_t bytes, int cols)
{
	char text[24];

	page__cell(p, at->ts_ns ? fmt_bytes(text, bytes) : "-", cols);
}

/* Widths of the columns; the rest is fixed. */
struct cols {
	int name, length;
};

static struct cols cols_of(const struct page *p)
{
	struct cols c = { .length = p->width >= 92 ? 10 : 0 };

	c.name = (int)p->width - 58 - c.length;
	c.name = c.name > 30 ? 30 : c.name;
	return c;
}

static void put_row(struct page *p, const struct report *r, const struct step_marks *s, const char *which)
{
	const struct mark_at *end = &s->at[MARK_STEP];
	struct cols c = cols_of(p);
	char text[64];
	int n;

	n = snprintf(text, sizeof(text), "%llu, %s", (unsigned long long)s->number, which);
	if (r->procs_cnt > 1)
		snprintf(text + n, sizeof(text) - (size_t)n, ", %u", s->pid);
	page__put(p, "  ");
	page__cell(p, text, c.name);
	if (c.length)
		page__cell(p, s->begin_ts_ns ? fmt_ns(text, end->ts_ns - s->begin_ts_ns) : "-", -c.length);
	put_bytes(p, &s->at[MARK_FW_START], s->at[MARK_FW_START].live, -10);
	for (unsigned i = MARK_FW_BW_BOUNDARY; i < MARK_MAX; i++) {
		put_bytes(p, &s->at[i], s->at[i].peak, -11);
		put_bytes(p, &s->at[i], s->at[i].live, i == MARK_FW_BW_BOUNDARY ? -15 : -9);
	}
	page__end_line(p);
}

static void put_head(struct page *p, const struct report *r)
{
	struct cols c = cols_of(p);

	page__heading(p, "Steps: live bytes at their marks, and the highest between them");
	page__put(p, "  ");
	page__cell(p, r->procs_cnt > 1 ? "step, process" : "step", c.name);
	if (c.length)
		page__cell(p, "length", -c.length);
	page__put(p, "  fw_start in forward fw_bw_boundary   after it   at end");
	page__end_line(p);
}

/* NULL: it is older than those that are kept. */
static const struct step_marks *last_of(const struct report *r, uint32_t pid)
{
	for (size_t i = r->step_rows_cnt; i--;)
		if (r->step_rows[i].pid == pid)
			return &r->step_rows[i];
	return NULL;
}

void marks_text(struct page *p, const struct report *r, size_t top)
{
	size_t shown = 0;

	for (size_t i = 0; i < r->procs_cnt && shown < top; i++) {
		const struct step_marks *high = &r->procs[i].highest_step, *last = last_of(r, high->pid);

		if (!high->pid)
			continue;
		if (!shown++)
			put_head(p, r);
		put_row(p, r, high, last && last->number == high->number ? "last" : "highest");
		if (last && last->number != high->number)
			put_row(p, r, last, "last");
	}
}
