/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/array.h"
#include "view/tables/tables.h"

#include <stdlib.h>

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/table.h"
#include "view/tables/segments.h"

/* --- a row a device -------------------------------------------------------------------------------------- */

static void blocks_a_second(struct cell *c, const void *row)
{
	uint64_t ns = report_traced_ns(c->d->r);

	c->text = fmt_count(c->buf, ns ? (double)((const struct report_dev *)row)->allocs * 1e9 / (double)ns : 0);
}

enum { BRIEF = 1, FULL = 2 };

static void put_segments(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)key;
	segments_json(j, d->r, row);
}

static void plain(struct cell *c, const void *row)
{
	c->num = report_cat__plain(row);
}

static const struct column cat_fields[] = {
	{ "live", NULL, COL_BYTES, OF(report_cat, live) },
	{ "at_peak", NULL, COL_BYTES, OF(report_cat, at_peak) },
	{ "byte_ns", NULL, COL_NUMBER, OF(report_cat, byte_ns) },
	{ "at_peak_plain", NULL, COL_BYTES, VIA(plain), IF(report_cat, plain) },
};

static void put_cats(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	static const struct table fields = TABLE(cat_fields);
	const struct report_dev *dev = row;

	json__begin(j, key, '{');
	for (unsigned i = 0; i < CAT_MAX; i++) {
		const struct report_cat *c = &dev->cats[i];

		if (i == CAT_UNKNOWN || c->live || c->at_peak || c->byte_ns || c->plain)
			table__object(j, category_name((enum category)i), &fields, d, c);
	}
	json__end(j, '}');
}

static void put_series(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	series_json(j, d->r, &((const struct report_dev *)row)->series, key);
}

static void put_between(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_dev *dev = row;

	if (dev->between.cnt)
		series_json(j, d->r, &dev->between, key);
}

static const struct column dev_columns[] = {
	{ NULL, "device", COL_DEV, OF(report_dev, dev), TEXT(1, 10) },
	{ "live", "live", COL_BYTES, OF(report_dev, live), .shown_if = shows_live, TEXT(2, 10) },
	{ "peak", "peak", COL_BYTES, OF(report_dev, peak), TEXT(3, 10) },
	{ "peak_ns", NULL, COL_TIME, OF(report_dev, peak_ts_ns) },
	{ "allocs", "blocks", COL_COUNT, OF(report_dev, allocs), TEXT(6, 9) },
	{ NULL, "blocks/s", COL_COUNT, VIA(blocks_a_second), TEXT(7, 11) },
	{ "frees", NULL, COL_COUNT, OF(report_dev, frees) },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_dev, alloc_bytes), TEXT(4, 10) },
	{ "free_bytes", "freed", COL_BYTES, OF(report_dev, free_bytes), TEXT(5, 10) },
	{ "preexisting_frees", NULL, COL_COUNT, OF(report_dev, preexisting_frees) },
	{ "carried_blocks", NULL, COL_COUNT, OF(report_dev, carried_blocks), IF(report_dev, carried_blocks) },
	{ "carried_bytes", NULL, COL_BYTES, OF(report_dev, carried_bytes), IF(report_dev, carried_blocks) },
	{ "preexisting_blocks", NULL, COL_COUNT, OF(report_dev, preexisting_blocks) },
	{ "preexisting_bytes", NULL, COL_BYTES, OF(report_dev, preexisting_bytes) },
	{ "dropped", NULL, COL_COUNT, OF(report_dev, dropped) },
	{ "dropped_bytes", NULL, COL_BYTES, OF(report_dev, dropped_bytes) },
	{ "ooms", NULL, COL_COUNT, OF(report_dev, ooms) },
	{ "oom_bytes_last", NULL, COL_BYTES, OF(report_dev, oom_bytes_last) },
	{ "byte_ns", NULL, COL_NUMBER, OF(report_dev, byte_ns) },
	{ "segments", NULL, .json = put_segments },
	{ "categories", NULL, .json = put_cats },
	{ "series", NULL, .json = put_series, .only = FULL },
	{ "between", NULL, .json = put_between, .only = FULL },
};

const struct table dev_table = TABLE(dev_columns, .variant = FULL);
static const struct table brief_table = TABLE(dev_columns, .variant = BRIEF);

/* The driver's memory, of devices whose driver's layer was seen. */
static const struct column layer_columns[] = {
	{ NULL, "device", COL_DEV, OF(report_dev, dev), TEXT(1, 8) },
	{ NULL, "driver", COL_BYTES, OF(report_dev, segs.driver), TEXT(2, 10) },
	{ NULL, "allocator", COL_BYTES, OF(report_dev, segs.allocator), TEXT(3, 10) },
	{ NULL, "tensors", COL_BYTES, OF(report_dev, segs.tensors), TEXT(4, 10) },
	{ NULL, "rounding", COL_BYTES, OF(report_dev, segs.rounding), TEXT(5, 10) },
	{ NULL, "free", COL_BYTES, OF(report_dev, segs.unused), TEXT(6, 10) },
	{ NULL, "others", COL_BYTES, OF(report_dev, segs.others), TEXT(7, 10) },
	{ NULL, "backend", COL_TEXT, OF(report_dev, segs.backend), NAMED(backend_name), TEXT(8, 19, 91, .gap = 2) },
};

static const struct table layer_table = TABLE(layer_columns);

void devices_text(struct page *p, const struct report *r)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t shown = 0;

	page__heading(p, "By device");
	table__text(p, &dev_table, &d, r->devs, r->devs_cnt, sizeof(*r->devs));
	for (size_t i = 0; i < r->devs_cnt; i++) {
		if (!segments_are_seen(&r->devs[i].segs))
			continue;
		if (!shown++) {
			page__heading(p, "What the driver gave, by device");
			table_lines__begin(&l, p, &layer_table, &d);
		}
		table_lines__row(&l, &r->devs[i]);
	}
}

void series_json(struct json *j, const struct report *r, const struct series *s, const char *key)
{
	json__begin_flat(j, key, '{');
	json__u64(j, "bucket_ns", s->bucket_ns);
	json__begin(j, "points", '['); /* [time, highest in the bucket, at its end] */
	for (size_t i = 0; i < s->cnt; i++) {
		uint64_t ts_ns = s->points[i].ts_ns;

		json__begin(j, NULL, '[');
		json__u64(j, NULL, ts_ns ? ts_ns + (uint64_t)r->run.epoch_off_ns : 0);
		json__u64(j, NULL, s->points[i].live_max);
		json__u64(j, NULL, s->points[i].live_end);
		json__end(j, ']');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static void put_json(struct json *j, const struct report *r, const struct report_dev *dev, const char *key, int is_brief)
{
	struct drawn d = drawn_as(AS_JSON, r);

	json__begin(j, key, '{');
	table__fields(j, is_brief ? &brief_table : &dev_table, &d, dev);
	json__end(j, '}');
}

void devices_json(struct json *j, const struct report *r, int is_brief)
{
	static const struct report_dev none = { .dev = MT_DEV_HOST };
	const struct report_dev *host = report_dev_find(r, MT_DEV_HOST);
	char name[16];

	json__begin(j, "devices", '{');
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (r->devs[i].dev != MT_DEV_HOST)
			put_json(j, r, &r->devs[i], dev_name(r->devs[i].dev, name), is_brief);
	json__end(j, '}');
	segments_json_host(j, r);
	if (host || report_has_source(r, "host"))
		put_json(j, r, host ? host : &none, "host", is_brief);
}

/* --- a row a device and category --------------------------------------------------------------------------- */

static void by_use(struct cell *c, const void *row)
{
	c->num = report_cat__plain(&((const struct cat_row *)row)->cat);
}

static int has_use(const struct drawn *d)
{
	return report_has_use(d->r);
}

int shows_live(const struct drawn *d)
{
	if (d->as != AS_TEXT)
		return drawn_at_end(d);
	for (size_t i = 0; i < d->r->devs_cnt; i++)
		if (d->r->devs[i].live)
			return 1;
	return 0;
}

#define PEOPLE 1 /* columns of CSV are always the same */

static const struct column cat_columns[] = {
	{ NULL, "device", COL_DEV, OF(cat_row, dev), TEXT(1, 10) },
	{ NULL, "category", COL_CAT, OF(cat_row, category), TEXT(2, 20) },
	{ NULL, "live", COL_BYTES, OF(cat_row, cat.live), .shown_if = shows_live, TEXT(3, 10) },
	{ NULL, "at peak", COL_BYTES, OF(cat_row, cat.at_peak), TEXT(4, 10) },
	{ NULL, "of peak", COL_SHARE, OF(cat_row, cat.at_peak), TEXT(5, 10) },
	{ NULL, "by use", COL_BYTES, VIA(by_use), .shown_if = has_use, .only = PEOPLE, TEXT(6, 10) },
	{ NULL, "mean", COL_BYTES, OF(cat_row, mean), TEXT(7, 10) },
};

const struct table cat_table = TABLE(cat_columns, .variant = PEOPLE), cat_csv_table = TABLE(cat_columns);

size_t cat_rows(const struct report *r, const struct report_dev *dev, struct cat_row rows[CAT_MAX], int use)
{
	uint64_t ns = report_traced_ns(r);
	size_t cnt = 0;

	for (uint8_t c = 0; dev->dev != MT_DEV_HOST && c < CAT_MAX; c++) {
		const struct report_cat *cat = &dev->cats[c];
		uint64_t mean = ns ? (uint64_t)((double)cat->byte_ns / (double)ns) : 0;

		if (cat->live || cat->at_peak || mean || (use && report_cat__plain(cat)))
			rows[cnt++] = (struct cat_row){ dev->dev, c, *cat, mean };
	}
	return cnt;
}

static int by_part(const void *pa, const void *pb)
{
	const struct cat_row *a = pa, *b = pb;

	return cmp_down(a->cat.at_peak, b->cat.at_peak) ?: cmp_down(a->cat.live, b->cat.live) ?:
	       cmp_up(a->category, b->category);
}

size_t cat_rows_of_peak(const struct report *r, const struct report_dev *dev, struct cat_row rows[CAT_MAX], int all)
{
	int use = report_has_use(r);
	size_t cnt = cat_rows(r, dev, rows, use), kept = 0;

	qsort(rows, cnt, sizeof(*rows), by_part);
	for (size_t i = 0; i < cnt; i++) {
		const struct report_cat *cat = &rows[i].cat;

		if (all || cat->at_peak || cat->live || (use && report_cat__plain(cat)))
			rows[kept++] = rows[i];
	}
	return kept;
}

void cats_text(struct page *p, const struct report *r, int all)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct cat_row rows[CAT_MAX];
	struct table_lines l;

	page__heading(p, "By category");
	table_lines__begin(&l, p, &cat_table, &d);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		size_t cnt = cat_rows_of_peak(r, &r->devs[i], rows, all);

		d.whole = r->devs[i].peak;
		for (size_t k = 0; k < cnt; k++)
			table_lines__row(&l, &rows[k]);
	}
	if (report_has_use(r))
		page__item(p, 2, report_words_use);
	if (r->flow.has_parts && r->classes == CLASSES_COMPAT)
		page__item(p, 2, "Parameters here are parts of other tensors (DTensor, FSDP, quantised), for which "
				 "torch.profiler has no words: --classes extended has some for what FSDP gathers and sends.");
}
