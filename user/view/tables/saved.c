/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/saved.h"

#include <inttypes.h>
#include <stdio.h>

#include "timeline/report.h"
#include "view/report_words.h"

#define PROCESSES_SHOWN 8 /* in text */

/* "Net.layers.*.linear1 (12)": twelve modules of this pattern. */
static void module(struct cell *c, const void *row)
{
	const struct report_saved_row *k = row;
	char many[24] = "";

	if (k->modules > 1)
		snprintf(many, sizeof(many), " (%" PRIu32 ")", k->modules);
	cell__say(c, "%s%s%s%s", k->root ? k->root : k->has_module ? "(not told yet)" : "-",
		  k->module && k->module[0] ? "." : "", k->module ? k->module : "", many);
}

static void within(struct cell *c, const void *row)
{
	const struct report_saved_row *k = row;

	c->text = k->recompute ? k->recompute : "-";
}

/* Without an operator the region. */
static void maker(struct cell *c, const void *row)
{
	const struct report_saved_row *k = row;

	c->text = k->op[0] ? k->op : k->region[0] ? k->region : "(no operator open)";
}

static int has_several(const struct drawn *d)
{
	return d->r->saved.procs_cnt > 1;
}

static void whose(struct cell *c, const void *row)
{
	c->text = proc_words(c->buf, sizeof(c->buf), c->d->r, ((const struct report_saved_row *)row)->pid);
}

/* In one compiled graph none has one: its operators get the room. */
static int has_modules(const struct drawn *d)
{
	for (size_t i = 0; i < d->r->saved.cnt; i++)
		if (d->r->saved.rows[i].module)
			return 1;
	return 0;
}

static const struct column columns[] = {
	{ "pid", NULL, COL_NUMBER, OF(report_saved_row, pid) },
	{ "dev", NULL, COL_DEV, OF(report_saved_row, dev) },
	{ "module", NULL, COL_TEXT, OF(report_saved_row, module), OR_NULL_IF_NOT(report_saved_row, module) },
	{ "module_root", NULL, COL_TEXT, OF(report_saved_row, root), OR_NULL_IF_NOT(report_saved_row, root) },
	{ "class", NULL, COL_OR_NULL, OF(report_saved_row, class) },
	{ "modules", NULL, COL_NUMBER, OF(report_saved_row, modules) },
	{ "recompute", NULL, COL_TEXT, OF(report_saved_row, recompute), OR_NULL_IF_NOT(report_saved_row, recompute) },
	{ "op", NULL, COL_OR_NULL, OF(report_saved_row, op) },
	{ "region", NULL, COL_OR_NULL, OF(report_saved_row, region) },
	{ "node", NULL, COL_TEXT, OF(report_saved_row, node) },
	{ NULL, "made in", COL_TEXT, VIA(module), .is_path = 1, .shown_if = has_modules,
	  TEXT(5, 0, .wide = 3, .gap = 2), TUI(1, 20, .wide = 2) },
	{ NULL, "process", COL_TEXT, VIA(whose), .shown_if = has_several, TEXT(8, 8, 100, .gap = 2), TUI(8, 8) },
	{ NULL, "by", COL_TEXT, VIA(maker), .is_begin = 1, TEXT(6, 0, .wide = 2, .gap = 2), TUI(2, 16, 90, 1) },
	{ NULL, "kept for", COL_TEXT, OF(report_saved_row, node), TEXT(7, 0, .wide = 2, .gap = 2), TUI(3, 16, .wide = 1) },
	{ NULL, "recompute", COL_TEXT, VIA(within), .is_path = 1, .shown_if = has_modules,
	  TEXT(9, 17, 96, .wide = 2, .gap = 2), TUI(9, 12, 110, .wide = 1) },
	{ "bytes", "bytes", COL_BYTES, OF(report_saved_row, bytes), .is_bold = 1, TEXT(1, 10), TUI(4, 9) },
	{ NULL, "of all", COL_SHARE, OF(report_saved_row, bytes), TEXT(2, 8), TUI(5, 8) },
	{ "blocks", "blocks", COL_COUNT, OF(report_saved_row, cnt), TEXT(3, 8), TUI(6, 7) },
	{ "largest", "largest", COL_BYTES, OF(report_saved_row, largest), TEXT(4, 10, 110), TUI(7, 9) },
};

const struct table saved_table = TABLE(columns);

uint64_t saved_bytes(const struct report *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->saved.procs_cnt; i++)
		bytes += r->saved.procs[i].bytes;
	return bytes;
}

static void put_process(struct page *p, const struct report *r, const struct report_saved_proc *s)
{
	char name[24], who[40] = "", a[24], b[24], c[24], d[24], e[24], f[24];

	if (r->saved.procs_cnt > 1) {
		const char *words = proc_words(name, sizeof(name), r, s->pid);

		snprintf(who, sizeof(who), "%s%s: ", words[0] == 'r' ? "" : "process ", words);
	}
	page__itemf(p, 2, "%sautograd kept %s in %s blocks when the largest of %s backward passes began, %s after the start, "
		    "of %s live; at the last one %s", who, fmt_bytes(a, s->bytes), fmt_count(b, (double)s->cnt),
		    fmt_count(c, (double)s->passes),
		    fmt_ns(d, s->ts_ns > r->run.start_ts_ns ? s->ts_ns - r->run.start_ts_ns : 0), fmt_bytes(e, s->live),
		    fmt_bytes(f, s->last_bytes));
	if (s->rest_cnt)
		page__line(p, "  of them %s in %s blocks found no room, and are in no row", fmt_bytes(a, s->rest_bytes),
			   fmt_count(b, (double)s->rest_cnt));
}

void saved_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	size_t shown = r->saved.cnt < top ? r->saved.cnt : top;

	if (!r->saved.total)
		return;
	page__heading(p, "Kept for backward, largest first");
	for (size_t i = 0; i < r->saved.procs_cnt && i < PROCESSES_SHOWN; i++)
		put_process(p, r, &r->saved.procs[i]);
	d.whole = saved_bytes(r);
	table__text(p, &saved_table, &d, r->saved.rows, shown, sizeof(*r->saved.rows));
	page__more(p, shown, r->saved.total, "rows (--top, --json)");
	page__item(p, 2, "checkpointed, the module under \"recompute\" (or one around it) does not keep it; what that "
		   "changes: memtrace estimate FILE --checkpoint MODULE");
}

static const struct column process_columns[] = {
	{ "pid", NULL, COL_NUMBER, OF(report_saved_proc, pid) },
	{ "passes", NULL, COL_COUNT, OF(report_saved_proc, passes) },
	{ "t", NULL, COL_TIME, OF(report_saved_proc, ts_ns) },
	{ "live", NULL, COL_BYTES, OF(report_saved_proc, live) },
	{ "bytes", NULL, COL_BYTES, OF(report_saved_proc, bytes) },
	{ "blocks", NULL, COL_COUNT, OF(report_saved_proc, cnt) },
	{ "no_room_bytes", NULL, COL_BYTES, OF(report_saved_proc, rest_bytes) },
	{ "no_room_blocks", NULL, COL_COUNT, OF(report_saved_proc, rest_cnt) },
	{ "last_bytes", NULL, COL_BYTES, OF(report_saved_proc, last_bytes) },
};

static const struct column block_columns[] = {
	{ "addr", NULL, COL_HEX, OF(report_saved_block, ptr) },
	{ "size", NULL, COL_BYTES, OF(report_saved_block, size) },
	{ "pid", NULL, COL_NUMBER, OF(report_saved_block, of.pid) },
	{ "dev", NULL, COL_DEV, OF(report_saved_block, of.dev) },
	{ "module", NULL, COL_TEXT, OF(report_saved_block, of.module), OR_NULL_IF_NOT(report_saved_block, of.module) },
	{ "module_root", NULL, COL_TEXT, OF(report_saved_block, of.root), OR_NULL_IF_NOT(report_saved_block, of.root) },
	{ "recompute", NULL, COL_TEXT, OF(report_saved_block, of.recompute), OR_NULL_IF_NOT(report_saved_block, of.recompute) },
	{ "op", NULL, COL_OR_NULL, OF(report_saved_block, of.op) },
	{ "region", NULL, COL_OR_NULL, OF(report_saved_block, of.region) },
	{ "node", NULL, COL_TEXT, OF(report_saved_block, of.node) },
};

void saved_json(struct json *j, const struct report *r, size_t top)
{
	static const struct table processes = TABLE(process_columns), blocks = TABLE(block_columns);
	struct drawn d = drawn_as(AS_JSON, r);

	if (!r->saved.procs_cnt)
		return;
	json__begin(j, "saved", '{');
	table__list(j, "processes", &processes, &d, r->saved.procs, r->saved.procs_cnt, sizeof(*r->saved.procs));
	table__list(j, "list", &saved_table, &d, r->saved.rows, r->saved.cnt < top ? r->saved.cnt : top,
		    sizeof(*r->saved.rows));
	json__u64(j, "total", r->saved.total);
	table__list(j, "blocks", &blocks, &d, r->saved.blocks, r->saved.blocks_cnt < top ? r->saved.blocks_cnt : top,
		    sizeof(*r->saved.blocks));
	json__end(j, '}');
}
