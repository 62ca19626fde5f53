/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/holdings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "timeline/report.h"
#include "timeline/selection.h"
#include "view/csv.h"
#include "view/selection_words.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"
#include "view/view.h"

#define SHORT_ROWS 6 /* of tables that were not asked for */

/* --- the table ----------------------------------------------------------------------------------------------- */

/* "jobs/train.py:42 in step" of a longer path: the part that distinguishes lines where there is little room. */
static const char *file_and_folder(const char *text)
{
	size_t len = strcspn(text, ":");
	const char *file = memrchr(text, '/', len), *folder = file ? memrchr(text, '/', (size_t)(file - text)) : NULL;

	return folder ? folder + 1 : text;
}

static void name(struct cell *c, const void *row)
{
	static const char *const none[HELD_BYS] = { [HELD_BY_MODULE] = "(no module)", [HELD_BY_OP] = "(no operator open)",
						    [HELD_BY_REGION] = "(no region open)", [HELD_BY_NAME] = "(no name)",
						    [HELD_BY_LINE] = "(no line of Python)", [HELD_BY_RANK] = "(no rank)" };

	c->text = ((const struct holding *)row)->name;
	if (c->d->as == AS_JSON)
		return;
	if (!c->text[0])
		c->text = none[c->d->index] ? none[c->d->index] : "";
	else if (c->d->index == HELD_BY_LINE)
		c->text = file_and_folder(c->text);
}

enum { IN_A_TIME = 1, AT_A_MOMENT = 2 };

static const struct column columns[] = {
	{ "name", "", COL_TEXT, VIA(name), .is_path = 1, TEXT(1, 20, .wide = 1) },
	{ "bytes", "held", COL_BYTES, OF(holding, bytes), TEXT(2, 10) },
	{ NULL, "of it", COL_SHARE, OF(holding, bytes), TEXT(3, 8) },
	{ "blocks", "blocks", COL_COUNT, OF(holding, blocks), TEXT(4, 8) },
	{ "largest", "largest", COL_BYTES, OF(holding, largest), TEXT(5, 10) },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(holding, alloc_bytes), .only = IN_A_TIME, TEXT(6, 11) },
	{ "allocs", "times", COL_COUNT, OF(holding, allocs), .only = IN_A_TIME, TEXT(7, 8) },
};

static const struct table table = TABLE(columns, .variant = IN_A_TIME);
static const struct table table_of_moment = TABLE(columns, .variant = AT_A_MOMENT);

static const struct {
	enum held_by by;
	const char *key, *title;
} tables[HELD_BYS] = {
	{ HELD_BY_CATEGORY, "category", "By category" }, { HELD_BY_MODULE, "module", "By module" },
	{ HELD_BY_OP, "op", "By operator" },		 { HELD_BY_LINE, "stack", "By line of Python" },
	{ HELD_BY_REGION, "region", "By region or backward node" },
	{ HELD_BY_NAME, "name", "By name" },		 { HELD_BY_RANK, "rank", "By rank" },
	{ HELD_BY_PROCESS, "process", "By process" },	 { HELD_BY_DEVICE, "device", "By device" },
};

static enum held_by held_by_of(enum view_by by)
{
	return by == BY_CATEGORY ? HELD_BY_CATEGORY : by == BY_MODULE ? HELD_BY_MODULE : by == BY_REGION ? HELD_BY_REGION :
	       by == BY_NAME	 ? HELD_BY_NAME : by == BY_PROCESS ? HELD_BY_PROCESS : by == BY_DEVICE ? HELD_BY_DEVICE :
	       by == BY_STACK	 ? HELD_BY_LINE : by == BY_RANK ? HELD_BY_RANK : HELD_BY_OP;
}

/* --- sorting -------------------------------------------------------------------------------------------------- */

#define SORTS "bytes, blocks, largest, alloc_bytes, allocs, name"

#define SORT_BY(key)                                                              \
	static int by_##key(const void *a, const void *b)                         \
	{                                                                         \
		const struct holding *x = a, *y = b;                              \
                                                                                  \
		return cmp_down(x->key, y->key) ?: cmp_down(x->bytes, y->bytes) ?: strcmp(x->name, y->name); \
	}

SORT_BY(bytes)
SORT_BY(blocks)
SORT_BY(largest)
SORT_BY(alloc_bytes)
SORT_BY(allocs)

static const struct {
	const char *key;
	int (*cmp)(const void *a, const void *b);
} sorts[] = { { "bytes", by_bytes },	       { "blocks", by_blocks }, { "largest", by_largest },
	      { "alloc_bytes", by_alloc_bytes }, { "allocs", by_allocs }, { "name", text_cmp } };

int held_sort_is_known(const char *key, const char **ret_all)
{
	*ret_all = SORTS;
	for (size_t i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++)
		if (!strcmp(sorts[i].key, key))
			return 1;
	return 0;
}

static const struct holding *rows_of(const struct held_view *v, enum held_by by, size_t *ret_cnt)
{
	struct holding *rows = holdings__rows(v->h, by, ret_cnt);

	for (size_t i = 0; v->sort && i < sizeof(sorts) / sizeof(sorts[0]); i++)
		if (!strcmp(sorts[i].key, v->sort))
			qsort(rows, *ret_cnt, sizeof(*rows), sorts[i].cmp);
	return rows;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static uint64_t after_ns(const struct held_view *v)
{
	uint64_t ts_ns = holdings__ts_ns(v->h);

	return ts_ns > v->r->run.start_ts_ns ? ts_ns - v->r->run.start_ts_ns : 0;
}

/* "cpu held 28 MiB in 213 blocks after 5.02 s, in step 100" */
static void head_words(const struct held_view *v, char *buf, size_t size)
{
	char a[24], b[24], c[24], dev[16];
	struct holding all, wanted;
	size_t n;

	holdings__sums(v->h, &all, &wanted);
	if (!all.bytes && !all.blocks && !holdings__ts_ns(v->h)) {
		snprintf(buf, size, "No memory was seen on %s: nothing was held", dev_name(v->dev, dev));
		return;
	}
	n = (size_t)snprintf(buf, size, "%s held %s in %s block%s after %s", dev_name(v->dev, dev), fmt_bytes(a, all.bytes),
			     fmt_count(b, (double)all.blocks), all.blocks == 1 ? "" : "s", fmt_ns(c, after_ns(v)));
	if (v->has_step && n < size)
		snprintf(buf + n, size - n, ", in step %" PRIu64, v->step);
}

/* The peak is one of the whole recording. */
static int has_time(const struct selection *s)
{
	return (s->at.text && strcmp(s->at.text, "peak") != 0) || s->from.text || s->to.text;
}

/* The description of that moment. */
static const char *why_words(const struct selection *s)
{
	if (s->at.text && strspn(s->at.text, "0123456789."))
		return "";
	return has_time(s) ? "the most in that time" : "its peak";
}

static int is_at_peak(const struct selection *s)
{
	return s->at.text && !has_time(s);
}

/* Is it a single moment, and not a step? Nothing is allocated in it. */
static int is_moment(const struct held_view *v)
{
	return (v->asked->at.text && !why_words(v->asked)[0]) || (is_at_peak(v->asked) && !v->has_step);
}

static const struct table *table_of(const struct held_view *v)
{
	return is_moment(v) ? &table_of_moment : &table;
}

/* Empty: there is nothing to add. */
static void wanted_words(const struct held_view *v, char *buf, size_t size)
{
	char a[24], b[24], what[400];
	struct holding all, wanted;

	holdings__sums(v->h, &all, &wanted);
	buf[0] = '\0';
	if (!selection_words(v->asked, what, sizeof(what))[0] && (is_moment(v) || (!all.bytes && !wanted.allocs)))
		return;
	if (!what[0])
		snprintf(buf, size, "allocated in %s: %s in %s block%s",
			 is_at_peak(v->asked) ? "that step" : has_time(v->asked) ? "that time" : "all",
			 fmt_bytes(a, wanted.alloc_bytes), fmt_count(b, (double)wanted.allocs), wanted.allocs == 1 ? "" : "s");
	else
		snprintf(buf, size, "%s in %s block%s match%s (%s)", fmt_bytes(a, wanted.bytes),
			 fmt_count(b, (double)wanted.blocks), wanted.blocks == 1 ? "" : "s", wanted.blocks == 1 ? "es" : "",
			 what);
}

static void put_head(struct page *p, const struct held_view *v)
{
	const char *why = why_words(v->asked);
	char text[700];

	head_words(v, text, sizeof(text) - 40);
	if (why[0] && holdings__ts_ns(v->h))
		snprintf(text + strlen(text), 40, ": %s", why);
	page__style(p, STYLE_BOLD);
	page__flow(p, 2, text);
	page__style(p, STYLE_PLAIN);
	if (holdings__is_learned(v->h))
		page__item(p, 2, "not traced then: what blocks are is learned from similar steps that were");
	wanted_words(v, text, sizeof(text));
	if (text[0])
		page__item(p, 2, text);
}

/* Rows that hold nothing are shown if allocations in a span were asked for. */
static int is_row(const struct held_view *v, const struct holding *row)
{
	return row->bytes || v->asked->from.text || v->asked->to.text;
}

static size_t rows_cnt(const struct held_view *v, const struct holding *rows, size_t cnt)
{
	size_t known = 0;

	for (size_t i = 0; i < cnt; i++)
		known += (size_t)is_row(v, &rows[i]);
	return known;
}

/* Nothing was held or allocated; or, in a table that was not asked for, nothing is known. */
static int is_left_out(const struct held_view *v, const struct view_opts *opts, size_t at, const struct holding *rows,
		       size_t cnt)
{
	return !rows_cnt(v, rows, cnt) || (!opts->has_by && tables[at].by >= HELD_BY_LINE && cnt == 1 && !rows[0].name[0]);
}

typedef void (*row_fn)(struct table_lines *l, const void *row);

/* How many. */
static size_t put_rows(struct table_lines *l, row_fn put, const struct held_view *v, const struct holding *rows, size_t cnt,
		       size_t top)
{
	size_t shown = 0;

	for (size_t i = 0; i < cnt && shown < top; i++)
		if (is_row(v, &rows[i])) {
			put(l, &rows[i]);
			shown++;
		}
	return shown;
}

static void put_table(struct page *p, const struct held_view *v, const struct view_opts *opts, size_t at, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, v->r);
	struct holding all, wanted;
	struct table_lines l;
	size_t cnt;
	const struct holding *rows = rows_of(v, tables[at].by, &cnt);

	holdings__sums(v->h, &all, &wanted);
	if (is_left_out(v, opts, at, rows, cnt))
		return;
	d.whole = wanted.bytes;
	d.index = tables[at].by;
	page__heading(p, tables[at].title);
	table_lines__begin(&l, p, table_of(v), &d);
	page__more(p, put_rows(&l, table_lines__row, v, rows, cnt, top), rows_cnt(v, rows, cnt), "rows (--top, --json)");
}

static int is_shown(const struct view_opts *opts, size_t at)
{
	return opts->has_by ? tables[at].by == held_by_of(opts->by) : tables[at].by <= HELD_BY_LINE;
}

int held_view_text(FILE *out, const struct held_view *v, const struct view_opts *opts)
{
	size_t top = opts->has_by || opts->is_verbose || opts->top < SHORT_ROWS ? opts->top : SHORT_ROWS;
	struct page p;
	int err = page__open(&p, out, opts, PAGE_WIDTH);

	if (err)
		return err;
	put_head(&p, v);
	for (size_t i = 0; i < HELD_BYS; i++)
		if (is_shown(opts, i) || (opts->is_verbose && !opts->has_by))
			put_table(&p, v, opts, i, top);
	return page__done(&p);
}

/* --- Markdown ---------------------------------------------------------------------------------------------------- */

int held_view_md(FILE *out, const struct held_view *v, const struct view_opts *opts)
{
	struct drawn d = drawn_as(AS_TEXT, v->r);
	struct holding all, wanted;
	struct table_lines l;
	char text[700];
	struct page p;
	int err = page__init(&p, out, 200, 0);

	if (err)
		return err;
	holdings__sums(v->h, &all, &wanted);
	head_words(v, text, sizeof(text));
	page__md(&p, text);
	wanted_words(v, text, sizeof(text));
	if (text[0]) {
		page__put(&p, "  \n");
		page__md(&p, text);
	}
	page__put(&p, "\n");
	d.whole = wanted.bytes;
	for (size_t i = 0; i < HELD_BYS; i++) {
		size_t cnt;
		const struct holding *rows = rows_of(v, tables[i].by, &cnt);

		if (!is_shown(opts, i) || is_left_out(v, opts, i, rows, cnt))
			continue;
		d.index = tables[i].by;
		page__printf(&p, "\n%s\n", tables[i].title);
		table_md__begin(&l, &p, table_of(v), &d);
		(void)put_rows(&l, table_md__row, v, rows, cnt, opts->has_by ? opts->top : SHORT_ROWS);
	}
	return page__done(&p);
}

/* --- JSON and CSV -------------------------------------------------------------------------------------------------- */

static void put_moment(struct json *j, const struct held_view *v)
{
	uint64_t ts_ns = holdings__ts_ns(v->h);
	struct holding all, wanted;
	char dev[16];

	holdings__sums(v->h, &all, &wanted);
	json__begin_flat(j, "moment", '{');
	json__u64(j, "after_ns", after_ns(v));
	json__u64(j, "time_ns", ts_ns ? ts_ns + (uint64_t)v->r->run.epoch_off_ns : 0);
	if (v->has_step)
		json__u64(j, "step", v->step);
	else
		json__null(j, "step");
	json__str(j, "device", dev_name(v->dev, dev));
	json__u64(j, "bytes", all.bytes);
	json__u64(j, "blocks", all.blocks);
	if (holdings__is_learned(v->h))
		json__bool(j, "learned", true);
	json__end(j, '}');
}

int held_view_json(FILE *out, const struct held_view *v, const struct view_opts *opts)
{
	struct drawn d = drawn_as(AS_JSON, v->r);
	struct holding all, wanted;
	struct outbuf o;
	struct json j;
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	holdings__sums(v->h, &all, &wanted);
	selection_json(&j, v->asked);
	json__str(&j, "sort", v->sort ? v->sort : "bytes");
	put_moment(&j, v);
	json__u64(&j, "bytes", wanted.bytes);
	json__u64(&j, "blocks", wanted.blocks);
	json__u64(&j, "alloc_bytes", wanted.alloc_bytes);
	json__u64(&j, "allocs", wanted.allocs);
	json__u64(&j, "lost", report_lost_events(v->r));
	json__begin(&j, "by", '{');
	for (size_t i = 0; i < HELD_BYS; i++) {
		size_t cnt;
		const struct holding *rows = rows_of(v, tables[i].by, &cnt);

		if (!opts->has_by || tables[i].by == held_by_of(opts->by))
			table__list(&j, tables[i].key, &table, &d, rows, cnt < opts->top ? cnt : opts->top, sizeof(*rows));
	}
	json__end(&j, '}');
	return json__end_doc(&j);
}

int held_view_csv(FILE *out, const struct held_view *v, const struct view_opts *opts)
{
	struct drawn d = drawn_as(AS_JSON, v->r);
	struct outbuf o;
	int err = outbuf__init(&o, out), e;
	const struct holding *rows;
	size_t cnt;

	if (err)
		return err;
	rows = rows_of(v, held_by_of(opts->by), &cnt);
	table__csv(&o, &table, &d, rows, cnt < opts->top ? cnt : opts->top, sizeof(*rows));
	e = outbuf__flush(&o);
	outbuf__done(&o);
	return err ? err : e;
}
