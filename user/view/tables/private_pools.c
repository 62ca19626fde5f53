/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/private_pools.h"

#include <inttypes.h>
#include <stdio.h>

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

static void id(struct cell *c, const void *row)
{
	const struct report_pool *v = row;

	cell__say(c, "%" PRIu64 ":%" PRIu64, v->id[0], v->id[1]);
}

static void unused(struct cell *c, const void *row)
{
	const struct report_pool *v = row;

	c->num = v->reserved - v->used;
}

static void state(struct cell *c, const void *row)
{
	c->text = ((const struct report_pool *)row)->uses ? "in use" : "left";
}

/* After the recording's begin. */
static void since(struct cell *c, const void *row)
{
	const struct report_pool *v = row;

	c->text = v->begun_ns ? fmt_ns(c->buf, v->begun_ns - c->d->r->run.start_ts_ns) : "-";
}

static const struct column columns[] = {
	{ "id", "private pool", COL_TEXT, VIA(id), TEXT(1, 12) },
	{ "pid", "pid", COL_NUMBER, OF(report_pool, pid), TEXT(7, 8, 80) },
	{ "reserved", "reserved", COL_BYTES, OF(report_pool, reserved), TEXT(2, 10) },
	{ "used", "in tensors", COL_BYTES, OF(report_pool, used), TEXT(3, 11) },
	{ NULL, "no tensor", COL_BYTES, VIA(unused), TEXT(4, 10) },
	{ "segments", NULL, COL_COUNT, OF(report_pool, segments) },
	{ "graphs", "graphs", COL_COUNT, OF(report_pool, graphs), TEXT(5, 7, 60) },
	{ "launches", "launches", COL_COUNT, OF(report_pool, launches), TEXT(6, 9, 70) },
	{ "uses", NULL, COL_COUNT, OF(report_pool, uses) },
	{ "begun_ns", NULL, COL_TIME, OF(report_pool, begun_ns), IF(report_pool, begun_ns) },
	{ NULL, "opened at", COL_NS, VIA(since), TEXT(8, 10, 90) },
	{ NULL, "state", COL_TEXT, VIA(state), TEXT(9, 8, 90, .gap = 2) },
};

static const struct table pool_table = TABLE(columns);

static void put_rows(struct page *p, const struct report *r, uint8_t dev)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines lines;

	table_lines__begin(&lines, p, &pool_table, &d);
	for (size_t i = 0; i < r->driver.pools_cnt; i++)
		if (r->driver.pools[i].dev == dev)
			table_lines__row(&lines, &r->driver.pools[i]);
}

void private_pools_text(struct page *p, const struct report *r, const struct report_dev *d, int is_verbose)
{
	char text[300], a[24], b[24];

	if (!d->segs.private_reserved)
		return;
	snprintf(text, sizeof(text),
		 "private pools (CUDA graphs, torch.cuda.MemPool): %s reserved, %s of it in tensors; "
		 "the rest serves nobody else",
		 fmt_bytes(a, d->segs.private_reserved), fmt_bytes(b, d->segs.private_used));
	page__item(p, 2, text);
	if (is_verbose)
		put_rows(p, r, d->dev);
}

void private_pools_json(struct json *j, const struct report *r, uint8_t dev)
{
	struct drawn d = drawn_as(AS_JSON, r);

	json__begin(j, "private_pools", '[');
	for (size_t i = 0; i < r->driver.pools_cnt; i++)
		if (r->driver.pools[i].dev == dev)
			table__object(j, NULL, &pool_table, &d, &r->driver.pools[i]);
	json__end(j, ']');
}
