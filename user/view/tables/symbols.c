/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/tables.h"

#include "plan/plan.h"
#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

static void source(struct cell *c, const void *row)
{
	c->text = source_name((enum source)(1u << (((const struct report_symbol *)row)->source & 31)));
}

static const struct column symbol_columns[] = {
	{ "symbol", "symbol", COL_TEXT, OF(report_symbol, name), TEXT(1, 0, .wide = 1) },
	{ "source", "source", COL_TEXT, VIA(source), TEXT(2, 10, .gap = 2) },
	{ "found", "found", COL_COUNT, OF(report_symbol, found), TEXT(3, 8) },
	{ "attached", "attached", COL_COUNT, OF(report_symbol, attached), TEXT(4, 10) },
	{ "fired", "fired", COL_COUNT, OF(report_symbol, fired), TEXT(5, 11) },
};

const struct table symbol_table = TABLE(symbol_columns, .spare = 3);

void symbols_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t shown = 0;

	page__heading(p, "Probed symbols, by how often they fired");
	table_lines__begin(&l, p, &symbol_table, &d);
	for (size_t i = 0; i < r->probes.symbols_cnt; i++) {
		const struct report_symbol *s = &r->probes.symbols[i];

		/* Sites that could not be set are always shown. */
		if ((shown >= top || !s->fired) && s->attached == s->found)
			continue;
		shown++;
		table_lines__row(&l, s);
	}
	page__more(p, shown, r->probes.symbols_cnt, "symbols, set, that fired less often or never (--top)");
}

void symbols_json(struct json *j, const struct report *r, int is_brief)
{
	struct drawn d = drawn_as(AS_JSON, r);
	size_t attached = 0, fired = 0;

	for (size_t i = 0; i < r->probes.symbols_cnt; i++) {
		attached += r->probes.symbols[i].attached > 0;
		fired += r->probes.symbols[i].fired > 0;
	}
	json__begin(j, "symbols", '{');
	json__u64(j, "found", r->probes.symbols_cnt);
	json__u64(j, "attached", attached);
	json__u64(j, "fired", fired);
	json__begin(j, "list", '[');
	for (size_t i = 0; i < r->probes.symbols_cnt && !is_brief; i++)
		if (r->probes.symbols[i].fired || r->probes.symbols[i].attached != r->probes.symbols[i].found)
			table__object(j, NULL, &symbol_table, &d, &r->probes.symbols[i]);
	json__end(j, ']');
	json__end(j, '}');
}

static const struct column cover_columns[] = {
	{ "pid", NULL, COL_NUMBER, OF(report_cover, pid) },
	{ "source", NULL, COL_TEXT, OF(report_cover, source) },
	{ "found", NULL, COL_COUNT, OF(report_cover, found) },
	{ "attached", NULL, COL_COUNT, OF(report_cover, attached) },
};

void covers_json(struct json *j, const struct report *r)
{
	static const struct table covers = TABLE(cover_columns);
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "sources", &covers, &d, r->probes.covers, r->probes.covers_cnt, sizeof(*r->probes.covers));
}

static const struct column late_columns[] = {
	{ "operator", NULL, COL_TEXT, OF(report_late_op, name) },
	{ "pid", NULL, COL_NUMBER, OF(report_late_op, pid) },
	{ "ts_ns", NULL, COL_NUMBER, OF(report_late_op, ts_ns) },
	{ "missed_ns", NULL, COL_NS, OF(report_late_op, missed_ns) },
};

void late_ops_json(struct json *j, const struct report *r)
{
	static const struct table late = TABLE(late_columns);
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "late", &late, &d, r->probes.late_ops, r->probes.late_ops_cnt, sizeof(*r->probes.late_ops));
}
