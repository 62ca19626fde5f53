/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/diff.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/json.h"
#include "view/page.h"
#include "view/tables/stacks.h"
#include "view/tables/verdict.h"

#define WIDTH 112 /* where there is no terminal */
#define NAME_COLS 16 /* or more */
#define CELL 10
#define NOTES_MAX 8
#define FRAMES_SHOWN 12

static const char *const by_words[] = { [DIFF_BY_OP] = "operator", [DIFF_BY_CATEGORY] = "category", [DIFF_BY_DEVICE] = "device",
					[DIFF_BY_REGION] = "region", [DIFF_BY_SYMBOL] = "symbol", [DIFF_BY_STACK] = "stack",
					[DIFF_BY_MODULE] = "module", [DIFF_BY_NAME] = "name", [DIFF_BY_RANK] = "rank" };
static const char *const by_keys[] = { [DIFF_BY_OP] = "op", [DIFF_BY_CATEGORY] = "category", [DIFF_BY_DEVICE] = "device",
				       [DIFF_BY_REGION] = "region", [DIFF_BY_SYMBOL] = "symbol", [DIFF_BY_STACK] = "stack",
				       [DIFF_BY_MODULE] = "module", [DIFF_BY_NAME] = "name", [DIFF_BY_RANK] = "rank" };
static const char *const value_keys[DIFF_VALUES] = {
	[DIFF_PEAK] = "at_peak", [DIFF_END] = "live", [DIFF_MEAN] = "mean", [DIFF_ALLOCS] = "allocs",
	[DIFF_BYTES] = "alloc_bytes", [DIFF_FIRED] = "count",
};

/* A stack is named by its innermost Python function, else by its innermost one. */
static const char *row_name(const struct diff_row *r)
{
	const struct report_stack *s = r->stack;

	for (size_t i = 0; s && i < s->frames_cnt; i++)
		if (s->frames[i].kind == EV_FRAME_PYTHON)
			return s->frames[i].function;
	return s ? s->frames[0].function : r->name;
}

/* --- differences between the recordings ----------------------------------------------------------------------- */

struct notes {
	char text[NOTES_MAX][320];
	size_t cnt;
};

static char *notes__next(struct notes *n)
{
	return n->text[n->cnt < NOTES_MAX ? n->cnt++ : NOTES_MAX - 1];
}

static int has_cover(const struct report *r, const char *source)
{
	for (size_t i = 0; i < r->probes.covers_cnt; i++)
		if (r->probes.covers[i].attached && !strcmp(r->probes.covers[i].source, source))
			return 1;
	return 0;
}

static void note_sources(struct notes *n, const struct report *with, const struct report *without, const char *names)
{
	char list[200] = "", safe[TEXT_BYTES_MAX];
	size_t len = 0;

	for (size_t i = 0; i < with->probes.covers_cnt; i++) {
		text_fit(safe, sizeof(safe), with->probes.covers[i].source, 24);
		if (!with->probes.covers[i].attached || has_cover(without, with->probes.covers[i].source) || strstr(list, safe))
			continue;
		len += strlen(list + len);
		snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", safe);
	}
	if (list[0])
		snprintf(notes__next(n), sizeof(n->text[0]), "Other sources: %c has %s, %c has not; rows that rest on it do "
				"not compare.",
			 names[0], list, names[1]);
}

static void note_side(struct notes *n, const struct diff_side *s, char name)
{
	uint64_t lost = report_lost_events(s->end);
	size_t jobs = verdict_jobs(s->end);
	char a[24];

	if (jobs > 1)
		snprintf(notes__next(n), sizeof(n->text[0]), "%c is %zu jobs together: --pid or --rank compares one of them.",
			 name, jobs);
	if (lost)
		snprintf(notes__next(n), sizeof(n->text[0]), "%c lost %s events: what is not freed in it may be just "
				"that.", name,
			 fmt_count(a, (double)lost));
	if (s->is_sampled)
		snprintf(notes__next(n), sizeof(n->text[0]), "Of %" PRIu64 " steps of %c %" PRIu64 " were traced: its peaks "
				"and means are of these. What is allocated a step, and what is left at the end, is not "
				"compared.",
			 s->end->sampling.steps_seen, name, s->end->sampling.steps_traced);
	if (s->steps && s->steps < 5)
		snprintf(notes__next(n), sizeof(n->text[0]), "%c has %u whole steps only.", name, (unsigned)s->steps);
	if (!s->steps)
		snprintf(notes__next(n), sizeof(n->text[0]), "%c has no whole step: what is allocated is that of a second, "
				"in both.", name);
}

/* They are the table's last rows, which may not be shown. */
static void note_before(struct notes *n, const struct diff_view *v)
{
	char x[24], y[24], name[TEXT_BYTES_MAX], some[120] = "";
	size_t rows = 0, len = 0;

	for (size_t i = 0; i < v->diff->cnt; i++) {
		const struct diff_row *r = &v->diff->rows[i];

		if (!r->is_before || rows++ >= 2)
			continue;
		text_fit(name, sizeof(name), row_name(r), 32);
		len += (size_t)snprintf(some + len, sizeof(some) - len, "%s%.50s", len ? ", " : "", name);
	}
	if (rows)
		snprintf(notes__next(n), sizeof(n->text[0]), "Allocated before the attach, so of no known %s: %s of A's peak, "
				"%s of B's. It is no growth that rows differ by that alone: %s%s, behind all others.",
			 by_words[v->by], fmt_bytes(x, (uint64_t)v->diff->before_a),
			 fmt_bytes(y, (uint64_t)v->diff->before_b), some, rows > 2 ? " \xe2\x80\xa6" : "");
}

static void notes__fill(struct notes *n, const struct diff_view *v)
{
	const struct diff_side *s = v->sides;

	note_before(n, v);
	note_sources(n, s[0].end, s[1].end, "AB");
	note_sources(n, s[1].end, s[0].end, "BA");
	note_side(n, &s[0], 'A');
	note_side(n, &s[1], 'B');
}

/* --- text ------------------------------------------------------------------------------------------------------ */

static const char *value_words(char text[32], double v, int is_bytes, int is_change)
{
	double abs = fabs(v);
	char num[24];

	if (isnan(v))
		return "-";
	if (is_bytes)
		fmt_bytes(num, abs < 1.8e19 ? (uint64_t)(abs + 0.5) : UINT64_MAX);
	else
		fmt_count(num, abs);
	snprintf(text, 32, "%s%s", !is_change || !strcmp(num, "0 B") || !strcmp(num, "0") ? "" : v < 0 ? "-" : "+", num);
	return text;
}

static void put_value(struct page *p, double v, int is_bytes, int is_change)
{
	char text[32];

	page__cell(p, value_words(text, v, is_bytes, is_change), -CELL);
}

struct diff_column {
	enum diff_value value;
	const char *head;
	int is_bytes;
};

static size_t columns_of(enum diff_by by, int per_step, struct diff_column *ret)
{
	const char *allocated = per_step ? "allocated a step" : "allocated a second";
	const char *end = per_step ? "after a step" : "at the end";
	size_t n = 0;

	if (by == DIFF_BY_SYMBOL) {
		ret[n++] = (struct diff_column){ DIFF_FIRED, per_step ? "times a step" : "times a second", 0 };
		return n;
	}
	if (by != DIFF_BY_MODULE && by != DIFF_BY_NAME && by != DIFF_BY_RANK)
		ret[n++] = (struct diff_column){ DIFF_MEAN, "live, on average", 1 };
	ret[n++] = (struct diff_column){ DIFF_PEAK, "at the peak", 1 };
	if (by == DIFF_BY_MODULE || by == DIFF_BY_NAME || by == DIFF_BY_RANK)
		ret[n++] = (struct diff_column){ DIFF_END, by == DIFF_BY_MODULE ? end : "at the end", 1 };
	if (by == DIFF_BY_NAME || by == DIFF_BY_RANK)
		return n;
	ret[n++] = by == DIFF_BY_CATEGORY ? (struct diff_column){ DIFF_END, end, 1 } :
					    (struct diff_column){ DIFF_BYTES, allocated, 1 };
	return n;
}

/* --- the conclusion -------------------------------------------------------------------------------------------- */

#define SAID_BYTES 400
#define DIFF_SAID_PART 10 /* of the change: a row with less of it explains nothing */

static int is_in(const struct diff_row *r, const struct diff_row *module)
{
	size_t len = module ? strlen(module->name) : 0;

	return !module || (!strncmp(r->name, module->name, len) && r->name[len] == '.');
}

/*
 * The row with most of a change, of those in a module (NULL: of all); sign is its direction. NULL: none changed so, or two
 * that are not in each other did so equally.
 */
static const struct diff_row *row_changed(const struct diff_view *v, const struct diff_row *in, enum diff_value value, int sign)
{
	const struct diff_row *best = NULL;
	int has_equal = 0;
	double most = 0;

	for (size_t i = 0; i < v->diff->cnt; i++) {
		const struct diff_row *r = &v->diff->rows[i];
		double change = diff_row__change(r, value) * sign;

		if (isnan(change) || change <= 0 || change < most || !is_in(r, in))
			continue;
		if (r->is_before || (v->by == DIFF_BY_MODULE && r->name[0] == '('))
			continue;
		if (change > most) {
			best = r;
			most = change;
			has_equal = 0;
		} else if (v->by != DIFF_BY_MODULE || !is_in(r, best)) {
			has_equal = 1;
		}
	}
	return has_equal ? NULL : best;
}

/* A module's change includes those in it: the innermost one with half of the outermost one's change is named. */
static const struct diff_row *row_to_say(const struct diff_view *v, enum diff_value value, int sign)
{
	const struct diff_row *top = row_changed(v, NULL, value, sign), *row = top, *in = top;

	while (v->by == DIFF_BY_MODULE && in) {
		in = row_changed(v, row, value, sign);
		if (in && diff_row__change(in, value) * sign < diff_row__change(top, value) * sign / 2)
			in = NULL;
		row = in ? in : row;
	}
	return row;
}

/* 1: both have seen something; no text. */
static int say_empty(char *text, const struct diff_side *s)
{
	int a = diff_side__is_empty(&s[0]), b = diff_side__is_empty(&s[1]);

	if (a || b)
		snprintf(text, SAID_BYTES, "No memory was seen in %s: there is nothing to compare",
			 !b ? "A" : !a ? "B" : "A and B");
	return !a && !b;
}

/* "The peak rose from 28.0 MiB to 31.2 MiB on cpu: 3.20 MiB more (+11.4 %), most in module Model.head, by +3.00 MiB" */
static void say_all(char text[SAID_BYTES], const struct diff_view *v)
{
	uint64_t to = 0;
	const struct report_dev *d = diff_peak_changed(v->sides[0].end, v->sides[1].end, &to);
	char x[24], y[24], z[32], dev[16], name[TEXT_BYTES_MAX];
	const struct diff_row *row;
	uint64_t change;
	size_t n;

	text[0] = '\0';
	if (!say_empty(text, v->sides) || !d)
		return;
	change = to > d->peak ? to - d->peak : d->peak - to;
	if (change < d->peak / DIFF_SAME_PART) {
		snprintf(text, SAID_BYTES, "The peak is the same within 1 %%: %s and %s on %s", fmt_bytes(x, d->peak),
			 fmt_bytes(y, to), dev_name(d->dev, dev));
		return;
	}
	n = (size_t)snprintf(text, SAID_BYTES, "The peak %s from %s to %s on %s: %s %s (%+.1f %%)",
			     to > d->peak ? "rose" : "fell", fmt_bytes(x, d->peak), fmt_bytes(y, to),
			     dev_name(d->dev, dev), fmt_bytes(z, change), to > d->peak ? "more" : "less",
			     ((double)to / (double)d->peak - 1) * 100);
	row = v->by == DIFF_BY_DEVICE || v->by == DIFF_BY_SYMBOL ? NULL : row_to_say(v, DIFF_PEAK, to > d->peak ? 1 : -1);
	if (!row || n >= SAID_BYTES || fabs(diff_row__change(row, DIFF_PEAK)) < (double)change / DIFF_SAID_PART)
		return;
	text_fit(name, sizeof(name), row_name(row), 60);
	snprintf(text + n, SAID_BYTES - n, ", most in %s%s%.200s, by %s", v->by == DIFF_BY_NAME ? "" : by_words[v->by],
		 v->by == DIFF_BY_NAME ? "" : " ", name,
		 value_words(z, diff_row__change(row, DIFF_PEAK), 1, 0)); /* the direction is known from the text */
}

/* --- the table ------------------------------------------------------------------------------------------------- */

/* Both have nothing in each column that is shown. */
static int is_nothing(const struct diff_row *r, const struct diff_column *cols, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (fabs(r->a[cols[k].value]) >= 0.5 || fabs(r->b[cols[k].value]) >= 0.5)
			return 0;
	return 1;
}

/* Nothing that is shown of it differs. */
static int is_same(const struct diff_row *r, const struct diff_column *cols, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		char text[32];
		const char *change = value_words(text, diff_row__change(r, cols[k].value), cols[k].is_bytes, 1);

		if (strcmp(change, "-") && strcmp(change, "0 B") && strcmp(change, "0"))
			return 0;
	}
	return 1;
}

/* The number of rows that are the same in both, and of the others. */
static size_t rows_same(const struct diff *d, const struct diff_column *cols, size_t n, size_t *ret_changed)
{
	size_t same = 0;

	*ret_changed = 0;
	for (size_t i = 0; i < d->cnt; i++) {
		int is_equal = is_same(&d->rows[i], cols, n), is_none = is_nothing(&d->rows[i], cols, n);

		same += (size_t)(is_equal && !is_none);
		*ret_changed += (size_t)(!is_equal && !is_none);
	}
	return same;
}

/* In place of a table without rows. */
static void none_words(char *buf, size_t size, const struct diff_view *v, size_t same)
{
	char a[24];

	if (same)
		snprintf(buf, size, "No difference by %s: %s row%s the same in both (--json)", by_words[v->by],
			 fmt_count(a, (double)same), same == 1 ? " is" : "s are");
	else
		snprintf(buf, size, "By %s there is nothing in either", by_words[v->by]);
}

static void put_row(struct page *p, const struct diff_view *v, const struct diff_row *r, const struct diff_column *cols,
		    size_t n, int name_cols)
{
	page__put(p, "  ");
	(v->by == DIFF_BY_MODULE || v->by == DIFF_BY_NAME ? page__path : page__cell)(p, row_name(r), name_cols);
	for (size_t k = 0; k < n; k++) {
		put_value(p, r->a[cols[k].value], cols[k].is_bytes, 0);
		put_value(p, r->b[cols[k].value], cols[k].is_bytes, 0);
		put_value(p, diff_row__change(r, cols[k].value), cols[k].is_bytes, 1);
	}
	page__end_line(p);
	if (r->stack)
		stack_text(p, r->stack->frames, r->stack->frames_cnt, FRAMES_SHOWN);
}

static void put_table_head(struct page *p, const struct diff_view *v, const struct diff_column *cols, size_t n, int name_cols)
{
	page__cell(p, "", name_cols + 2);
	for (size_t i = 0; i < n; i++)
		page__cell(p, cols[i].head, -3 * CELL);
	page__end_line(p);
	page__put(p, "  ");
	page__cell(p, by_words[v->by], name_cols);
	for (size_t i = 0; i < n; i++) {
		page__cell(p, "A", -CELL);
		page__cell(p, "B", -CELL);
		page__cell(p, "change", -CELL);
	}
	page__end_line(p);
}

static void put_table(struct page *p, const struct diff_view *v, size_t top)
{
	struct diff_column cols[3];
	size_t n = columns_of(v->by, v->diff->per_step, cols), shown = 0, same, changed;
	char text[200];
	int name_cols;

	while (n > 1 && p->width < 2 + NAME_COLS + n * 3 * CELL) /* too narrow: the last ones go */
		n--;
	name_cols = (int)(p->width - 2 - n * 3 * CELL);
	same = rows_same(v->diff, cols, n, &changed);
	page__end_line(p);
	if (!changed) {
		none_words(text, sizeof(text), v, same);
		page__flow(p, 2, text);
		return;
	}
	put_table_head(p, v, cols, n, name_cols);
	for (size_t i = 0; i < v->diff->cnt && shown < top; i++) {
		const struct diff_row *r = &v->diff->rows[i];

		if (is_nothing(r, cols, n) || is_same(r, cols, n))
			continue;
		put_row(p, v, r, cols, n, name_cols);
		shown++;
	}
	page__more(p, shown, changed, "(--top, --json)");
	if (same)
		page__line(p, "  … and %zu row%s the same in both (--json)", same, same == 1 ? " that is" : "s that are");
}

static void put_side(struct page *p, const struct diff_side *s, const char *path, char name)
{
	const struct report *r = s->end;
	char safe[TEXT_BYTES_MAX], text[2 * TEXT_BYTES_MAX], a[24], b[24];
	size_t n, jobs = verdict_jobs(r);

	text_fit(safe, sizeof(safe), path, 40);
	n = (size_t)snprintf(text, sizeof(text), "%.400s: ", safe);
	text_fit(safe, sizeof(safe), r->run.cmdline && r->run.cmdline[0] ? r->run.cmdline : r->run.comm, 40);
	if (!r->run.pid)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "all jobs of the machine");
	else if (jobs > 1)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu jobs", jobs);
	else
		n += (size_t)snprintf(text + n, sizeof(text) - n, "process %u %.400s", r->run.pid, safe);
	n += (size_t)snprintf(text + n, sizeof(text) - n, ", %s%s", fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns),
			      s->is_sampled ? "" : " traced");
	if (s->steps)
		snprintf(text + n, sizeof(text) - n, ", %s whole steps of %s compared", fmt_count(a, (double)s->steps),
			 fmt_ns(b, diff_side__traced_ns(s) / s->steps));
	page__style(p, STYLE_BOLD);
	page__printf(p, "%c", name);
	page__style(p, STYLE_PLAIN);
	page__item(p, 3, text);
}

int diff_view_text(FILE *out, const struct diff_view *v, const struct view_opts *opts)
{
	struct notes notes = { .cnt = 0 };
	char said[SAID_BYTES];
	struct page p;
	int err = page__open(&p, out, opts, WIDTH);

	if (err)
		return err;
	say_all(said, v);
	page__style(&p, STYLE_BOLD);
	page__flow(&p, 2, said);
	page__style(&p, STYLE_PLAIN);
	page__end_line(&p);
	put_side(&p, &v->sides[0], v->paths[0], 'A');
	put_side(&p, &v->sides[1], v->paths[1], 'B');
	put_table(&p, v, opts->top);
	notes__fill(&notes, v);
	if (notes.cnt)
		page__end_line(&p);
	for (size_t i = 0; i < notes.cnt; i++)
		page__flow(&p, 0, notes.text[i]);
	return page__done(&p);
}

/* --- Markdown -------------------------------------------------------------------------------------------------- */

/* A name of the target's in a table: nothing in it ends a cell or begins a tag. */
static void md_name(struct page *p, const char *name)
{
	char safe[TEXT_BYTES_MAX];

	text_fit(safe, sizeof(safe), name, 100);
	page__put(p, "`");
	for (const char *c = safe; *c; c++)
		page__printf(p, "%c", *c == '`' || *c == '|' ? '\'' : *c);
	page__put(p, "`");
}

static void md_table(struct page *p, const struct diff_view *v, size_t top)
{
	struct diff_column cols[3];
	size_t n = columns_of(v->by, v->diff->per_step, cols), shown = 0, changed, same = rows_same(v->diff, cols, n, &changed);
	char a[32], b[32], c[32], text[200];

	if (!changed) {
		none_words(text, sizeof(text), v, same);
		page__md(p, text);
		return;
	}
	page__printf(p, "| %s |", by_words[v->by]);
	for (size_t i = 0; i < n; i++)
		page__printf(p, " %s: A | B | change |", cols[i].head);
	page__put(p, "\n|---|");
	for (size_t i = 0; i < 3 * n; i++)
		page__put(p, "---:|");
	for (size_t i = 0; i < v->diff->cnt && shown < top; i++) {
		const struct diff_row *r = &v->diff->rows[i];

		if (is_nothing(r, cols, n) || is_same(r, cols, n))
			continue;
		shown++;
		page__put(p, "\n| ");
		md_name(p, row_name(r));
		page__put(p, " |");
		for (size_t k = 0; k < n; k++)
			page__printf(p, " %s | %s | %s |", value_words(a, r->a[cols[k].value], cols[k].is_bytes, 0),
				     value_words(b, r->b[cols[k].value], cols[k].is_bytes, 0),
				     value_words(c, diff_row__change(r, cols[k].value), cols[k].is_bytes, 1));
	}
}

int diff_view_md(FILE *out, const struct diff_view *v, const struct view_opts *opts)
{
	struct notes notes = { .cnt = 0 };
	char said[SAID_BYTES];
	struct page p;
	int err = page__init(&p, out, 200, 0);

	if (err)
		return err;
	say_all(said, v);
	if (said[0]) {
		page__put(&p, "**");
		page__md(&p, said);
		page__put(&p, "**\n\n");
	}
	for (unsigned i = 0; i < 2; i++) {
		page__printf(&p, "%c: ", 'A' + (int)i);
		md_name(&p, v->paths[i]);
		page__put(&p, i ? "\n\n" : "  \n");
	}
	md_table(&p, v, opts->top);
	page__put(&p, "\n");
	notes__fill(&notes, v);
	for (size_t i = 0; i < notes.cnt; i++)
		page__printf(&p, "\n%s\n", notes.text[i]);
	return page__done(&p);
}

/* --- JSON ------------------------------------------------------------------------------------------------------ */

static void json_side(struct json *j, const char *key, const struct diff_side *s, const char *path)
{
	const struct report *r = s->end;

	json__begin_flat(j, key, '{');
	json__str(j, "file", path);
	json__u64(j, "pid", r->run.pid);
	whose_json(j, r, verdict_jobs(r));
	json__str(j, "comm", r->run.comm);
	json__str(j, "cmdline", r->run.cmdline);
	json__u64(j, "duration_ns", r->run.end_ts_ns - r->run.start_ts_ns);
	json__u64(j, "steps", r->marks.steps_total);
	json__u64(j, "whole_steps", s->steps);
	json__u64(j, "compared_ns", diff_side__traced_ns(s));
	json__u64(j, "lost", report_lost_events(r));
	json__end(j, '}');
}

static void json_values(struct json *j, const char *key, const struct diff_row *r, const double *values)
{
	json__begin(j, key, '{');
	for (unsigned i = 0; i < DIFF_VALUES; i++)
		if (!isnan(r->a[i]) || !isnan(r->b[i]))
			json__average(j, value_keys[i], values ? values[i] : diff_row__change(r, (enum diff_value)i));
	json__end(j, '}');
}

int diff_view_json(FILE *out, const struct diff_view *v, const struct view_opts *opts)
{
	size_t shown = v->diff->cnt < opts->top ? v->diff->cnt : opts->top;
	struct notes notes = { .cnt = 0 };
	char said[SAID_BYTES];
	struct outbuf o;
	struct json j;
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	notes__fill(&notes, v);
	json__str(&j, "by", by_keys[v->by]);
	json__str(&j, "per", v->diff->per_step ? "step" : "second");
	say_all(said, v);
	json__str(&j, "summary", said);
	json_side(&j, "a", &v->sides[0], v->paths[0]);
	json_side(&j, "b", &v->sides[1], v->paths[1]);
	json__begin(&j, "notes", '[');
	for (size_t i = 0; i < notes.cnt; i++)
		json__str(&j, NULL, notes.text[i]);
	json__end(&j, ']');
	json__u64(&j, "total", v->diff->cnt);
	json__begin(&j, "rows", '[');
	for (size_t i = 0; i < shown; i++) {
		const struct diff_row *r = &v->diff->rows[i];

		json__begin_flat(&j, NULL, '{');
		json__str(&j, "name", row_name(r));
		if (r->stack)
			stack_json(&j, "stack", r->stack->frames, r->stack->frames_cnt);
		json_values(&j, "a", r, r->a);
		json_values(&j, "b", r, r->b);
		json_values(&j, "change", r, NULL);
		if (r->is_before)
			json__bool(&j, "before_attach", 1);
		json__end(&j, '}');
	}
	json__end(&j, ']');
	return json__end_doc(&j);
}
