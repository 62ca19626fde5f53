/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"

enum { PEAK = 1, REFUSED = 2 };

static int has_procs(const struct drawn *d)
{
	return d->r->procs_cnt > 1;
}

/* Then the device has a column, and the stream, where it was reported. */
static int has_gpu_blocks(const struct drawn *d)
{
	for (size_t i = 0; i < d->r->peak_blocks.cnt; i++)
		if (d->r->peak_blocks.rows[i].dev >= MT_DEV_CUDA0)
			return 1;
	return 0;
}

static void category_or_none(struct cell *c, uint8_t cat)
{
	if (c->d->as == AS_TUI && !report_has_cats(c->d->r))
		c->text = "-";
	else
		c->text = category_name((enum category)(cat < CAT_MAX ? cat : CAT_UNKNOWN));
}

/* --- blocks ---------------------------------------------------------------------------------------------- */

static void category(struct cell *c, const void *row)
{
	category_or_none(c, ((const struct report_block *)row)->cat);
}

/* Of its device's peak. */
static void share(struct cell *c, const void *row)
{
	const struct report_block *b = row;
	const struct report_dev *of = report_dev_find(c->d->r, b->dev);

	c->num = b->size;
	if (c->d->as == AS_TEXT)
		c->whole = of ? of->peak : 0;
}

/* At the peak. */
static void age(struct cell *c, const void *row)
{
	const struct report_block *b = row;
	const struct report_dev *of = report_dev_find(c->d->r, b->dev);

	if (of && of->peak_ts_ns >= b->allocated_ts_ns)
		c->num = of->peak_ts_ns - b->allocated_ts_ns;
	else if (c->d->as == AS_TEXT)
		c->text = "?";
}

static void lived(struct cell *c, const void *row)
{
	const struct report_block *b = row;

	c->num = b->freed_ts_ns > b->allocated_ts_ns ? b->freed_ts_ns - b->allocated_ts_ns : 0;
	c->text = b->freed_ts_ns ? NULL : "live";
}

/* Its name in Python, or its maker. A gradient has its parameter's name. */
static void title(struct cell *c, const void *row)
{
	const struct report_block *b = row;

	if (b->name && b->cat == CAT_GRADIENT)
		cell__say(c, "%s.grad", b->name);
	else
		c->text = b->name ? b->name : b->op && b->op[0] ? b->op : "-";
}

static void region(struct cell *c, const void *row)
{
	const struct report_block *b = row;

	c->text = b->region && b->region[0] ? b->region : c->d->as == AS_JSON ? NULL : "-";
}

/* The module whose forward or backward made it: "Net.layers.0.linear1". */
static void module(struct cell *c, const void *row)
{
	const struct report_block *b = row;

	c->text = b->module ? b->module : c->d->as == AS_JSON ? NULL : "-";
	if (b->module && c->d->as != AS_JSON)
		cell__say(c, "%s%s%s", b->root, b->module[0] ? "." : "", b->module);
}

/* If modules are known they are more useful than regions. */
static int has_modules(const struct drawn *d)
{
	return d->r->modules.cnt > 0;
}

static int has_no_modules(const struct drawn *d)
{
	return !has_modules(d);
}

/* Where the name stands in its place: in details. */
static void made_by(struct cell *c, const void *row)
{
	const struct report_block *b = row;

	c->text = b->name ? b->op : NULL;
}

static void stream(struct cell *c, const void *row)
{
	const struct report_block *b = row;

	c->num = b->stream;
	if (!b->has_stream)
		return;
	if (c->d->as == AS_TEXT && !b->stream)
		c->text = "default";
	else if (c->d->as == AS_TEXT)
		cell__say(c, "%08x", b->stream);
}

#define HAS_STREAM IF(report_block, has_stream)

static const struct column block_columns[] = {
	{ "id", NULL, COL_NUMBER, OF(report_block, id) },
	{ "dev", "device", COL_DEV, OF(report_block, dev), .only = PEAK, .shown_if = has_gpu_blocks, TEXT(7, 7, .gap = 2),
	  TUI(4, 7, 100) },
	{ "ptr", NULL, COL_HEX, OF(report_block, ptr) },
	{ "size", "size", COL_BYTES, OF(report_block, size), TEXT(1, 9), TUI(1, 9) },
	{ NULL, "of peak", COL_SHARE, VIA(share), TEXT(2, 8), TUI(2, 8) },
	{ NULL, "age", COL_NS, VIA(age), TEXT(3, 11), TUI(3, 9) },
	{ "cat", "category", COL_TEXT, VIA(category), TUI(5, 15, 110) },
	{ NULL, "operator", COL_TEXT, VIA(title), .is_path = 1, TEXT(4, 16, .wide = 2, .gap = 2), TUI(7, 16, .wide = 1) },
	{ "op", NULL, COL_OR_NULL, OF(report_block, op) },
	{ "region", "region", COL_OR_NULL, VIA(region), .shown_if = has_no_modules, TEXT(5, 12, .wide = 1, .gap = 1),
	  TUI(8, 16, .wide = 1) },
	{ NULL, "module", COL_TEXT, VIA(module), .is_path = 1, .shown_if = has_modules, TEXT(5, 16, .wide = 2, .gap = 1),
	  TUI(8, 16, .wide = 2) },
	{ NULL, "region", COL_TEXT, VIA(region), .shown_if = has_modules, TUI(11, 16, UINT16_MAX) },
	{ "module", NULL, COL_TEXT, OF(report_block, module), OR_NULL_IF_NOT(report_block, module) },
	{ "module_root", NULL, COL_TEXT, OF(report_block, root), OR_NULL_IF_NOT(report_block, root) },
	{ "pid", "process", COL_NUMBER, OF(report_block, pid), .only = PEAK, .shown_if = has_procs, TEXT(6, 9) },
	{ "tid", "thread", COL_NUMBER, OF(report_block, tid), .only = PEAK, TUI(6, 8, 90) },
	{ "name", NULL, COL_TEXT, OF(report_block, name), IF(report_block, name), .only = PEAK },
	{ "stream", NULL, COL_NUMBER, VIA(stream), HAS_STREAM, .only = PEAK },
	{ NULL, "stream", COL_TEXT, VIA(stream), HAS_STREAM, .shown_if = has_gpu_blocks, TEXT(8, 8, .gap = 1) },
	{ "born_ns", NULL, COL_TIME, OF(report_block, allocated_ts_ns) },
	{ "freed_ns", NULL, COL_TIME, OF(report_block, freed_ts_ns), .only = PEAK },
	{ NULL, "freed after", COL_NS, VIA(lived), TUI(9, 11, 130) },
	{ NULL, "made by", COL_TEXT, VIA(made_by), TUI(10, 16, UINT16_MAX) },
};

const struct table block_table = TABLE(block_columns, .variant = PEAK);
const struct table refused_table = TABLE(block_columns, .variant = REFUSED);

void blocks_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	size_t cnt = r->peak_blocks.cnt < top ? r->peak_blocks.cnt : top;

	if (!cnt)
		return;
	page__heading(p, "Largest blocks at the peak");
	table__text(p, &block_table, &d, r->peak_blocks.rows, cnt, sizeof(*r->peak_blocks.rows));
}

void blocks_json(struct json *j, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "peak_blocks", &block_table, &d, r->peak_blocks.rows,
		    r->peak_blocks.cnt < top ? r->peak_blocks.cnt : top, sizeof(*r->peak_blocks.rows));
}

/* --- names ----------------------------------------------------------------------------------------------- */

static void full_name(struct cell *c, const void *row)
{
	const struct report_tensor *t = row;

	tensor_name(c->buf, sizeof(c->buf), 0, c->d->as == AS_TEXT ? t->root : "", t->key, t->path);
	c->text = c->buf;
}

static void kind(struct cell *c, const void *row)
{
	unsigned of = ((const struct report_tensor *)row)->kind;

	c->text = c->d->as == AS_JSON ? tensor_kind_key(of) : tensor_kind_words(of);
}

static void tensor_category(struct cell *c, const void *row)
{
	category_or_none(c, ((const struct report_tensor *)row)->cat);
}

/* "float32[512,512]" as two fields; the text comes from a recording: it may be anything. */
static void put_type(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const char *type = ((const struct report_tensor *)row)->type;
	size_t len = strcspn(type, "[");
	char dtype[32];

	(void)d;
	snprintf(dtype, sizeof(dtype), "%.*s", (int)(len < 31 ? len : 31), type);
	json__str(j, key, dtype);
	if (!type[len] || type[len + 1] == '?') {
		json__null(j, "shape");
		return;
	}
	json__begin(j, "shape", '[');
	for (const char *c = type + len + 1; *c >= '0' && *c <= '9';) {
		char *end;

		json__u64(j, NULL, strtoull(c, &end, 10));
		c = *end == ',' ? end + 1 : end;
	}
	json__end(j, ']');
}

static const struct column tensor_columns[] = {
	{ "name", NULL, COL_TEXT, OF(report_tensor, path) },
	{ NULL, "name in Python", COL_TEXT, VIA(full_name), .is_path = 1, TEXT(3, 20, .wide = 2, .gap = 2, .head = "name"),
	  TUI(1, 24, .wide = 1) },
	{ "root", "of", COL_TEXT, OF(report_tensor, root), TUI(5, 14, 110) },
	{ "kind", "kind", COL_TEXT, VIA(kind), TEXT(2, 15, .gap = 2), TUI(2, 15) },
	{ "state", NULL, COL_OR_NULL, OF(report_tensor, key) },
	{ "dtype", "type", COL_TEXT, OF(report_tensor, type), .json = put_type, TEXT(4, 12, .wide = 1, .gap = 2), TUI(4, 20) },
	{ "bytes", "size", COL_BYTES, OF(report_tensor, size), TEXT(1, 9), TUI(3, 9) },
	{ "cat", "category", COL_TEXT, VIA(tensor_category), TUI(6, 15, 120) },
	{ "dev", "device", COL_DEV, OF(report_tensor, dev), TUI(7, 7, 130) },
	{ "ptr", "address", COL_HEX, OF(report_tensor, ptr), TUI(9, 14, 140) },
	{ "id", NULL, COL_NUMBER, OF(report_tensor, id) },
	{ "pid", "pid", COL_NUMBER, OF(report_tensor, pid), .shown_if = has_procs, TEXT(5, 9, .head = "process"),
	  TUI(8, 8, 130) },
};

const struct table tensor_table = TABLE(tensor_columns);

/* By kind: blocks with a name, and those of them whose category differs. */
static void put_named(struct page *p, const struct report *r)
{
	char bytes[24], cnt[24];

	for (unsigned k = 1; k < EV_TENSOR_MAX; k++) {
		const struct report_named *n = &r->names.by_kind[k];

		if (!n->cnt)
			continue;
		page__printf(p, "  %s: %s in %s", tensor_kind_words(k), fmt_bytes(bytes, n->bytes),
			     fmt_count(cnt, (double)n->cnt));
		if (n->differ_cnt)
			page__printf(p, ", %s (%s) of them in another category", fmt_bytes(bytes, n->differ_bytes),
				     fmt_count(cnt, (double)n->differ_cnt));
		page__end_line(p);
	}
}

void tensors_text(struct page *p, const struct report *r, size_t top, int is_asked)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	size_t cnt = r->names.cnt < top ? r->names.cnt : top;

	if (!r->names.total && is_asked)
		page__item(p, 2, "No named tensor is alive: a job that has ended has none. What had a name at the peak: "
				 "report --at peak --by name");
	if (!r->names.total)
		return;
	page__heading(p, "Named tensors that are alive, by size");
	put_named(p, r);
	table__text(p, &tensor_table, &d, r->names.rows, cnt, sizeof(*r->names.rows));
	page__more(p, cnt, r->names.total, "(--top, --json)");
}

static const struct column named_columns[] = {
	{ "count", NULL, COL_COUNT, OF(report_named, cnt) },
	{ "bytes", NULL, COL_BYTES, OF(report_named, bytes) },
	{ "other_category_count", NULL, COL_COUNT, OF(report_named, differ_cnt) },
	{ "other_category_bytes", NULL, COL_BYTES, OF(report_named, differ_bytes) },
};

static const struct table named_table = TABLE(named_columns);

void tensors_json(struct json *j, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_JSON, r);

	if (!r->names.total)
		return;
	json__begin(j, "names", '{');
	json__begin(j, "kinds", '{');
	for (unsigned k = 1; k < EV_TENSOR_MAX; k++)
		table__object(j, tensor_kind_key(k), &named_table, &d, &r->names.by_kind[k]);
	json__end(j, '}');
	table__list(j, "list", &tensor_table, &d, r->names.rows, r->names.cnt < top ? r->names.cnt : top,
		    sizeof(*r->names.rows));
	json__u64(j, "total", r->names.total);
	json__end(j, '}');
}
