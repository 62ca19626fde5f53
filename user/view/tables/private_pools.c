/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/private_pools.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

#define SPANS_SHOWN 3

const char *pool_graphs(char *buf, const struct report_pool *v)
{
	unsigned cnt = v->graphs < REPORT_POOL_GRAPHS ? v->graphs : REPORT_POOL_GRAPHS, i = 0;
	char more[24];
	int n = 0;

	*buf = 0;
	if (cnt && v->last.number - v->first[0].number == v->graphs - 1) { /* all between, also ones that are not kept */
		snprintf(buf, 80, v->graphs > 1 ? "%u to %u" : "%u", v->first[0].number, v->last.number);
		return buf;
	}
	for (unsigned spans = 0; i < cnt && spans < SPANS_SHOWN; spans++) {
		unsigned from = i++;

		while (i < cnt && v->first[i].number == v->first[i - 1].number + 1)
			i++;
		n += snprintf(buf + n, (size_t)(80 - n), "%s%u", n ? ", " : "", v->first[from].number);
		if (i - from > 1)
			n += snprintf(buf + n, (size_t)(80 - n), " to %u", v->first[i - 1].number);
	}
	if (i < v->graphs)
		snprintf(buf + n, (size_t)(80 - n), " and %s more", fmt_count(more, (double)(v->graphs - i)));
	return buf;
}

static void graphs(struct cell *c, const void *row)
{
	c->text = *pool_graphs(c->buf, row) ? c->buf : "-";
}

/* The last one, after the recording's begin. */
static void captured(struct cell *c, const void *row)
{
	const struct report_pool *v = row;

	c->text = v->last.captured_ns ? fmt_ns(c->buf, v->last.captured_ns - c->d->r->run.start_ts_ns) : "-";
}

static const struct column graph_columns[] = {
	{ "graph", NULL, COL_NUMBER, OF(report_graph, number) },
	{ "captured_ns", NULL, COL_TIME, OF(report_graph, captured_ns), IF(report_graph, captured_ns) },
	{ "launches", NULL, COL_COUNT, OF(report_graph, launches) },
};

static const struct table graph_table = TABLE(graph_columns);

static void put_graphs(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_pool *v = row;
	struct report_graph all[REPORT_POOL_GRAPHS + 1];

	memcpy(all, v->first, sizeof(v->first));
	all[REPORT_POOL_GRAPHS] = v->last;
	table__list(j, key, &graph_table, d, all, v->graphs > REPORT_POOL_GRAPHS ? REPORT_POOL_GRAPHS + 1 : v->graphs,
		    sizeof(*all));
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
	{ "graphs", NULL, COL_COUNT, OF(report_pool, graphs) },
	{ "captured", NULL, .json = put_graphs },
	{ NULL, "graphs", COL_TEXT, VIA(graphs), TEXT(5, 9, 60, .wide = 1, .gap = 2) },
	{ "launches", "launches", COL_COUNT, OF(report_pool, launches), TEXT(6, 9, 70) },
	{ "uses", NULL, COL_COUNT, OF(report_pool, uses) },
	{ "begun_ns", NULL, COL_TIME, OF(report_pool, begun_ns), IF(report_pool, begun_ns) },
	{ NULL, "opened at", COL_NS, VIA(since), TEXT(8, 10, 90) },
	{ NULL, "last graph", COL_NS, VIA(captured), TEXT(9, 11, 110) },
	{ NULL, "state", COL_TEXT, VIA(state), TEXT(10, 8, 90, .gap = 2) },
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

/* Of the only pool, or of all of them. */
static void put_whose(char *buf, size_t size, const struct report *r, uint8_t dev)
{
	const struct report_pool *only = NULL;
	uint64_t all = 0, launches = 0;
	unsigned pools = 0;
	char a[80], b[24];

	for (size_t i = 0; i < r->driver.pools_cnt; i++) {
		const struct report_pool *v = &r->driver.pools[i];

		if (v->dev != dev || !v->graphs)
			continue;
		only = v;
		pools++;
		all += v->graphs;
		launches += v->launches;
	}
	if (!pools)
		return;
	if (pools == 1)
		snprintf(buf, size, "; graph%s %s, launched %s time%s", all == 1 ? "" : "s", pool_graphs(a, only),
			 fmt_count(b, (double)launches), launches == 1 ? "" : "s");
	else
		snprintf(buf, size, "; %s graphs in %u pools, launched %s time%s", fmt_count(a, (double)all), pools,
			 fmt_count(b, (double)launches), launches == 1 ? "" : "s");
}

void private_pools_text(struct page *p, const struct report *r, const struct report_dev *d, int is_verbose)
{
	char text[300], a[24], b[24];
	int n;

	if (!d->segs.private_reserved)
		return;
	n = snprintf(text, sizeof(text),
		     "private pools (CUDA graphs, torch.cuda.MemPool): %s reserved, %s of it in tensors; "
		     "the rest serves nobody else",
		     fmt_bytes(a, d->segs.private_reserved), fmt_bytes(b, d->segs.private_used));
	put_whose(text + n, sizeof(text) - (size_t)n, r, d->dev);
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
