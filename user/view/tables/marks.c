/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/marks.h"

#include "view/report_words.h"

/* --- JSON ----------------------------------------------------------------------------------------------------- */

static void put_at(struct json *j, const struct report *r, const struct mark_at *at)
{
	json__u64(j, "t", at->ts_ns + (uint64_t)r->run.epoch_off_ns);
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
		json__u64(j, "begin", s->begin_ts_ns + (uint64_t)r->run.epoch_off_ns);
	else
		json__null(j, "begin");
	json__u64(j, "peak", step_marks__peak(s));
	json__bool(j, "settling", s->is_settling);
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
		json__u64(j, mark_name((enum tl_mark)i), r->marks.by_kind[i]);
	json__end(j, '}');
	json__begin(j, "markers", '[');
	for (size_t i = 0; i < r->marks.cnt; i++) {
		const struct report_mark *k = &r->marks.rows[i];

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
	for (size_t i = 0; i < r->marks.steps_cnt; i++)
		step_json(j, NULL, r, &r->marks.steps[i]);
	json__end(j, ']');
}

/* --- text ----------------------------------------------------------------------------------------------------- */

static int has_procs(const struct drawn *d)
{
	return d->r->procs_cnt > 1;
}

static int has_one(const struct drawn *d)
{
	return d->r->procs_cnt <= 1;
}

/* Others may have made no step, as DataLoader's workers. */
static int is_of_several(const struct drawn *d)
{
	size_t cnt = 0;

	for (size_t i = 0; i < d->r->procs_cnt; i++)
		cnt += d->r->procs[i].highest_step.pid != 0;
	return cnt > 1;
}

static int is_of_one(const struct drawn *d)
{
	return !is_of_several(d);
}

/* The step, in the room that the others leave. */
static unsigned step_cols(const struct drawn *d)
{
	unsigned cols = d->width - (d->width >= 92 ? 68 : 58);

	return cols > 30 ? 30 : cols;
}

static const char *settling_word(const struct step_marks *s)
{
	return s->is_settling ? ", settling" : "";
}

static void which(struct cell *c, const void *row)
{
	const struct step_marks *s = row;

	if (has_procs(c->d))
		cell__say(c, "%llu, %s, %u%s", (unsigned long long)s->number, (const char *)c->d->of, s->pid, settling_word(s));
	else
		cell__say(c, "%llu, %s%s", (unsigned long long)s->number, (const char *)c->d->of, settling_word(s));
}

static void settling(struct cell *c, const void *row)
{
	c->text = ((const struct step_marks *)row)->is_settling ? "settling" : "";
}

/* As in the chart, where there is no room for the word. */
static void settling_sign(struct cell *c, const void *row)
{
	c->text = ((const struct step_marks *)row)->is_settling ? "\xe2\x95\x8c" : ""; /* ╌ */
}

static void length(struct cell *c, const void *row)
{
	const struct step_marks *s = row;

	c->num = s->begin_ts_ns ? s->at[MARK_STEP].ts_ns - s->begin_ts_ns : 0;
}

static void highest(struct cell *c, const void *row)
{
	c->num = step_marks__peak(row);
}

static void ended(struct cell *c, const void *row)
{
	c->num = ((const struct step_marks *)row)->at[MARK_STEP].ts_ns - c->d->r->run.start_ts_ns;
}

#define AT(mark, bytes) OF(step_marks, at[mark].bytes), IF(step_marks, at[mark].ts_ns)

static const struct column columns[] = {
	{ NULL, "step", COL_TEXT, VIA(which), .cols = step_cols, .shown_if = has_one, TEXT(1) },
	{ NULL, "step, process", COL_TEXT, VIA(which), .cols = step_cols, .shown_if = has_procs, TEXT(1) },
	{ NULL, "step", COL_NUMBER, OF(step_marks, number), TUI(1, 8) },
	{ NULL, "", COL_TEXT, VIA(settling_sign), TUI(2, 1) },
	{ NULL, "length", COL_NS, VIA(length), IF(step_marks, begin_ts_ns), TEXT(2, 10, 92), TUI(3, 9) },
	{ NULL, "fw_start", COL_BYTES, AT(MARK_FW_START, live), TEXT(3, 10) },
	{ NULL, "fw_start", COL_BYTES, AT(MARK_FW_START, live), .shown_if = is_of_one, TUI(4, 9) },
	{ NULL, "fw_start", COL_BYTES, AT(MARK_FW_START, live), .shown_if = is_of_several, TUI(4, 9, 90) },
	{ NULL, "in forward", COL_BYTES, AT(MARK_FW_BW_BOUNDARY, peak), TEXT(4, 11), TUI(5, 10) },
	{ NULL, "fw_bw_boundary", COL_BYTES, AT(MARK_FW_BW_BOUNDARY, live), TEXT(5, 15), TUI(6, 14) },
	{ NULL, "after it", COL_BYTES, AT(MARK_STEP, peak), TEXT(6, 11), TUI(7, 9) },
	{ NULL, "at end", COL_BYTES, AT(MARK_STEP, live), TEXT(7, 9), TUI(8, 9) },
	{ NULL, "", COL_BAR, VIA(highest), TUI(9, 12, 110, 1) },
	{ NULL, "ended at", COL_NS, VIA(ended), TUI(10, 9, 90) },
	{ NULL, "process", COL_NUMBER, OF(step_marks, pid), .shown_if = is_of_several, TUI(11, 8, .stays = 1) },
	{ NULL, "", COL_TEXT, VIA(settling), TUI(12, 8, 118) },
};

const struct table step_table = TABLE(columns);

/* NULL: it is older than those that are kept. */
static const struct step_marks *last_of(const struct report *r, uint32_t pid)
{
	for (size_t i = r->marks.steps_cnt; i--;)
		if (r->marks.steps[i].pid == pid)
			return &r->marks.steps[i];
	return NULL;
}

/* Of those that are kept: "2 steps are settling: …" */
static void put_settling(struct page *p, const struct report *r, uint32_t pid)
{
	unsigned cnt = 0;
	char name[24], whose[40] = "";

	for (size_t i = 0; i < r->marks.steps_cnt; i++)
		cnt += r->marks.steps[i].pid == pid && r->marks.steps[i].is_settling;
	if (!cnt)
		return;
	if (r->procs_cnt > 1)
		snprintf(whose, sizeof(whose), " of %s%s", proc_words(name, sizeof(name), r, pid)[0] == 'r' ? "" : "process ",
			 proc_words(name, sizeof(name), r, pid));
	page__itemf(p, 2, "%u step%s%s%s settling: %s what later steps keep", cnt, cnt == 1 ? "" : "s", whose,
		    cnt == 1 ? " is" : " are", cnt == 1 ? "it makes" : "they make");
}

void marks_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t shown = 0;

	for (size_t i = 0; i < r->procs_cnt && shown < top; i++) {
		const struct step_marks *high = &r->procs[i].highest_step, *last = last_of(r, high->pid);

		if (!high->pid)
			continue;
		if (!shown++) {
			page__heading(p, "Steps: live bytes at their marks, and the highest between them");
			table_lines__begin(&l, p, &step_table, &d);
		}
		d.of = last && last->number == high->number ? "last" : "highest";
		table_lines__row(&l, high);
		if (last && last->number != high->number) {
			d.of = "last";
			table_lines__row(&l, last);
		}
		put_settling(p, r, high->pid);
	}
}
