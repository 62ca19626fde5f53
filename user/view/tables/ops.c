/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/tables.h"

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"

enum { OPS = 1, REGIONS = 2 };

static void name(struct cell *c, const void *row)
{
	const struct report_op *op = row;

	if (op != &c->d->r->ops.none)
		c->text = op->name;
	else if (c->d->as == AS_JSON)
		c->none = NONE_LEFT_OUT;
	else
		c->text = "(no operator open)";
}

static void kind(struct cell *c, const void *row)
{
	c->text = ((const struct report_op *)row)->is_node ? "node" : "region";
}

/* Blocks without an operator: none was entered. */
static void count(struct cell *c, const void *row)
{
	c->num = ((const struct report_op *)row)->count;
	c->text = !c->num && (c->d->as == AS_TEXT || row == &c->d->r->ops.none) ? "-" : NULL;
}

static const struct column columns[] = {
	{ "name", "operator", COL_TEXT, VIA(name), .only = OPS, TEXT(1, 20, .wide = 1), TUI(1, 20, .wide = 1) },
	{ "name", "region", COL_TEXT, VIA(name), .only = REGIONS, TEXT(1, 20, .wide = 1),
	  TUI(1, 20, .wide = 1, .head = "region or backward node") },
	{ NULL, "kind", COL_TEXT, VIA(kind), .only = REGIONS, TUI(2, 6, 90) },
	{ "count", "count", COL_COUNT, VIA(count), TEXT(8, 8), TUI(9, 8, .head = "calls") },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_op, alloc_bytes), TEXT(7, 11), TUI(8, 10) },
	{ "alloc_count", NULL, COL_COUNT, OF(report_op, alloc_count) },
	{ "at_peak", "at peak", COL_BYTES, OF(report_op, at_peak), .shown_if = drawn_at_end, TEXT(4, 10), TUI(4, 9) },
	{ NULL, "of peak", COL_SHARE, OF(report_op, at_peak), .shown_if = drawn_at_end, TEXT(5, 8), TUI(5, 8) },
	{ NULL, "", COL_BAR, OF(report_op, at_peak), .shown_if = drawn_at_end, TUI(6, 12, 110, 1) },
	{ "live", "live", COL_BYTES, OF(report_op, live), .shown_if = shows_live, TEXT(3, 10), TUI(3, 9) },
	{ NULL, "then", COL_BYTES, OF(report_op, live), .shown_if = drawn_then, TUI(3, 9) },
	{ NULL, "of it", COL_SHARE, OF(report_op, live), .shown_if = drawn_then, TUI(5, 8) },
	{ NULL, "", COL_BAR, OF(report_op, live), .shown_if = drawn_then, TUI(6, 12, 110, 1) },
	{ "live_count", "blocks", COL_COUNT, OF(report_op, live_count), TUI(7, 8, 100) },
	{ "is_node", NULL, COL_BOOL, OF(report_op, is_node), .only = REGIONS },
};

const struct table op_table = TABLE(columns, .variant = OPS), region_table = TABLE(columns, .variant = REGIONS);

struct op_list {
	const struct table *table;
	const char *title, *more;
	const struct report_ops *of;
	int is_summary; /* without those that had no part of the peak */
};

/* Operators without allocations are in JSON only. */
static int is_shown(const struct op_list *o, const struct report_op *op)
{
	return op->at_peak || (!o->is_summary && (op->live || op->alloc_count));
}

static void put_ops(struct page *p, const struct report *r, const struct op_list *o, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	const struct report_ops *of = o->of;
	int has_none = o->is_summary ? of->none.at_peak > 0 : of->none.alloc_count > 0;
	struct table_lines l;
	size_t shown = 0, i = 0;

	while (i < of->cnt && !is_shown(o, &of->rows[i]))
		i++;
	if (i == of->cnt && !has_none)
		return;
	page__heading(p, o->title);
	d.whole = report_peak_sum(r);
	table_lines__begin(&l, p, o->table, &d);
	for (; i < of->cnt && shown < top; i++)
		if (is_shown(o, &of->rows[i])) {
			table_lines__row(&l, &of->rows[i]);
			shown++;
		}
	if (has_none)
		table_lines__row(&l, &of->none);
	page__more(p, shown, of->total, o->more);
}

void ops_text(struct page *p, const struct report *r, size_t top)
{
	const struct op_list list = { &op_table, "Operators, by their part of the peak", "operators (--top, --json)", &r->ops };

	put_ops(p, r, &list, top);
}

void ops_summary(struct page *p, const struct report *r, size_t top)
{
	const struct op_list list = { &op_table, "Operators, by their part of the peak", "operators (--by op)", &r->ops, 1 };

	put_ops(p, r, &list, top);
}

void regions_text(struct page *p, const struct report *r, size_t top)
{
	const struct op_list list = { &region_table, "Regions and backward nodes", "regions (--top, --json)", &r->regions };

	put_ops(p, r, &list, top);
}

void ops_json(struct json *j, const struct report *r, size_t top)
{
	size_t ops = r->ops.cnt < top ? r->ops.cnt : top, regions = r->regions.cnt < top ? r->regions.cnt : top;
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "ops", &op_table, &d, r->ops.rows, ops, sizeof(*r->ops.rows));
	json__u64(j, "ops_total", r->ops.total);
	table__object(j, "no_op", &op_table, &d, &r->ops.none);
	table__list(j, "regions", &region_table, &d, r->regions.rows, regions, sizeof(*r->regions.rows));
	json__u64(j, "regions_total", r->regions.total);
}
