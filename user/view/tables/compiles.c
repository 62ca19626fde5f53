/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/compiles.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"

#define ROW_TEXT_BYTES (3 * TEXT_BYTES_MAX)
#define NAME_COLS 80
#define REASON_COLS 220

/* --- the table of recompiles ----------------------------------------------------------------------------------- */

static void when(struct cell *c, const void *row)
{
	const struct report_recompile *k = row;

	if (k->before)
		c->text = "before";
	else if (k->step)
		cell__say(c, "step %llu", (unsigned long long)k->step);
	else
		c->text = "";
	c->num = k->ts_ns;
}

static void why(struct cell *c, const void *row)
{
	const struct report_recompile *k = row;

	char text[RECOMPILE_REASON_BYTES];

	cell__say(c, "%s", k->failed[0] ? k->failed : recompile_reason(text, k->reason, REASON_COLS));
}

static const struct column cols[] = {
	{ "t", NULL, COL_TIME, OF(report_recompile, ts_ns) },
	{ NULL, "when", COL_TEXT, VIA(when), TUI(1, 10) },
	{ "ns", "time", COL_NS, OF(report_recompile, ns), TUI(2, 9) },
	{ "pid", NULL, COL_NUMBER, OF(report_recompile, pid) },
	{ "step", NULL, COL_NUMBER, OF(report_recompile, step) },
	{ "compile_id", "frame/time", COL_TEXT, OF(report_recompile, id), TUI(5, 10, 150) },
	{ "function", "function", COL_TEXT, OF(report_recompile, function), TUI(6, 16, .wide = 1) },
	{ "reason", NULL, COL_TEXT, OF(report_recompile, reason) },
	{ "failed", NULL, COL_TEXT, OF(report_recompile, failed) },
	{ "live", "live then", COL_BYTES, OF(report_recompile, live), OR_NULL_IF_NOT(report_recompile, knows_bytes),
	  TUI(4, 9, 150) },
	{ "added", "added", COL_BYTES, OF(report_recompile, added), OR_NULL_IF_NOT(report_recompile, knows_bytes), TUI(3, 9) },
	{ "before", NULL, COL_BOOL, OF(report_recompile, before) },
	{ NULL, "because", COL_TEXT, VIA(why), TUI(7, 20, .wide = 3) },
};

const struct table recompile_table = TABLE(cols);

/* --- JSON ----------------------------------------------------------------------------------------------------- */

static void put_why(struct json *j, const struct report_recompile_why *w)
{
	json__begin_flat(j, NULL, '{');
	json__str(j, "function", w->last->function);
	json__str(j, "reason", w->last->reason);
	json__bool(j, "reason_varies", w->varies);
	json__u64(j, "count", w->cnt);
	json__u64(j, "ns", w->ns);
	json__u64(j, "added", w->added);
	json__end(j, '}');
}

void compiles_json(struct json *j, const struct report *r)
{
	const struct report_compiles *c = &r->compiles;
	struct drawn d = drawn_as(AS_JSON, r);

	if (!c->cnt && !c->missed)
		return;
	json__begin(j, "compiles", '{');
	json__u64(j, "count", c->cnt);
	json__u64(j, "ns", c->ns);
	json__u64(j, "recompiles", c->again);
	json__u64(j, "recompile_ns", c->again_ns);
	json__u64(j, "recompiles_before", c->again_before);
	json__u64(j, "added_most", c->added);
	json__u64(j, "missed", c->missed);
	json__begin(j, "reasons", '[');
	for (size_t i = 0; i < c->whys_cnt; i++)
		put_why(j, &c->whys[i]);
	json__end(j, ']');
	table__list(j, "rows", &recompile_table, &d, c->rows, c->rows_cnt, sizeof(c->rows[0]));
	json__end(j, '}');
}

/* --- text ----------------------------------------------------------------------------------------------------- */

/* Appends; cut where it is full. */
static void say(char text[ROW_TEXT_BYTES], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(char text[ROW_TEXT_BYTES], const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + len, ROW_TEXT_BYTES - len, fmt, args);
	va_end(args);
}

static const char *fit(char buf[TEXT_BYTES_MAX], const char *text, const char *none, unsigned room)
{
	text_fit(buf, TEXT_BYTES_MAX, text[0] ? text : none, room);
	return buf;
}

static const char *ordinal(unsigned long n)
{
	static const char *const ends[] = { "th", "st", "nd", "rd" };

	return n % 100 / 10 == 1 || n % 10 > 3 ? ends[0] : ends[n % 10];
}

/* "0/1": the frame, and how many times it was compiled with this one. */
static void say_times(char text[ROW_TEXT_BYTES], const char *id)
{
	const char *slash = strrchr(id, '/');
	char frame[TEXT_BYTES_MAX];
	unsigned long times = slash ? strtoul(slash + 1, NULL, 10) + 1 : 0;

	text_fit(frame, sizeof(frame), id, 30);
	if (slash && strrchr(frame, '/'))
		*strrchr(frame, '/') = '\0';
	if (times > 1 && times < 100000)
		say(text, ", frame %s the %lu%s time", frame, times, ordinal(times));
}

/* C++ compilers are processes, too, but hold nothing. */
static bool are_of_several(const struct report *r)
{
	unsigned cnt = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		cnt += r->procs[i].peak || r->procs[i].host_peak;
	return cnt > 1;
}

static void say_row(char text[ROW_TEXT_BYTES], const struct report *r, const struct report_recompile *k)
{
	char a[24], name[TEXT_BYTES_MAX], why[RECOMPILE_REASON_BYTES];

	text[0] = '\0';
	if (k->before)
		say(text, "before the trace: ");
	else if (k->step)
		say(text, "step %" PRIu64 ": ", k->step);
	else
		say(text, "after %s: ", fmt_ns(a, k->ts_ns > r->run.start_ts_ns ? k->ts_ns - r->run.start_ts_ns : 0));
	say(text, k->failed[0] ? "could not compile %s again" : "recompiled %s",
	    fit(name, k->function, "a function", NAME_COLS));
	if (are_of_several(r))
		say(text, " in process %u", k->pid);
	say_times(text, k->id);
	if (k->knows_bytes && k->added)
		say(text, ", +%s for", fmt_bytes(a, k->added));
	say(text, "%s %s", k->knows_bytes && k->added ? "" : ", in", fmt_ns(a, k->ns));
	if (k->reason[0])
		say(text, ", because %s", recompile_reason(why, k->reason, REASON_COLS));
	if (k->failed[0])
		say(text, ": %s", fit(name, k->failed, "", REASON_COLS));
}

static void put_sums(struct page *p, const struct report_compiles *c)
{
	char text[ROW_TEXT_BYTES] = "", a[24], b[24], d[24], e[24];

	if (c->again)
		say(text, "%s of %s compilations, %s of %s", fmt_count(a, (double)c->again),
		    fmt_count(b, (double)(c->cnt - c->cnt_before)), fmt_ns(d, c->again_ns), fmt_ns(e, c->ns));
	if (c->again && c->added)
		say(text, ", at most %s more meanwhile", fmt_bytes(a, c->added));
	if (c->again_before)
		say(text, "%s%s before the trace", text[0] ? "; " : "", fmt_count(a, (double)c->again_before));
	if (c->missed)
		say(text, "%s%s compilations were over before they could be read", text[0] ? "; " : "",
		    fmt_count(a, (double)c->missed));
	page__item(p, 2, text);
}

static void put_whys(struct page *p, const struct report_compiles *c, size_t rows)
{
	char text[ROW_TEXT_BYTES], a[24], name[TEXT_BYTES_MAX], why[RECOMPILE_REASON_BYTES];

	for (size_t i = 0; i < c->whys_cnt && i < rows; i++) {
		const struct report_recompile_why *w = &c->whys[i];

		text[0] = '\0';
		say(text, "%s time%s, %s", fmt_count(a, (double)w->cnt), w->cnt == 1 ? "" : "s",
		    fit(name, w->last->function, "a function", NAME_COLS));
		if (w->ns)
			say(text, ", %s in all", fmt_ns(a, w->ns));
		if (w->last->reason[0])
			say(text, ": %s%s", recompile_reason(why, w->last->reason, REASON_COLS),
			    w->varies ? ", and other numbers the times before" : "");
		page__item(p, 4, text);
	}
	page__more(p, rows, c->whys_cnt, "reasons (--json)");
}

void compiles_text(struct page *p, const struct report *r, size_t rows, int is_verbose)
{
	const struct report_compiles *c = &r->compiles;
	size_t first = c->rows_cnt > rows ? c->rows_cnt - rows : 0;
	char text[ROW_TEXT_BYTES];

	if (!c->again && !c->again_before && !c->missed)
		return;
	page__heading(p, "Recompiles (torch.compile)");
	put_sums(p, c);
	put_whys(p, c, rows);
	if (!is_verbose && c->rows_cnt)
		first = c->rows_cnt - 1;
	for (size_t i = first; i < c->rows_cnt; i++) {
		say_row(text, r, &c->rows[i]);
		page__item(p, 4, text);
	}
}
