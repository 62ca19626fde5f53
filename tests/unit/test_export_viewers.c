/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Formats for viewers, fed with what no real job does: every kind of decision, hostile names, sizes up to 2^57,
 * deaths without allocations, stacks that do not close. What leaves must still be well-formed, told by jansson, by a
 * walk over protobuf's wire format and by sqlite; a disk that is full must be an error. That numbers are right on
 * real recordings is tests/e2e/test_viewers.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/text.h"
#include "timeline/labels.h"
#include "unit/view_fix.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/fold/heapsum.h"
#include "view/fold/live.h"
#include "view/fold/numbering.h"
#include "view/fold/ranges.h"
#include "view/fold/stacks.h"

static const struct export_format *const viewers[] = { &export_torch_snapshot, &export_perfetto, &export_chrome,
						      &export_pprof, &export_folded, &export_openmetrics,
						      &export_op_trace, &export_trace_svg };
#define VIEWERS (sizeof(viewers) / sizeof(viewers[0]))

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

/* --- the streams ------------------------------------------------------------------------------------- */

struct feed_fix {
	struct names *names;
	name_id name[8];
	struct report report;
	struct labels *labels;
	int is_wild; /* every field may be anything */
};

static void fix_init(struct feed_fix *f, int is_wild)
{
	static const char *const texts[8] = { HOSTILE, "aten::addmm", "Optimizer.step#Adam.step", "a;b c", "AddmmBackward0",
					      "aten::\xe5\xbc\xa0\xe9\x87\x8f", "\xff", "x" };
	char huge[NAME_BYTES_MAX];

	memset(f, 0, sizeof(*f));
	f->names = names__new();
	memset(huge, '\xf0', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	for (int i = 0; i < 8; i++)
		f->name[i] = names__add(f->names, i == 7 ? huge : texts[i]);
	f->report = is_wild ? fix_hostile() : fix_report();
	f->is_wild = is_wild;
	seed = 7;
}

static void fix_done(struct feed_fix *f)
{
	labels__free(f->labels);
	names__free(f->names);
}

/* An address follows from the block, so that blocks do not overlap: no two live ones share an id. */
static struct tl_event fix_event(const struct feed_fix *f, uint32_t i)
{
	uint64_t id = 1 + rnd(200);
	struct tl_event ev = {
		.ts_ns = FIX_T0 + i * 1000, .id = id, .ptr = 0x7f0000000000 + id * 65536, .size = 512 * id, .pid = 4242,
		.tid = 4242 + rnd(3), .op = f->name[rnd(8)], .region = f->name[rnd(8)], .dev = MT_DEV_CPU,
		.kind = (uint8_t)(1 + rnd(11)), .cat = (uint8_t)rnd(CAT_MAX), .depth = (uint8_t)rnd(6), .version = rnd(3),
	};

	if (!f->is_wild)
		return ev;
	ev.kind = (uint8_t)rnd(256) < 200 ? ev.kind : (uint8_t)rnd(256);
	ev.dev = (uint8_t)(rnd(4) ? ev.dev : rnd(256));
	ev.cat = (uint8_t)rnd(256);
	ev.depth = (uint8_t)rnd(256);
	ev.pid = rnd(4) ? ev.pid : rnd(UINT32_MAX);
	ev.tid = rnd(4) ? ev.tid : rnd(UINT32_MAX);
	ev.op = (name_id){ rnd(4) ? ev.op.v : rnd(1000) };
	ev.ptr = rnd(9) ? ev.ptr : UINT64_MAX - rnd(3);
	ev.size = rnd(9) ? ev.size : rnd(2) ? TL_SIZE_UNKNOWN : 1ull << rnd(58);
	return ev;
}

/* Of the last failed call, 0 if there was none. */
static int run_to(const struct export_format *fmt, struct feed_fix *f, FILE *out, const char *path, uint32_t cnt)
{
	struct export_to to = { .out = out, .names = f->names, .path = path, .dev = -1, .ops = 1, .labels = f->labels,
				.report = &f->report };
	struct export_ctx *c = NULL;
	int r = export_begin(fmt, &c, &to), e;

	for (uint32_t i = 0; i < cnt && !r; i++) {
		struct tl_event ev = fix_event(f, i);

		r = fmt->event(c, &ev, FIX_EPOCH_OFF);
	}
	e = c ? export_end(fmt, c, r ? NULL : &f->report) : 0;
	return r ? r : e;
}

static char *run_text(const struct export_format *fmt, struct feed_fix *f, const char *path, uint32_t cnt, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	assert_int_equal(run_to(fmt, f, out, path, cnt), 0);
	fclose(out);
	return text;
}

/* --- well-formed -------------------------------------------------------------------------------------- */

static void check_json(const char *text, size_t len)
{
	json_error_t e;
	json_t *v = json_loadb(text, len, JSON_DECODE_INT_AS_REAL, &e);

	if (!v)
		print_message("line %d column %d: %s\n", e.line, e.column, e.text);
	assert_non_null(v);
	json_decref(v);
}

static uint64_t varint(const unsigned char *p, size_t len, size_t *at)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		assert_true(*at < len);
		v |= (uint64_t)(p[*at] & 0x7f) << (shift & 63);
		if (!(p[(*at)++] & 0x80))
			return v;
	}
	fail_msg("a varint of more than ten bytes");
	return 0;
}

/* Every field of a message is whole. */
static size_t check_wire(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t fields = 0;

	for (size_t at = 0; at < len; fields++) {
		uint64_t tag = varint(p, len, &at), n;

		assert_true(tag >> 3 && tag >> 3 < 1 << 29);
		assert_true((tag & 7) == 0 || (tag & 7) == 2);
		n = varint(p, len, &at);
		if ((tag & 7) == 2) {
			assert_true(n <= len - at);
			at += n;
		}
	}
	return fields;
}

static char *unzip(const char *text, size_t len, size_t *ret_len)
{
	char *out = malloc(8 << 20);
	z_stream z = { .next_in = (Bytef *)text, .avail_in = (uInt)len, .next_out = (Bytef *)out, .avail_out = 8 << 20 };

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	*ret_len = z.total_out;
	inflateEnd(&z);
	return out;
}

/* A line's end is the only control character, and nothing is no UTF-8. */
static void check_utf8(const char *text, size_t len)
{
	while (len) {
		uint32_t cp;
		size_t n = utf8_decode(text, len, &cp);

		assert_false(cp == UTF8_BAD && n == 1);
		assert_true(cp == '\n' || !utf8_is_unsafe(cp));
		text += n;
		len -= n;
	}
}

/* Each line is an object. */
static void check_lines(char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		check_json(line, strlen(line));
}

static void check_format(struct feed_fix *f, uint32_t cnt)
{
	char *text, *plain;
	size_t len, plain_len;

	text = run_text(&export_torch_snapshot, f, "x.json", cnt, &len);
	check_json(text, len);
	free(text);
	text = run_text(&export_torch_snapshot, f, NULL, cnt, &len);
	assert_memory_equal(text, "\x80\x02}(", 4);
	assert_memory_equal(text + len - 2, "u.", 2);
	free(text);
	text = run_text(&export_chrome, f, NULL, cnt, &len);
	check_json(text, len);
	free(text);
	text = run_text(&export_perfetto, f, NULL, cnt, &len);
	assert_true(check_wire(text, len) >= cnt / 20);
	free(text);
	text = run_text(&export_pprof, f, "x.pb", cnt, &len);
	plain = unzip(text, len, &plain_len);
	assert_true(check_wire(plain, plain_len) > 200);
	free(plain);
	free(text);
	text = run_text(&export_pprof, f, "x.pb.gz", cnt, &len); /* whoever opened the file compresses */
	assert_true(check_wire(text, len) > 200);
	free(text);
	text = run_text(&export_folded, f, NULL, cnt, &len);
	check_utf8(text, len);
	free(text);
	text = run_text(&export_openmetrics, f, NULL, cnt, &len);
	check_utf8(text, len);
	assert_string_equal(text + len - 6, "# EOF\n");
	free(text);
	text = run_text(&export_op_trace, f, NULL, cnt, &len);
	check_utf8(text, len);
	check_lines(text);
	free(text);
	text = run_text(&export_trace_svg, f, NULL, cnt, &len);
	check_utf8(text, len);
	assert_string_equal(text + len - 7, "</svg>\n");
	free(text);
}

static void test_well_formed(void **state)
{
	struct feed_fix f;

	(void)state;
	for (int wild = 0; wild < 2; wild++) {
		fix_init(&f, wild);
		check_format(&f, 0);
		check_format(&f, 5000);
		assert_int_equal(labels__new(&f.labels, NULL), 0);
		for (uint32_t i = 0; i < 300; i++) {
			struct tl_event ev = fix_event(&f, i);

			ev.kind = i % 2 ? TL_FINAL : TL_PREEXISTING;
			ev.cat = (uint8_t)(i % CAT_MAX);
			ev.id = i + 1;
			(void)labels__event(f.labels, &ev);
		}
		check_format(&f, 5000);
		fix_done(&f);
	}
}

/* Microseconds: what ends 4,999 of them after the first event says so. */
static void test_chrome_times(void **state)
{
	struct feed_fix f;
	double last = 0;
	size_t len;
	char *text;

	(void)state;
	fix_init(&f, 0);
	text = run_text(&export_chrome, &f, NULL, 5000, &len);
	for (const char *at = text; (at = strstr(at, ",\"ts\":")); at++) {
		double end = strtod(at + 6, NULL);

		if (!strncmp(at + 6 + strcspn(at + 6, ","), ",\"dur\":", 7))
			end += strtod(strchr(at + 6, ',') + 7, NULL);
		last = end > last ? end : last;
	}
	assert_true(last == 4999);
	free(text);
	fix_done(&f);
}

static void test_sqlite(void **state)
{
	char path[] = "/tmp/memtrace-test-XXXXXX";
	int fd = mkstemp(path);
	sqlite3_stmt *q;
	struct feed_fix f;
	sqlite3 *db;

	(void)state;
	assert_true(fd >= 0);
	for (int wild = 0; wild < 2; wild++) {
		fix_init(&f, wild);
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(run_to(&export_sqlite, &f, NULL, path, 5000), 0);
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_prepare_v2(db, "SELECT (SELECT count(*) FROM block), (SELECT count(*) FROM events), "
						    "(SELECT count(*) FROM by_op), (SELECT text FROM names WHERE id = 1)",
						    -1, &q, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_step(q), SQLITE_ROW);
		assert_true(sqlite3_column_int(q, 0) > (wild ? 0 : 100));
		assert_true(sqlite3_column_int(q, 1) > 2000);
		check_utf8((const char *)sqlite3_column_text(q, 3), (size_t)sqlite3_column_bytes(q, 3));
		sqlite3_finalize(q);
		sqlite3_close(db);
		assert_int_equal(run_to(&export_sqlite, &f, NULL, NULL, 0), -EINVAL);
		assert_int_equal(run_to(&export_sqlite, &f, NULL, "/nowhere/x.db", 0), -EACCES);
		fix_done(&f);
	}
	close(fd);
	unlink(path);
}

static void test_full_disk(void **state)
{
	struct feed_fix f;

	(void)state;
	fix_init(&f, 0);
	for (size_t i = 0; i < VIEWERS; i++) {
		FILE *full = fopen("/dev/full", "w");

		assert_non_null(full);
		print_message("%s\n", viewers[i]->name);
		assert_int_equal(run_to(viewers[i], &f, full, NULL, 5000), -ENOSPC);
		fclose(full);
	}
	fix_done(&f);
}

/* After a failure elsewhere there is no report; nothing may be left behind (LeakSanitizer). */
static void test_given_up(void **state)
{
	struct feed_fix f;

	(void)state;
	fix_init(&f, 0);
	for (size_t i = 0; i < VIEWERS; i++) {
		struct export_to to = { .out = fopen("/dev/null", "w"), .names = f.names, .dev = -1 };
		struct tl_event ev = fix_event(&f, 0);
		struct export_ctx *c = NULL;

		assert_int_equal(export_begin(viewers[i], &c, &to), 0);
		assert_int_equal(viewers[i]->event(c, &ev, 0), 0);
		export_end(viewers[i], c, NULL);
		assert_int_equal(export_end(viewers[i], NULL, NULL), 0);
		fclose(to.out);
	}
	fix_done(&f);
}

/* --- what they stand on --------------------------------------------------------------------------------- */

static void test_live(void **state)
{
	struct { uint64_t size; int cat; } model[3001] = { 0 };
	struct live *l = live__new(NULL);
	uint64_t cats[CAT_MAX] = { 0 }, sum = 0;
	struct live_change ch;
	size_t cnt = 0, pos = 0;

	(void)state;
	seed = 3;
	for (int i = 0; i < 100000; i++) {
		struct tl_event ev = { .ts_ns = (uint64_t)i, .id = 1 + rnd(3000), .size = rnd(1000), .pid = 1,
				       .dev = MT_DEV_CPU, .cat = (uint8_t)rnd(CAT_MAX), .kind = (uint8_t)(1 + rnd(4)),
				       .version = (uint32_t)i };
		int there = model[ev.id].cat, allocated = ev.kind == TL_CREATE || ev.kind == TL_PREEXISTING;
		int r = live__event(l, &ev, &ch);

		assert_int_equal(r, allocated ? !there : !!there);
		if (!r)
			continue;
		if (there)
			cats[there - 1] -= model[ev.id].size;
		if (allocated)
			model[ev.id].size = ev.size;
		model[ev.id].cat = ev.kind == TL_DESTROY ? 0 : ev.cat + 1;
		if (model[ev.id].cat)
			cats[ev.cat] += model[ev.id].size;
		sum = 0;
		for (int k = 0; k < CAT_MAX; k++) {
			assert_int_equal(ch.lane->cats[k], cats[k]);
			sum += cats[k];
		}
		assert_int_equal(ch.lane->live, sum);
	}
	while (live__next(l, &pos))
		cnt++;
	for (int i = 0; i <= 3000; i++)
		cnt -= model[i].cat != 0;
	assert_int_equal(cnt, 0);
	live__free(l);
}

static void test_lanes_are_bounded(void **state)
{
	struct live *l = live__new(NULL);
	struct live_change ch;

	(void)state;
	for (uint32_t i = 1; i <= LANES_MAX + 1000; i++) {
		struct tl_event ev = { .id = i, .size = 1, .pid = i, .dev = MT_DEV_CPU, .kind = TL_CREATE };

		assert_int_equal(live__event(l, &ev, &ch), 1);
	}
	assert_int_equal(live__lanes(l), LANES_MAX + 1);
	assert_int_equal(ch.lane->pid, 0);
	assert_int_equal(ch.lane->live, 1000);
	live__free(l);
}

static void test_ranges(void **state)
{
	static struct ranges s;

	(void)state;
	ranges__init(&s);
	ranges__add(&s, 1ull << 40, 100);
	ranges__add(&s, (1ull << 40) + 4096, 100); /* joined */
	ranges__add(&s, 1ull << 20, 8);
	ranges__add(&s, UINT64_MAX - 1, 100);
	assert_int_equal(s.cnt, 3);
	assert_int_equal(s.r[0].from, 1ull << 20);
	assert_int_equal(s.r[1].from, 1ull << 40);
	assert_int_equal(s.r[1].to, (1ull << 40) + 4196);
	assert_int_equal(s.r[2].to, UINT64_MAX);
	seed = 1;
	for (int i = 0; i < 20000; i++) {
		uint64_t from = (uint64_t)rnd(1u << 30) << 20 | rnd(1u << 20), size = 1 + rnd(1u << 22);
		int covered = 0;

		ranges__add(&s, from, size);
		assert_in_range(s.cnt, 1, RANGES_MAX);
		for (size_t k = 0; k < s.cnt; k++) {
			assert_true(s.r[k].from < s.r[k].to && (!k || s.r[k - 1].to < s.r[k].from));
			covered |= s.r[k].from <= from && from + size <= s.r[k].to;
		}
		assert_true(covered);
	}
}

static struct tl_event frame(uint8_t kind, uint8_t depth, uint32_t op, uint32_t region)
{
	return (struct tl_event){ .kind = kind, .depth = depth, .op = { op }, .region = { region }, .pid = 1, .tid = 1 };
}

static void check_stack(struct stacks *s, uint8_t depth, uint32_t op, uint32_t region, const char *want)
{
	struct tl_event ev = frame(TL_CREATE, depth, op, region);
	char seen[300] = "", part[350];

	assert_int_equal(stacks__event(s, &ev), 0);
	for (uint32_t at = stacks__at(s, &ev); at; at = stacks__node(s, at)->parent) {
		const struct stack_node *n = stacks__node(s, at);

		snprintf(part, sizeof(part), "%c%u %s", ".prno"[n->kind], n->value, seen);
		snprintf(seen, sizeof(seen), "%.290s", part);
	}
	assert_string_equal(seen, want);
}

static void test_stacks(void **state)
{
	struct stacks *s = stacks__new(NULL);
	struct tl_event in[] = {
		frame(TL_REGION, 0, 0, 10), frame(TL_OP, 0, 20, 10), frame(TL_OP, 1, 21, 10), frame(TL_OP, 0, 22, 10),
		frame(TL_OP, 1, 30, 30), /* a backward node */ frame(TL_REGION_END, 0, 0, 10),
	};

	(void)state;
	for (int i = 0; i < 3; i++)
		stacks__event(s, &in[i]);
	check_stack(s, 2, 21, 10, "p1 r10 o20 o21 ");
	check_stack(s, 1, 20, 10, "p1 r10 o20 "); /* 21 has ended */
	stacks__event(s, &in[3]);
	check_stack(s, 1, 22, 10, "p1 r10 o22 ");
	stacks__event(s, &in[4]);
	check_stack(s, 2, 22, 30, "p1 r10 o22 n30 ");
	check_stack(s, 2, 99, 30, "p1 r30 o99 "); /* a frame was lost: the model's word counts */
	stacks__event(s, &in[5]);
	check_stack(s, 0, 0, 0, "p1 ");
	for (uint32_t i = 0; i < STACKS_MAX + 10; i++) { /* as many as there is room for, then cut */
		struct tl_event op = frame(TL_OP, 0, i + 100, 0);

		stacks__event(s, &op);
	}
	assert_int_equal(stacks__cnt(s), STACKS_MAX);
	stacks__free(s);
}

static void test_clean(void **state)
{
	char buf[16];

	(void)state;
	assert_int_equal(clean_text(buf, sizeof(buf), "a\xff" "b\n", 4), 8);
	assert_string_equal(buf, "a\xef\xbf\xbd" "b\xef\xbf\xbd");
	assert_int_equal(clean_text(buf, 5, "\xe5\xbc\xa0\xe5\xbc\xa0", 6), 3); /* whole characters */
	assert_int_equal(clean_text(buf, 1, "x", 1), 0);
	assert_true(export_has_suffix("a.json.gz", ".json") && export_has_suffix("a.json", ".json"));
	assert_false(export_has_suffix("json", ".json") || export_has_suffix(NULL, ".json") || export_is_gzip(".gz"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well_formed), cmocka_unit_test(test_sqlite),
		cmocka_unit_test(test_chrome_times),
		cmocka_unit_test(test_full_disk),   cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_live),	    cmocka_unit_test(test_lanes_are_bounded),
		cmocka_unit_test(test_ranges),	    cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
