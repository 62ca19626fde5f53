/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/leaks.h"

#include "view/report_words.h"
#include "view/table.h"
#include "view/tables/coverage.h"
#include "view/tables/stacks.h"
#include "verdict/held.h"
#include "view/view.h"

#define NUMBERS_COLS 68 /* of a row, without its names */
#define FRAMES_SHOWN 12

static const char *sure_word(unsigned sure)
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

const char *leak_verb(const struct report_leak *l)
{
	return l->is_over ? "grew" : "growing";
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
	page__printf(p, "%s: ", leak_verb(l));
	page__style(p, STYLE_PLAIN);
	leak_words(words, l, 40);
	snprintf(text, sizeof(text), "%s, sure: %s%s (--leaks)", words, sure_word(l->sure), more);
	page__flow(p, (unsigned)strlen(leak_verb(l)) + 2, text);
}

/* --- the view of its own ------------------------------------------------------------------------------------ */

static void name(struct cell *c, const void *row)
{
	c->text = name_of(row);
}

static void slope(struct cell *c, const void *row)
{
	const struct report_leak *l = row;
	char bytes[24];

	c->num = l->bytes_slope > 0 && l->bytes_slope < 9e18 ? (uint64_t)l->bytes_slope : 0;
	cell__say(c, "%s %s", fmt_slope(bytes, l), l->per_step ? "a step" : "a s   ");
}

static void per(struct cell *c, const void *row)
{
	c->text = ((const struct report_leak *)row)->per_step ? "step" : "second";
}

static void oldest(struct cell *c, const void *row)
{
	c->num = c->d->r->run.end_ts_ns - ((const struct report_leak *)row)->first_ts_ns;
}

static void youngest(struct cell *c, const void *row)
{
	c->num = c->d->r->run.end_ts_ns - ((const struct report_leak *)row)->last_ts_ns;
}

static void holder(struct cell *c, const void *row)
{
	held_text(c->buf, sizeof(c->buf), row);
	c->text = c->buf;
}

static void maker(struct cell *c, const void *row)
{
	const struct report_leak *l = row;

	stack_words(c, l->frames, l->frames_cnt);
}

static void put_history(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_leak *l = row;

	(void)d;
	json__begin(j, key, '[');
	for (size_t i = 0; i < l->history_cnt; i++)
		json__u64(j, NULL, l->history[i]);
	json__end(j, ']');
}

static void put_stack(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_leak *l = row;

	(void)d;
	if (l->frames_cnt)
		stack_json(j, key, l->frames, l->frames_cnt);
}

static void put_caught(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_leak *l = row;

	(void)d;
	if (!l->caught)
		return;
	json__begin_flat(j, key, '{');
	json__u64(j, "live", l->caught);
	json__u64(j, "here", l->caught_here);
	json__end(j, '}');
}

static const char *const held_words[] = { [HELD_ITSELF] = "itself", [HELD_GRAPH] = "graph", [HELD_NONE] = "none",
					  [HELD_UNSEEN] = "unseen" };

static void put_holder(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_leak *l = row;

	(void)d;
	if (!l->held)
		return;
	json__begin_flat(j, key, '{');
	json__str(j, "how", held_words[l->held]);
	if (l->held_by) {
		json__str(j, "path", l->held_by);
		json__str(j, "kind", l->held_kind);
		json__str(j, "where", l->held_where);
		json__u64(j, "items", l->held_items);
	}
	json__end(j, '}');
}

static void put_over(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)d;
	if (((const struct report_leak *)row)->is_over)
		json__bool(j, key, 1);
}

static const struct column columns[] = {
	{ NULL, "operator", COL_TEXT, VIA(name), TEXT(1, 16, .wide = 1), TUI(1, 16, .wide = 2) },
	{ "op", NULL, COL_OR_NULL, OF(report_leak, op) },
	{ "region", NULL, COL_OR_NULL, OF(report_leak, region) },
	{ "dev", "device", COL_DEV, OF(report_leak, dev), TEXT(8, 7) },
	{ "cat", NULL, COL_CAT, OF(report_leak, cat) },
	{ "pid", NULL, COL_NUMBER, OF(report_leak, pid) },
	{ "process_ended", NULL, .json = put_over },
	{ "per", NULL, COL_TEXT, VIA(per) },
	{ NULL, "grows by     ", COL_NUMBER, VIA(slope), TEXT(2, 18), TUI(2, 17, .head = "grows by") },
	{ "bytes_slope", NULL, COL_AVERAGE, OF(report_leak, bytes_slope) },
	{ "blocks_slope", NULL, COL_AVERAGE, OF(report_leak, blocks_slope) },
	{ "sure", "sure", COL_TEXT, OF(report_leak, sure), NAMED(sure_word), TEXT(7, 7, .gap = 2), TUI(6, 6) },
	{ "tau", NULL, COL_REAL, OF(report_leak, tau) },
	{ "live", "live", COL_BYTES, OF(report_leak, live), TEXT(3, 10), TUI(3, 9) },
	{ "blocks", "blocks", COL_COUNT, OF(report_leak, blocks), TEXT(4, 8), TUI(4, 7) },
	{ "grown", NULL, COL_BYTES, OF(report_leak, grown) },
	{ "grown_blocks", NULL, COL_COUNT, OF(report_leak, grown_blocks) },
	{ "oldest_age_ns", "oldest", COL_NS, VIA(oldest), TEXT(5, 10, 92), TUI(5, 9, 100) },
	{ NULL, "youngest", COL_NS, VIA(youngest), TEXT(6, 10, 92) },
	{ "first_ns", NULL, COL_TIME, OF(report_leak, first_ts_ns) },
	{ "last_ns", NULL, COL_TIME, OF(report_leak, last_ts_ns) },
	{ "windows", NULL, COL_COUNT, OF(report_leak, windows), IF(report_leak, windows) },
	{ "stayed", NULL, COL_COUNT, OF(report_leak, stayed), IF(report_leak, windows) },
	{ "history", NULL, .json = put_history },
	{ NULL, "held by", COL_TEXT, VIA(holder), TUI(7, 20, 90, 3) },
	{ NULL, "made at", COL_TEXT, VIA(maker), .is_begin = 1, TUI(8, 14, 106, 1) },
	{ "stack", NULL, .json = put_stack },
	{ "holder", NULL, .json = put_holder },
	{ "caught", NULL, .json = put_caught },
};

const struct table leak_table = TABLE(columns, .spare = -6);

static void put_indented(struct page *p, const char *text)
{
	page__put(p, "    ");
	page__flow(p, 4, text);
}

static void put_held(struct page *p, const struct report_leak *l)
{
	char words[TEXT_BYTES_MAX];

	if (!l->held)
		return;
	held_text(words, sizeof(words), l);
	put_indented(p, words);
	page__end_line(p);
}

/* The certainty of the frames below. */
static void put_caught_words(struct page *p, const struct report_leak *l)
{
	char a[24], b[24];

	if (l->caught && l->caught_here == l->caught)
		page__line(p, "    made here, as all %s blocks say that were caught and live:", fmt_count(a,
			   (double)l->caught));
	else if (l->caught)
		page__line(p, "    made here, as %s of %s blocks say that were caught and live:",
			   fmt_count(a, (double)l->caught_here), fmt_count(b, (double)l->caught));
}

/* Its basis if only some steps are traced. */
static void put_stayed(struct page *p, const struct report_leak *l)
{
	char a[24], b[24], text[160];

	if (!l->windows)
		return;
	snprintf(text, sizeof(text),
		 "counted in traced steps, in %s windows%s%s%s", fmt_count(a, (double)l->windows),
		 l->stayed ? "; blocks of it were found again " : "", l->stayed ? fmt_count(b, (double)l->stayed) : "",
		 l->stayed ? " times after a gap" : "");
	put_indented(p, text);
}

/* The place in the program, under a row. */
static void put_place(struct page *p, const struct report_leak *l)
{
	char region[TEXT_BYTES_MAX] = "", slope[24], text[TEXT_BYTES_MAX + 100];
	int has_region = l->region[0] && l->op[0];

	if (has_region)
		text_fit(region, sizeof(region), l->region, p->width - NUMBERS_COLS);
	snprintf(slope, sizeof(slope), "%.3g", l->blocks_slope);
	snprintf(text, sizeof(text), "%s%.900s%s%s, process %u, %s block%s %s", has_region ? "in " : "", region,
		 has_region ? ", " : "", cat_of(l), l->pid, slope, strcmp(slope, "1") ? "s" : "", unit_of(l));
	put_indented(p, text);
	put_stayed(p, l);
	put_held(p, l);
	put_caught_words(p, l);
	stack_text(p, l->frames, l->frames_cnt, FRAMES_SHOWN);
}

static void put_rows(struct page *p, const struct report *r)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	page__heading(p, "Growing: blocks that live across steps, and more of them all the time");
	table_lines__begin(&l, p, &leak_table, &d);
	for (size_t i = 0; i < r->leaks.cnt; i++) {
		table_lines__row(&l, &r->leaks.rows[i]);
		put_place(p, &r->leaks.rows[i]);
	}
	page__more(p, r->leaks.cnt, r->leaks.total, "(--top)");
}

static int leaks_are_blind(const struct report *r)
{
	return !report_has_source(r, "framework") && !report_has_source(r, "host") && !report_has_source(r, "usdt") &&
	       !report_has_source(r, "segments");
}

#define ANSWER_BYTES 160

/* What can be said of growth, in a sentence. */
static const char *leaks_answer(const struct report *r, char buf[ANSWER_BYTES])
{
	const struct report_leaks *k = &r->leaks;
	char a[REPORT_SPAN_BYTES];

	if (k->cnt)
		snprintf(buf, ANSWER_BYTES, "%zu suspect%s in %s.", k->total, k->total == 1 ? "" : "s",
			 report_growth_span(r, a));
	else if (leaks_are_blind(r))
		snprintf(buf, ANSWER_BYTES,
			 "Nothing to say: no source of allocations was watched (framework, host or usdt: --probes).");
	else if (!r->devs_cnt)
		snprintf(buf, ANSWER_BYTES, "Nothing to say: no allocation was seen.");
	else if (k->too_short)
		snprintf(buf, ANSWER_BYTES, "Too short to say: %s, and that takes %u.", report_growth_span(r, a),
			 k->ticks_least);
	else if (report_growth_is_hidden(r) && report_gaps_seen(r))
		snprintf(buf, ANSWER_BYTES, "Too short to say: what lives on was seen in %zu of the %u gaps between windows "
			 "that this takes.", report_gaps_seen(r), REPORT_GROWTH_GAPS);
	else if (report_growth_is_hidden(r))
		snprintf(buf, ANSWER_BYTES, "Not to be seen: what lives on between traced steps is hidden. Trace all of them "
			 "for a while: --max-overhead none -d 60.");
	else
		snprintf(buf, ANSWER_BYTES, "Nothing grows: in %s no operator's blocks kept growing in number.",
			 report_growth_span(r, a));
	return buf;
}

static void put_answer(struct page *p, const struct report *r)
{
	char a[24], text[ANSWER_BYTES];

	if (r->leaks.cnt)
		page__end_line(p);
	page__flow(p, 0, leaks_answer(r, text));
	if (r->leaks.not_watched)
		page__line(p, "Not watched: %s blocks, there was no room.", fmt_count(a, (double)r->leaks.not_watched));
}

int view_leaks_text(FILE *out, const struct report *r, const struct view_opts *opts)
{
	struct page p;
	int err = page__open(&p, out, opts, PAGE_WIDTH);

	if (err)
		return err;
	if (r->leaks.cnt)
		put_rows(&p, r);
	put_answer(&p, r);
	(opts->is_verbose || r->leaks.cnt ? view_coverage : view_coverage_short)(&p, r);
	return page__done(&p);
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

void leaks_json(struct json *j, const struct report *r)
{
	struct drawn d = drawn_as(AS_JSON, r);
	char text[ANSWER_BYTES];

	table__list(j, "leaks", &leak_table, &d, r->leaks.rows, r->leaks.cnt, sizeof(*r->leaks.rows));
	json__begin_flat(j, "leaks_watched", '{');
	json__u64(j, "total", r->leaks.total);
	json__bool(j, "too_short", r->leaks.too_short);
	json__u64(j, "ticks", r->leaks.ticks);
	json__str(j, "tick", r->leaks.per_step ? "step" : "half second");
	json__u64(j, "not_watched", r->leaks.not_watched);
	json__bool(j, "blind", leaks_are_blind(r));
	json__str(j, "answer", leaks_answer(r, text));
	json__end(j, '}');
}
