/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/ops.h"

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"

const char regions_of[] = "regions";

static int is_ops(const struct drawn *d)
{
	return d->of != regions_of;
}

static int is_regions(const struct drawn *d)
{
	return d->of == regions_of;
}

static void name(struct cell *c, const struct drawn *d, const void *row)
{
	const struct report_op *op = row;

	if (op != &d->r->no_op)
		c->text = op->name;
	else if (d->as == AS_JSON)
		c->none = NONE_LEFT_OUT;
	else
		c->text = "(no operator open)";
}

static void kind(struct cell *c, const struct drawn *d, const void *row)
{
	(void)d;
	c->text = ((const struct report_op *)row)->is_node ? "node" : "region";
}

/* Blocks without an operator: there was nothing to enter. */
static void count(struct cell *c, const struct drawn *d, const void *row)
{
	c->num = ((const struct report_op *)row)->count;
	c->text = !c->num && (d->as == AS_TEXT || row == &d->r->no_op) ? "-" : NULL;
}

static const struct column columns[] = {
	{ "name", "operator", COL_TEXT, VIA(name), .has = is_ops, TEXT(1, 0, .wide = 1), TUI(1, 20, .wide = 1) },
	{ "name", "region", COL_TEXT, VIA(name), .has = is_regions, TEXT(1, 0, .wide = 1),
	  TUI(1, 20, .wide = 1, .head = "region or backward node") },
	{ NULL, "kind", COL_TEXT, VIA(kind), .has = is_regions, TUI(2, 6, 90) },
	{ "count", "count", COL_COUNT, VIA(count), TEXT(8, 8), TUI(9, 8, .head = "calls") },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_op, alloc_bytes), TEXT(7, 11), TUI(8, 10) },
	{ "alloc_count", NULL, COL_COUNT, OF(report_op, alloc_count) },
	{ "at_peak", "at peak", COL_BYTES, OF(report_op, at_peak), TEXT(4, 10), TUI(4, 9) },
	{ NULL, "of peak", COL_SHARE, OF(report_op, at_peak), TEXT(5, 8), TUI(5, 8) },
	{ NULL, "", COL_BAR, OF(report_op, at_peak), TUI(6, 12, 110, 1) },
	{ "live", "live", COL_BYTES, OF(report_op, live), TEXT(3, 10), TUI(3, 9) },
	{ "live_count", "blocks", COL_COUNT, OF(report_op, live_count), .has = is_ops, TUI(7, 8, 100) },
	{ "live_count", NULL, COL_COUNT, OF(report_op, live_count), .has = is_regions },
	{ "is_node", NULL, COL_BOOL, OF(report_op, is_node), .has = is_regions },
};

const struct table op_table = TABLE(columns);

/* What gave nothing out is in JSON only. */
static int is_shown(const struct report_op *op)
{
	return op->live || op->at_peak || op->alloc_count;
}

/* rest: a last row, or NULL */
static void put_ops(struct page *p, struct drawn *d, const struct report_op *ops, size_t cnt, const struct report_op *rest,
		    size_t top, const char *title)
{
	struct table_lines l;
	size_t shown = 0, first = 0;

	while (first < cnt && !is_shown(&ops[first]))
		first++;
	if (first == cnt && !rest)
		return;
	page__heading(p, title);
	d->whole = report_peak_sum(d->r);
	table_lines__begin(&l, p, &op_table, d);
	for (size_t i = first; i < cnt && shown < top; i++)
		if (is_shown(&ops[i])) {
			table_lines__row(&l, &ops[i]);
			shown++;
		}
	if (rest)
		table_lines__row(&l, rest);
	page__more(p, shown, d->of ? d->r->regions_total : d->r->ops_total,
		   d->of ? "regions (--top, --json)" : "operators (--top, --json)");
}

void ops_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);

	put_ops(p, &d, r->ops, r->ops_cnt, r->no_op.alloc_count ? &r->no_op : NULL, top, "Operators, by their part of the peak");
}

void regions_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);

	d.of = regions_of;
	put_ops(p, &d, r->regions, r->regions_cnt, NULL, top, "Regions and backward nodes");
}

void ops_json(struct json *j, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "ops", &op_table, &d, r->ops, r->ops_cnt < top ? r->ops_cnt : top, sizeof(*r->ops));
	json__u64(j, "ops_total", r->ops_total);
	table__object(j, "no_op", &op_table, &d, &r->no_op);
	d.of = regions_of;
	table__list(j, "regions", &op_table, &d, r->regions, r->regions_cnt < top ? r->regions_cnt : top, sizeof(*r->regions));
	json__u64(j, "regions_total", r->regions_total);
}
