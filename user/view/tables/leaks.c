/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/leaks.h"

#include "event/event.h"
#include "view/report_words.h"
#include "view/tables/honesty.h"
#include "view/tables/stacks.h"
#include "view/view.h"

#define NUMBERS_COLS 68 /* of a row, without its names */
#define WIDTH_LEAST 100
#define FRAMES_SHOWN 12

const char *sure_word(unsigned sure)
{
	return sure == SURE_HIGH ? "high" : sure == SURE_MEDIUM ? "medium" : "low";
}

static const char *name_of(const struct report_leak *l)
{
	return l->op[0] ? l->op : l->region[0] ? l->region : "(no operator open)";
}

static const char *cat_of(const struct report_leak *l)
{
	return category_name((enum category)(l->cat < CAT_MAX ? l->cat : CAT_UNKNOWN));
}

static const char *unit_of(const struct report_leak *l)
{
	return l->per_step ? "a step" : "a second";
}

static char *fmt_slope(char *buf, const struct report_leak *l)
{
	return fmt_bytes(buf, l->bytes_slope < 9e18 ? (uint64_t)(l->bytes_slope + 0.5) : INT64_MAX);
}

char *leak_words(char *buf, const struct report_leak *l, unsigned cols)
{
	char safe[TEXT_BYTES_MAX], bytes[24];

	text_fit(safe, sizeof(safe), name_of(l), cols);
	snprintf(buf, TEXT_BYTES_MAX, "%.900s +%s %s", safe, fmt_slope(bytes, l), unit_of(l));
	return buf;
}

void leaks_line(struct page *p, const struct report *r)
{
	char words[TEXT_BYTES_MAX], text[TEXT_BYTES_MAX + 100], more[64] = "";
	const struct report_leak *l = r->leaks.rows;

	if (!r->leaks.cnt)
		return;
	if (r->leaks.total > 1)
		snprintf(more, sizeof(more), ", and %zu more", r->leaks.total - 1);
	page__end_line(p);
	page__style(p, STYLE_BOLD);
	page__put(p, "growing: ");
	page__style(p, STYLE_PLAIN);
	leak_words(words, l, 40);
	snprintf(text, sizeof(text), "%s, sure: %s%s (--leaks)", words, sure_word(l->sure), more);
	page__flow(p, sizeof("growing: ") - 1, text);
}

/* --- the view of its own ------------------------------------------------------------------------------------ */

static void put_row(struct page *p, const struct report *r, const struct report_leak *l, int name_cols)
{
	char a[24], dev[16];

	page__put(p, "  ");
	page__cell(p, name_of(l), name_cols);
	page__cell(p, fmt_slope(a, l), -11);
	page__put(p, l->per_step ? " a step" : " a s   ");
	page__cell(p, fmt_bytes(a, l->live), -10);
	page__cell(p, fmt_count(a, (double)l->blocks), -8);
	page__cell(p, fmt_ns(a, r->end_ts_ns - l->first_ts_ns), -10);
	page__cell(p, fmt_ns(a, r->end_ts_ns - l->last_ts_ns), -10);
	page__put(p, "  ");
	page__cell(p, sure_word(l->sure), 7);
	page__put(p, dev_name(l->dev, dev));
	page__end_line(p);
	page__put(p, "    ");
	if (l->region[0] && l->op[0]) {
		char safe[TEXT_BYTES_MAX];

		text_fit(safe, sizeof(safe), l->region, (unsigned)name_cols);
		page__printf(p, "in %s, ", safe);
	}
	page__printf(p, "%s, process %u, %.3g blocks %s", cat_of(l), l->pid, l->blocks_slope, unit_of(l));
	page__end_line(p);
	stack_text(p, l->frames, l->frames_cnt, FRAMES_SHOWN);
}

static void put_rows(struct page *p, const struct report *r)
{
	int name_cols = (int)p->width - NUMBERS_COLS;

	page__heading(p, "Growing: blocks that live across steps, and more of them all the time");
	page__put(p, "  ");
	page__cell(p, "operator", name_cols);
	page__put(p, "     grows by           live  blocks    oldest  youngest  sure   device");
	page__end_line(p);
	for (size_t i = 0; i < r->leaks.cnt; i++)
		put_row(p, r, &r->leaks.rows[i], name_cols);
	if (r->leaks.total > r->leaks.cnt) {
		page__printf(p, "  … and %zu more (--top)", r->leaks.total - r->leaks.cnt);
		page__end_line(p);
	}
}

int leaks_are_blind(const struct report *r)
{
	return !report_has_source(r, "framework") && !report_has_source(r, "host") && !report_has_source(r, "usdt") &&
	       !report_has_source(r, "segments");
}

static void put_verdict(struct page *p, const struct report *r)
{
	const struct report_leaks *k = &r->leaks;
	char a[24];

	page__end_line(p);
	if (k->cnt)
		page__printf(p, "%zu suspect%s in %s %s.", k->total, k->total == 1 ? "" : "s", fmt_count(a, (double)k->ticks),
			     k->per_step ? "steps" : "half seconds (no step was seen)");
	else if (leaks_are_blind(r))
		page__put(p, "Nothing to say: no source of allocations was watched (framework, host or usdt: --probes).");
	else if (!r->devs_cnt)
		page__put(p, "Nothing to say: no allocation was seen.");
	else if (k->too_short)
		page__printf(p, "Too short to say: %s %s, and %u are the least.", fmt_count(a, (double)k->ticks),
			     k->per_step ? "steps" : "half seconds without a step", k->ticks_least);
	else
		page__printf(p, "Nothing grows: in %s %s no operator's blocks kept growing in number.",
			     fmt_count(a, (double)k->ticks),
			     k->per_step ? "steps" : "half seconds (no step was seen)");
	page__end_line(p);
	if (k->not_watched) {
		page__printf(p, "Not watched: %s blocks, there was no room.", fmt_count(a, (double)k->not_watched));
		page__end_line(p);
	}
}

int view_leaks_text(FILE *out, const struct report *r, const struct view_opts *opts)
{
	struct page p;
	int err = page__init(&p, out, opts->width < WIDTH_LEAST ? WIDTH_LEAST : opts->width, opts->color);

	if (err)
		return err;
	if (r->leaks.cnt)
		put_rows(&p, r);
	put_verdict(&p, r);
	view_honesty(&p, r);
	return page__done(&p);
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

static uint64_t epoch(const struct report *r, uint64_t ts_ns)
{
	return ts_ns ? (uint64_t)((int64_t)ts_ns + r->epoch_off_ns) : 0;
}

static void put_leak(struct json *j, const struct report *r, const struct report_leak *l)
{
	char dev[16];

	json__begin_flat(j, NULL, '{');
	json__str_or_null(j, "op", l->op);
	json__str_or_null(j, "region", l->region);
	json__str(j, "dev", dev_name(l->dev, dev));
	json__str(j, "cat", cat_of(l));
	json__u64(j, "pid", l->pid);
	json__str(j, "per", l->per_step ? "step" : "second");
	json__average(j, "bytes_slope", l->bytes_slope);
	json__average(j, "blocks_slope", l->blocks_slope);
	json__str(j, "sure", sure_word(l->sure));
	json__f64(j, "tau", l->tau);
	json__u64(j, "live", l->live);
	json__u64(j, "blocks", l->blocks);
	json__u64(j, "grown", l->grown);
	json__u64(j, "grown_blocks", l->grown_blocks);
	json__u64(j, "oldest_age_ns", r->end_ts_ns - l->first_ts_ns);
	json__u64(j, "first_ns", epoch(r, l->first_ts_ns));
	json__u64(j, "last_ns", epoch(r, l->last_ts_ns));
	json__begin(j, "history", '[');
	for (size_t i = 0; i < l->history_cnt; i++)
		json__u64(j, NULL, l->history[i]);
	json__end(j, ']');
	if (l->frames_cnt)
		stack_json(j, "stack", l->frames, l->frames_cnt);
	json__end(j, '}');
}

void leaks_json(struct json *j, const struct report *r)
{
	json__begin(j, "leaks", '[');
	for (size_t i = 0; i < r->leaks.cnt; i++)
		put_leak(j, r, &r->leaks.rows[i]);
	json__end(j, ']');
	json__begin_flat(j, "leaks_watched", '{');
	json__u64(j, "total", r->leaks.total);
	json__bool(j, "too_short", r->leaks.too_short);
	json__u64(j, "ticks", r->leaks.ticks);
	json__str(j, "tick", r->leaks.per_step ? "step" : "half second");
	json__u64(j, "not_watched", r->leaks.not_watched);
	json__bool(j, "blind", leaks_are_blind(r));
	json__end(j, '}');
}
