/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Terms are explained in place; docs/gpu.md has more. */
#include "view/tables/segments.h"

#include <inttypes.h>
#include <stdio.h>

#include "event/event.h"
#include "view/json.h"
#include "view/page.h"
#include "view/tables/private_pools.h"
#include "view/view.h"

static const struct {
	const char *key, *words;
} kinds[MT_SEG_MAX] = {
	[MT_SEG_DEVICE] = { "device", "cudaMalloc" },
	[MT_SEG_MANAGED] = { "managed", "managed" },
	[MT_SEG_PINNED] = { "pinned", "pinned host memory" },
	[MT_SEG_REGISTERED] = { "registered", "registered host pages" },
	[MT_SEG_ASYNC] = { "async", "stream-ordered" },
	[MT_SEG_ARRAY] = { "array", "arrays" },
	[MT_SEG_PHYSICAL] = { "physical", "virtual memory API" },
	[MT_SEG_IMPORTED] = { "imported", "imported from others" },
	[MT_SEG_NCCL] = { "nccl", "ncclMemAlloc" },
	[MT_SEG_GRAPH] = { "graph", "graph nodes" },
	[MT_SEG_RESERVED] = { "reserved", "reserved addresses" },
};

static const char *seg_kind_name(unsigned kind)
{
	return kind < MT_SEG_MAX && kinds[kind].key ? kinds[kind].key : "?";
}

const char *seg_kind_words(unsigned kind)
{
	return kind < MT_SEG_MAX && kinds[kind].words ? kinds[kind].words : "?";
}

const char *backend_name(unsigned backend)
{
	static const char *const names[BACKEND_MAX] = { "unknown", "caching", "expandable segments", "cudaMallocAsync",
							"no caching" };

	return backend < BACKEND_MAX ? names[backend] : "?";
}

int segments_are_seen(const struct report_segments *s)
{
	return s->seen || s->totals || s->requests || s->nvml;
}

double segments_fragmentation(const struct report_segments *s)
{
	uint64_t unused = s->inactive + s->free_cached;

	return unused && s->largest_free < unused ? 1 - (double)s->largest_free / (double)unused : 0;
}

/* --- text --------------------------------------------------------------------------------------------- */

/* "driver 24 MiB = cached 20 MiB (tensors …) + others …" */
static void add_layers(struct sentence *text, const struct report_segments *s)
{
	char b[24];

	sentence__add(text, "driver %s", fmt_bytes(b, s->driver));
	sentence__add(text, " = %s %s", s->totals ? "allocator" : "framework", fmt_bytes(b, s->allocator));
	sentence__add(text, " (tensors %s", fmt_bytes(b, s->tensors));
	if (s->rounding)
		sentence__add(text, " + rounding %s", fmt_bytes(b, s->rounding));
	if (s->late)
		sentence__add(text, " + used by a stream %s", fmt_bytes(b, s->late));
	if (s->private_free)
		sentence__add(text, " + private pools %s", fmt_bytes(b, s->private_free));
	sentence__add(text, " + %s %s", s->totals ? "free" : "unused", fmt_bytes(b, s->unused));
	sentence__add(text, ") + others %s", fmt_bytes(b, s->others));
	if (s->communication)
		sentence__add(text, " (communication %s)", fmt_bytes(b, s->communication));
}

/* Of a process that ended, or gave all back: the highest values are more useful than zeros. */
static void add_peaks(struct sentence *text, const struct report_segments *s)
{
	char a[24], b[24], c[24];

	sentence__add(text, "all given back: driver at most %s, allocator %s, of it in tensors %s", fmt_bytes(a, s->peak),
		      fmt_bytes(b, s->reserved_peak), fmt_bytes(c, s->allocated_peak));
}

static void put_free(struct page *p, const struct report_segments *s)
{
	char a[24], b[24], c[24], d[24];

	if (!s->totals || !(s->inactive + s->free_cached))
		return;
	page__itemf(p, 2, "free in segments seen: %s beside live blocks, %s in whole segments; largest piece %s, fragmentation "
		    "%s (1 - largest / free)", fmt_bytes(a, s->inactive), fmt_bytes(b, s->free_cached),
		    fmt_bytes(c, s->largest_free), fmt_share(d, segments_fragmentation(s), 1));
}

/* record_stream */
static void put_late(struct page *p, const struct report_segments *s)
{
	char a[24], b[24], c[24], d[24];

	if (!s->late_blocks)
		return;
	page__itemf(p, 2, "freed while another stream used it (record_stream): %s blocks, %s now (peak %s); active %s",
		    fmt_count(a, (double)s->late_blocks), fmt_bytes(b, s->late), fmt_bytes(c, s->late_peak),
		    fmt_bytes(d, s->allocated + s->late));
}

static void put_before(struct page *p, const struct report_segments *s)
{
	char a[24], b[24];

	if (!s->allocated_before && !s->reserved_before)
		return;
	page__itemf(p, 2, "from before the attach: %s in blocks that nothing has used since, %s in segments",
		    fmt_bytes(a, s->allocated_before), fmt_bytes(b, s->reserved_before));
}

static void put_kinds(struct page *p, const char *title, const struct report_seg *segs)
{
	struct sentence text = { 0 };
	char a[24], b[24];

	for (unsigned i = 1; i < MT_SEG_MAX; i++)
		if (segs[i].allocs)
			sentence__add(&text, "%s %s %s (peak %s)", text.len ? "," : title, kinds[i].words,
				      fmt_bytes(a, segs[i].live), fmt_bytes(b, segs[i].peak));
	if (text.len)
		page__item(p, 2, text.text);
}

static void put_comm(struct page *p, const struct report_segments *s)
{
	char a[24], b[24], c[24], d[24];

	if (!s->comm_peak && !s->comms_made && !s->comms_ended)
		return;
	page__itemf(p, 2, "communication: %s (peak %s); communicators made %s, ended %s", fmt_bytes(a, s->comm),
		    fmt_bytes(b, s->comm_peak), fmt_count(c, (double)s->comms_made), fmt_count(d, (double)s->comms_ended));
}

static void put_graphs(struct page *p, const struct report_segments *s)
{
	char a[24], b[24], c[24];

	if (!s->graphs)
		return;
	page__itemf(p, 2, "graphs with memory of their own: %s, launched %s times; the largest needs %s while it runs, which "
		    "the driver keeps until a trim", fmt_count(a, (double)s->graphs), fmt_count(b, (double)s->launches),
		    fmt_bytes(c, s->graph_peak));
}

static void put_fails(struct page *p, const struct report_seg *segs)
{
	char a[24], b[24];

	for (unsigned i = 1; i < MT_SEG_MAX; i++) {
		if (!segs[i].fails)
			continue;
		page__style(p, STYLE_RED);
		page__printf(p, "  %s refused %s times, last %s (code %u)", kinds[i].words,
			     fmt_count(a, (double)segs[i].fails), fmt_bytes(b, segs[i].fail_bytes_last),
			     segs[i].fail_code_last);
		page__style(p, STYLE_PLAIN);
		page__end_line(p);
	}
}

static void put_nvml(struct page *p, const struct report_segments *s)
{
	struct sentence text = { 0 };
	char a[24], b[24];

	if (!s->nvml)
		return;
	sentence__add(&text, "NVML: %s of the device in use", fmt_bytes(a, s->nvml_used));
	if (s->nvml_procs)
		sentence__add(&text, ", %s by these processes: %s more than the driver was seen to give (contexts, code, from "
			      "before the attach)", fmt_bytes(a, s->nvml_own), fmt_bytes(b, s->residual));
	page__item(p, 2, text.text);
}

static void put_counted(struct page *p, const struct report_segments *s)
{
	struct sentence text = { 0 };
	char a[24], b[24];

	if (!s->counted)
		return;
	sentence__add(&text, "the allocator's own counters, read and not traced: at most %s given out, %s reserved, since the "
		      "process began", fmt_bytes(a, s->counted_allocated_peak), fmt_bytes(b, s->counted_reserved_peak));
	if (s->counted > 1)
		sentence__add(&text, ", in the one of %u processes that has most", s->counted);
	if (s->counted_resets)
		sentence__add(&text, "; the job reset its peaks %s times", fmt_count(a, (double)s->counted_resets));
	page__item(p, 2, text.text);
}

void segments_text(struct page *p, const struct report *r, const struct report_dev *d, int is_verbose)
{
	const struct report_segments *s = &d->segs;
	struct sentence text = { 0 };
	char a[24], b[24];

	if (!segments_are_seen(s))
		return;
	if (!s->driver && s->totals && s->peak)
		add_peaks(&text, s);
	else
		add_layers(&text, s);
	if (s->backend)
		sentence__add(&text, "   [%s]", backend_name(s->backend));
	page__item(p, 2, text.text);
	if (!is_verbose) {
		put_free(p, s);
		private_pools_text(p, r, d, 0);
		put_fails(p, s->kinds);
		return;
	}
	if (s->peak) {
		text.len = 0;
		sentence__add(&text, "segments since the attach: %s   peak %s", fmt_bytes(a, s->live), fmt_bytes(b, s->peak));
		if (s->peak_ts_ns >= r->run.start_ts_ns)
			sentence__add(&text, " after %s", fmt_ns(a, s->peak_ts_ns - r->run.start_ts_ns));
		page__item(p, 2, text.text);
	}
	put_free(p, s);
	put_late(p, s);
	put_before(p, s);
	put_kinds(p, "by kind:", s->kinds);
	put_comm(p, s);
	put_graphs(p, s);
	private_pools_text(p, r, d, 1);
	if (s->resets || s->trims)
		page__itemf(p, 2, "resets %s, trims %s", fmt_count(a, (double)s->resets), fmt_count(b, (double)s->trims));
	put_fails(p, s->kinds);
	put_counted(p, s);
	put_nvml(p, s);
}

void segments_text_host(struct page *p, const struct report *r)
{
	unsigned any = 0;
	char a[24], b[24];

	for (unsigned i = 1; i < MT_SEG_MAX; i++)
		any |= r->driver.unknown[i].allocs || r->driver.unknown[i].fails;
	if (!any)
		return;
	page__heading(p, "Driver calls of no known device");
	put_kinds(p, "given:", r->driver.unknown);
	if (r->driver.unknown_comm_peak)
		page__line(p, "  of it for communication: %s (peak %s)", fmt_bytes(a, r->driver.unknown_comm),
			   fmt_bytes(b, r->driver.unknown_comm_peak));
	put_fails(p, r->driver.unknown);
}

/* --- JSON --------------------------------------------------------------------------------------------- */

static void put_json_kinds(struct json *j, const struct report_seg *segs)
{
	json__begin(j, "kinds", '{');
	for (unsigned i = 1; i < MT_SEG_MAX; i++) {
		const struct report_seg *k = &segs[i];

		if (!k->allocs && !k->fails && !k->live)
			continue;
		json__begin_flat(j, seg_kind_name(i), '{');
		json__u64(j, "live", k->live);
		json__u64(j, "peak", k->peak);
		json__u64(j, "allocs", k->allocs);
		json__u64(j, "frees", k->frees);
		json__u64(j, "dropped", k->dropped);
		json__u64(j, "fails", k->fails);
		json__u64(j, "fail_bytes_last", k->fail_bytes_last);
		json__u64(j, "fail_code_last", k->fail_code_last);
		json__end(j, '}');
	}
	json__end(j, '}');
}

static void put_json_layers(struct json *j, const struct report_segments *s)
{
	json__begin_flat(j, "layers", '{');
	json__u64(j, "driver", s->driver);
	json__u64(j, "allocator", s->allocator);
	json__u64(j, "tensors", s->tensors);
	json__u64(j, "rounding", s->rounding);
	json__u64(j, "late", s->late);
	json__u64(j, "private_pools", s->private_free);
	json__u64(j, "free", s->unused);
	json__u64(j, "others", s->others);
	json__u64(j, "communication", s->communication);
	json__end(j, '}');
}

/* --- a row a segment ------------------------------------------------------------------------------------- */

static void device(struct cell *c, const void *row)
{
	uint8_t dev = ((const struct report_seg_row *)row)->dev;

	c->text = dev ? dev_name(dev, c->buf) : "-";
}

static void kind(struct cell *c, const void *row)
{
	const struct report_seg_row *s = row;

	c->text = c->d->as == AS_JSON ? seg_kind_name(s->kind) : s->is_comm ? "communication" : seg_kind_words(s->kind);
}

static void unused(struct cell *c, const void *row)
{
	const struct report_seg_row *s = row;

	c->num = s->is_cached ? s->size - s->used : 0;
}

static void fragmentation(struct cell *c, const void *row)
{
	const struct report_seg_row *s = row;
	uint64_t free = s->size - s->used;
	double part = free ? 1 - (double)s->largest_free / (double)free : 0;

	if (!s->is_cached)
		return;
	c->num = (uint64_t)(part * 1e6);
	c->text = fmt_share(c->buf, part, 1);
}

static void pool(struct cell *c, const void *row)
{
	const struct report_seg_row *s = row;
	const struct report *r = c->d->r;
	char whose[80] = "";

	if (!s->is_private)
		return;
	for (size_t i = 0; r && c->d->as == AS_TUI && i < r->driver.pools_cnt; i++) {
		const struct report_pool *v = &r->driver.pools[i];

		if (v->pid == s->pid && v->dev == s->dev && v->id[0] == s->pool_id[0] && v->id[1] == s->pool_id[1])
			pool_graphs(whose, v);
	}
	cell__say(c, "%" PRIu64 ":%" PRIu64 "%s%s", s->pool_id[0], s->pool_id[1], *whose ? " graph " : "", whose);
}

/* A segment without blocks has no known inside: a library's. */
#define INSIDE REPORTED_IF(report_seg_row, is_cached)

static const struct column columns[] = {
	{ "kind", "kind", COL_TEXT, VIA(kind), TUI(2, 18, .wide = 1) },
	{ NULL, "device", COL_TEXT, VIA(device), TUI(1, 7) },
	{ "pid", "pid", COL_NUMBER, OF(report_seg_row, pid), TUI(9, 8, 100) },
	{ "addr", "address", COL_HEX, OF(report_seg_row, addr), TUI(10, 14, 110) },
	{ "size", "size", COL_BYTES, OF(report_seg_row, size), TUI(3, 9) },
	{ "communication", NULL, COL_BOOL, OF(report_seg_row, is_comm) },
	{ "cached", NULL, COL_BOOL, OF(report_seg_row, is_cached) },
	{ "used", "used", COL_BYTES, OF(report_seg_row, used), INSIDE, TUI(4, 9) },
	{ NULL, "free", COL_BYTES, VIA(unused), INSIDE, TUI(5, 9) },
	{ "largest_free", "largest", COL_BYTES, OF(report_seg_row, largest_free), INSIDE, TUI(6, 9) },
	{ NULL, "fragm.", COL_TEXT, VIA(fragmentation), INSIDE, TUI(7, 7) },
	{ "blocks", "blocks", COL_COUNT, OF(report_seg_row, blocks), TUI(8, 7, 90) },
	{ "private_pool", "private pool", COL_TEXT, VIA(pool), IF(report_seg_row, is_private), TUI(11, 14, 120, .wide = 1) },
};

const struct table segment_table = TABLE(columns);

static void put_json_rows(struct json *j, const struct report *r, uint8_t dev)
{
	struct drawn d = drawn_as(AS_JSON, r);

	json__begin(j, "largest", '[');
	for (size_t i = 0; i < r->driver.cnt; i++)
		if (r->driver.rows[i].dev == dev)
			table__object(j, NULL, &segment_table, &d, &r->driver.rows[i]);
	json__end(j, ']');
}

static void put_json_allocator(struct json *j, const struct report_segments *s)
{
	if (s->totals) {
		json__u64(j, "allocated", s->allocated);
		json__u64(j, "allocated_peak", s->allocated_peak);
		json__u64(j, "allocated_before", s->allocated_before);
		json__u64(j, "reserved", s->reserved);
		json__u64(j, "reserved_peak", s->reserved_peak);
		json__u64(j, "reserved_before", s->reserved_before);
		json__u64(j, "inactive", s->inactive);
		json__u64(j, "free_cached", s->free_cached);
		json__u64(j, "largest_free", s->largest_free);
		json__f64(j, "fragmentation", segments_fragmentation(s));
	}
	if (s->requests) {
		json__u64(j, "requested", s->requested);
		json__u64(j, "requested_peak", s->requested_peak);
		json__u64(j, "rounding", s->rounding);
	}
	if (s->totals && s->requests) {
		json__u64(j, "active", s->allocated + s->late);
		json__u64(j, "late", s->late);
		json__u64(j, "late_peak", s->late_peak);
		json__u64(j, "late_blocks", s->late_blocks);
	}
}

void segments_json(struct json *j, const struct report *r, const struct report_dev *d)
{
	const struct report_segments *s = &d->segs;

	if (!segments_are_seen(s))
		return;
	json__begin(j, "segments", '{');
	json__u64(j, "live", s->live);
	json__u64(j, "peak", s->peak);
	json__u64(j, "peak_ns", s->peak_ts_ns ? s->peak_ts_ns + (uint64_t)r->run.epoch_off_ns : 0);
	json__str(j, "backend", backend_name(s->backend));
	json__u64(j, "cached", s->cached);
	json__u64(j, "other", s->other);
	put_json_allocator(j, s);
	json__u64(j, "resets", s->resets);
	json__u64(j, "trims", s->trims);
	json__begin_flat(j, "communication", '{');
	json__u64(j, "live", s->comm);
	json__u64(j, "peak", s->comm_peak);
	json__u64(j, "communicators_made", s->comms_made);
	json__u64(j, "communicators_ended", s->comms_ended);
	json__end(j, '}');
	json__begin_flat(j, "graphs", '{');
	json__u64(j, "with_memory", s->graphs);
	json__u64(j, "launches", s->launches);
	json__u64(j, "largest", s->graph_peak);
	json__end(j, '}');
	if (s->counted) {
		json__begin_flat(j, "allocator", '{');
		json__u64(j, "processes", s->counted);
		json__u64(j, "allocated_peak", s->counted_allocated_peak);
		json__u64(j, "reserved_peak", s->counted_reserved_peak);
		json__u64(j, "peak_resets", s->counted_resets);
		json__end(j, '}');
	}
	put_json_layers(j, s);
	put_json_kinds(j, s->kinds);
	private_pools_json(j, r, d->dev);
	put_json_rows(j, r, d->dev);
	json__end(j, '}');
	if (!s->nvml)
		return;
	json__begin_flat(j, "nvml", '{');
	json__u64(j, "used", s->nvml_used);
	json__u64(j, "used_peak", s->nvml_used_peak);
	if (s->nvml_procs) {
		json__u64(j, "processes", s->nvml_own);
		json__u64(j, "processes_peak", s->nvml_own_peak);
		json__u64(j, "residual", s->residual);
	}
	json__end(j, '}');
}

void segments_json_host(struct json *j, const struct report *r)
{
	unsigned any = 0;

	for (unsigned i = 1; i < MT_SEG_MAX; i++)
		any |= r->driver.unknown[i].allocs || r->driver.unknown[i].fails;
	if (!any)
		return;
	json__begin(j, "no_device", '{');
	put_json_kinds(j, r->driver.unknown);
	json__begin_flat(j, "communication", '{');
	json__u64(j, "live", r->driver.unknown_comm);
	json__u64(j, "peak", r->driver.unknown_comm_peak);
	json__end(j, '}');
	json__end(j, '}');
}
