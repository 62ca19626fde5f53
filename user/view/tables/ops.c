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

	if (op != &c->d->r->no_op)
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

/* Blocks without an operator: there was nothing to enter. */
static void count(struct cell *c, const void *row)
{
	c->num = ((const struct report_op *)row)->count;
	c->text = !c->num && (c->d->as == AS_TEXT || row == &c->d->r->no_op) ? "-" : NULL;
}

static const struct column columns[] = {
	{ "name", "operator", COL_TEXT, VIA(name), .only = OPS, TEXT(1, 0, .wide = 1), TUI(1, 20, .wide = 1) },
	{ "name", "region", COL_TEXT, VIA(name), .only = REGIONS, TEXT(1, 0, .wide = 1),
	  TUI(1, 20, .wide = 1, .head = "region or backward node") },
	{ NULL, "kind", COL_TEXT, VIA(kind), .only = REGIONS, TUI(2, 6, 90) },
	{ "count", "count", COL_COUNT, VIA(count), TEXT(8, 8), TUI(9, 8, .head = "calls") },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_op, alloc_bytes), TEXT(7, 11), TUI(8, 10) },
	{ "alloc_count", NULL, COL_COUNT, OF(report_op, alloc_count) },
	{ "at_peak", "at peak", COL_BYTES, OF(report_op, at_peak), TEXT(4, 10), TUI(4, 9) },
	{ NULL, "of peak", COL_SHARE, OF(report_op, at_peak), TEXT(5, 8), TUI(5, 8) },
	{ NULL, "", COL_BAR, OF(report_op, at_peak), TUI(6, 12, 110, 1) },
	{ "live", "live", COL_BYTES, OF(report_op, live), TEXT(3, 10), TUI(3, 9) },
	{ "live_count", "blocks", COL_COUNT, OF(report_op, live_count), .only = OPS, TUI(7, 8, 100) },
	{ "live_count", NULL, COL_COUNT, OF(report_op, live_count), .only = REGIONS },
	{ "is_node", NULL, COL_BOOL, OF(report_op, is_node), .only = REGIONS },
};

const struct table op_table = TABLE(columns, .variant = OPS), region_table = TABLE(columns, .variant = REGIONS);

/* What gave nothing out is in JSON only. */
static int is_shown(const struct report_op *op)
{
	return op->live || op->at_peak || op->alloc_count;
}

struct op_list {
	const struct table *table;
	const char *title, *more;
	const struct report_op *ops;
	size_t cnt, total;
	const struct report_op *rest; /* a last row, or NULL */
};

static void put_ops(struct page *p, const struct report *r, const struct op_list *o, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t shown = 0, i = 0;

	while (i < o->cnt && !is_shown(&o->ops[i]))
		i++;
	if (i == o->cnt && !o->rest)
		return;
	page__heading(p, o->title);
	d.whole = report_peak_sum(r);
	table_lines__begin(&l, p, o->table, &d);
	for (; i < o->cnt && shown < top; i++)
		if (is_shown(&o->ops[i])) {
			table_lines__row(&l, &o->ops[i]);
			shown++;
		}
	if (o->rest)
		table_lines__row(&l, o->rest);
	page__more(p, shown, o->total, o->more);
}

void ops_text(struct page *p, const struct report *r, size_t top)
{
	put_ops(p, r, &(struct op_list){ &op_table, "Operators, by their part of the peak", "operators (--top, --json)", r->ops,
					 r->ops_cnt, r->ops_total, r->no_op.alloc_count ? &r->no_op : NULL }, top);
}

void regions_text(struct page *p, const struct report *r, size_t top)
{
	put_ops(p, r, &(struct op_list){ &region_table, "Regions and backward nodes", "regions (--top, --json)", r->regions,
					 r->regions_cnt, r->regions_total, NULL }, top);
}

void ops_json(struct json *j, const struct report *r, size_t top)
{
	size_t ops = r->ops_cnt < top ? r->ops_cnt : top, regions = r->regions_cnt < top ? r->regions_cnt : top;
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "ops", &op_table, &d, r->ops, ops, sizeof(*r->ops));
	json__u64(j, "ops_total", r->ops_total);
	table__object(j, "no_op", &op_table, &d, &r->no_op);
	table__list(j, "regions", &region_table, &d, r->regions, regions, sizeof(*r->regions));
	json__u64(j, "regions_total", r->regions_total);
}
