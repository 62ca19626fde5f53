/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Views against golden files in tests/golden/. After a change that is meant:
 *   MT_GOLDEN_UPDATE=1 build/tests/test_view, and read the difference before it is committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/utf8.h"
#include "timeline/labels.h"
#include "unit/view_fix.h"
#include "view/export.h"
#include "view/view.h"

static char *slurp(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	if (!f) {
		print_message("%s is missing: MT_GOLDEN_UPDATE=1 makes it\n", path);
		return NULL;
	}
	n = getdelim(&text, &cap, -1, f);
	*ret_len = n > 0 ? (size_t)n : 0;
	fclose(f);
	return text;
}

static void check_golden(const char *name, const char *text, size_t len)
{
	char path[200], got[220], *want;
	size_t want_len = 0;
	FILE *f;

	snprintf(path, sizeof(path), "tests/golden/%s", name);
	if (getenv("MT_GOLDEN_UPDATE")) {
		f = fopen(path, "w");
		assert_non_null(f);
		assert_int_equal(fwrite(text, 1, len, f), len);
		assert_int_equal(fclose(f), 0);
	}
	want = slurp(path, &want_len);
	assert_non_null(want);
	if (len != want_len || memcmp(text, want, len)) {
		snprintf(got, sizeof(got), "build/tests/%s", name);
		f = fopen(got, "w");
		if (f) {
			fwrite(text, 1, len, f);
			fclose(f);
		}
		print_message("differs: diff %s %s\n", path, got);
		fail();
	}
	free(want);
}

struct mem {
	FILE *f;
	char *text;
	size_t len;
};

static void mem_open(struct mem *m)
{
	*m = (struct mem){ 0 };
	m->f = open_memstream(&m->text, &m->len);
	assert_non_null(m->f);
}

static void mem_golden(struct mem *m, const char *name)
{
	assert_int_equal(fclose(m->f), 0);
	check_golden(name, m->text, m->len);
	free(m->text);
}

/* Every line of a text within `cols` columns, and no byte that a terminal would act on. */
static void check_tame(const char *text, size_t len, unsigned cols)
{
	const char *end = text + len;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((nl ? nl : end) - text);
		char line[8192];

		assert_true(n < sizeof(line));
		memcpy(line, text, n);
		line[n] = '\0';
		for (size_t at = 0; at < n;) {
			uint32_t cp;
			size_t step = utf8_decode(line + at, n - at, &cp);

			assert_false(cp == UTF8_BAD && step == 1);
			assert_false(cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x202e);
			at += step;
		}
		if (text_cols(line) > cols) {
			print_message("%u columns: %s\n", text_cols(line), line);
			fail();
		}
		text += n + 1;
	}
}

static void leaks_golden(const char *name, const struct report *r)
{
	struct mem m;

	mem_open(&m);
	assert_int_equal(view_leaks_text(m.f, r, &(struct view_opts){ .top = 20 }), 0);
	mem_golden(&m, name);
}

static void md_golden(const char *name, const struct report *r)
{
	struct mem m;

	mem_open(&m);
	assert_int_equal(view_report_md(m.f, r, &(struct view_opts){ .top = 3 }), 0);
	mem_golden(&m, name);
}

static void report_golden(const char *name, const struct report *r, const struct view_opts *opts)
{
	struct view_opts kept = *opts;
	struct mem m;

	kept.path = opts->path ? opts->path : "FILE"; /* a command is as long as it is: one that begins with record is longer */
	mem_open(&m);
	assert_int_equal(view_report_text(m.f, r, &kept), 0);
	fflush(m.f);
	if (!opts->color)
		check_tame(m.text, m.len, opts->width ? opts->width : 100);
	mem_golden(&m, name);
}

/* Marks may tell of more or fewer steps than were seen of a recording of some: both heads say how many were seen. */
static void test_steps_of_some(void **state)
{
	struct report r = fix_report();
	struct report_gap gap = { r.run.start_ts_ns + 1, r.run.end_ts_ns - 1, r.run.end_ts_ns - r.run.start_ts_ns - 2 };
	struct mem text, md;

	(void)state;
	r.sampling.is_on = 1;
	r.sampling.gaps = &gap;
	r.sampling.gaps_cnt = 1;
	r.sampling.steps_seen = r.marks.steps_total - 2;
	r.sampling.steps_traced = 3;
	mem_open(&text);
	mem_open(&md);
	assert_int_equal(view_report_text(text.f, &r, &(struct view_opts){ .top = 3, .width = 200 }), 0);
	assert_int_equal(view_report_md(md.f, &r, &(struct view_opts){ .top = 3 }), 0);
	assert_int_equal(fclose(text.f) + fclose(md.f), 0);
	assert_non_null(strstr(text.text, ", 1003 steps (334/s), 3 traced\n"));
	assert_non_null(strstr(md.text, ", 1003 steps (334/s), 3 traced\n"));
	free(text.text);
	free(md.text);
}

/* Of all jobs there is no one process. */
static void test_head_of_all_jobs(void **state)
{
	struct report r = fix_report();
	struct mem md;
	char want[80];

	(void)state;
	r.run.pid = 0;
	r.run.comm = r.run.cmdline = NULL;
	mem_open(&md);
	assert_int_equal(view_report_md(md.f, &r, &(struct view_opts){ .top = 3 }), 0);
	assert_int_equal(fclose(md.f), 0);
	snprintf(want, sizeof(want), "\nAll jobs of the machine, %zu processes, 2", r.procs_cnt);
	assert_non_null(strstr(md.text, want));
	free(md.text);
}

/* Two that were named, and have nothing to do with one another: neither is what the report is of. */
static void test_head_of_two_jobs(void **state)
{
	struct report r = fix_report();
	struct report_proc_dev on[2] = { { 1000, r.devs[0].dev }, { 900, r.devs[0].dev } };
	struct report_proc procs[2] = { { .pid = 42, .ppid = 1, .comm = (char *)"a", .cmdline = (char *)"", .peak = 1000 },
					{ .pid = 43, .ppid = 2, .comm = (char *)"b", .cmdline = (char *)"", .peak = 900 } };
	struct mem md, text;

	(void)state;
	for (size_t i = 0; i < r.devs_cnt; i++)
		on[0].dev = on[1].dev = r.devs[i].dev == MT_DEV_CUDA0 ? MT_DEV_CUDA0 : on[0].dev;
	for (size_t i = 0; i < 2; i++) {
		procs[i].devs = &on[i];
		procs[i].devs_cnt = 1;
	}
	r.procs = procs;
	r.procs_cnt = 2;
	mem_open(&md);
	assert_int_equal(view_report_md(md.f, &r, &(struct view_opts){ .top = 3 }), 0);
	assert_int_equal(fclose(md.f), 0);
	assert_non_null(strstr(md.text, "\n2 jobs, 2 processes, 2"));
	mem_open(&text);
	assert_int_equal(view_report_text(text.f, &r, &(struct view_opts){ .top = 3 }), 0);
	assert_int_equal(fclose(text.f), 0);
	assert_non_null(strstr(text.text, "\n2 jobs: 2 processes (--by process)"));
	assert_null(strstr(text.text, "\nProcess 42"));
	free(md.text);
	free(text.text);
}

static void test_report_text(void **state)
{
	struct report r = fix_report(), empty = fix_empty(), hostile = fix_hostile();

	(void)state;
	report_golden("report_80.txt", &r, &(struct view_opts){ .is_verbose = 1, .top = 20, .width = 80 });
	report_golden("report_summary.txt", &r, &(struct view_opts){ .top = 20, .width = 80, .path = "'my job.mtr'" });
	report_golden("report_summary_empty.txt", &empty, &(struct view_opts){ .top = 20 });
	md_golden("report.md", &r);
	md_golden("report_hostile.md", &hostile);
	report_golden("report_120.txt", &r, &(struct view_opts){ .top = 20, .width = 120 });
	report_golden("report_top1.txt", &r, &(struct view_opts){ .is_verbose = 1, .top = 1 });
	report_golden("report_device.txt", &r, &(struct view_opts){ .top = 20, .has_by = 1, .by = BY_DEVICE });
	report_golden("report_process.txt", &r, &(struct view_opts){ .top = 20, .has_by = 1, .by = BY_PROCESS });
	report_golden("report_region.txt", &r, &(struct view_opts){ .top = 20, .has_by = 1, .by = BY_REGION });
	report_golden("report_symbol.txt", &r, &(struct view_opts){ .top = 20, .has_by = 1, .by = BY_SYMBOL });
	report_golden("report_category.txt", &r, &(struct view_opts){ .top = 20, .has_by = 1, .by = BY_CATEGORY });
	report_golden("report_empty.txt", &empty, &(struct view_opts){ .is_verbose = 1, .top = 20, .width = 80 });
	r.run.lost[MT_LOSS_RING] = 12345;
	r.run.lost[MT_LOSS_RECORDING] = 7;
	r.run.lost[MT_LOSS_STALLED] = 9;
	r.run.ended = 0;
	leaks_golden("report_leaks.txt", &r);
	leaks_golden("report_leaks_empty.txt", &empty);
	report_golden("report_color.txt", &r, &(struct view_opts){ .is_verbose = 1, .top = 20, .width = 80, .color = 1 });
}

static char *written(const struct report *r, const struct view_opts *opts)
{
	struct mem m;

	mem_open(&m);
	assert_int_equal(view_report_text(m.f, r, opts), 0);
	fclose(m.f);
	return m.text;
}

static void test_price_of_both_ends(void **state)
{
	struct report r = fix_report();
	char *text;

	(void)state;
	r.cost.price = (struct report_price){ .steps_before = 14, .steps_after = 20, .steps = 400, .before_ns = 15000000,
					      .after_ns = 16000000, .traced_ns = 20000000, .lost = 0.225, .error = 0.025 };
	text = written(&r, &(struct view_opts){ .is_verbose = 1, .top = 1, .width = 200 });
	assert_non_null(strstr(text, "a step took 15.0 ms before, 20.0 ms traced and 16.0 ms after: the job loses 22.5 % of "
				      "its speed, give or take 2.5 %"));
	free(text);
	r.cost.price.steps_before = 0;
	text = written(&r, &(struct view_opts){ .is_verbose = 1, .top = 1, .width = 200 });
	assert_non_null(strstr(text, "a step took 20.0 ms traced and 16.0 ms after: the job loses"));
	free(text);
}

/* A job that something else slowed down while its steps before were watched. */
static void test_price_that_is_reversed(void **state)
{
	struct report r = fix_report();
	char *text;

	(void)state;
	r.cost.price = (struct report_price){ .steps_before = 14, .steps = 400, .before_ns = 17000000, .traced_ns = 8000000,
					      .lost = -1.125, .error = 0.36 };
	text = written(&r, &(struct view_opts){ .is_verbose = 1, .top = 1, .width = 200 });
	assert_non_null(strstr(text, "something else slowed the job down while nothing was traced, so what tracing "
				      "costs is not known"));
	assert_null(strstr(text, "no loss that stands out"));
	free(text);
}

/* Of a job that has ended nothing lives: no table for people has a column of zeros. CSV has all columns. */
static void test_nothing_lives(void **state)
{
	const struct view_opts of[] = { { .top = 20 }, { .is_verbose = 1, .top = 20 },
					{ .top = 20, .has_by = 1, .by = BY_OP } };
	struct report r = fix_report();
	struct report_dev devs[3];
	struct mem m;

	(void)state;
	assert_true(r.devs_cnt <= 3);
	memcpy(devs, r.devs, r.devs_cnt * sizeof(*devs));
	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		char *text = written(&r, &of[i]);

		assert_non_null(strstr(text, "  live   at peak"));
		free(text);
	}
	r.devs = devs;
	for (size_t i = 0; i < r.devs_cnt; i++)
		devs[i].live = 0;
	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		char *text = written(&r, &of[i]);

		assert_null(strstr(text, "  live   at peak"));
		assert_null(strstr(text, "  live      peak"));
		assert_non_null(strstr(text, "  at peak"));
		free(text);
	}
	mem_open(&m);
	assert_int_equal(view_report_csv(m.f, &r, &(struct view_opts){ .top = 20, .by = BY_OP }), 0);
	fclose(m.f);
	assert_non_null(strstr(m.text, "live"));
	free(m.text);
}

/* A compiled job's compilers came, and went, by the dozen: the job is first, and is not left out where not all have room. */
static void test_helpers_after_the_job(void **state)
{
	struct report_proc procs[VIEW_BRIEF_PROCS + 10];
	struct report r = fix_report();
	char *text, *at;
	struct mem m;

	(void)state;
	for (size_t i = 0; i < VIEW_BRIEF_PROCS + 10; i++)
		procs[i] = (struct report_proc){ .pid = 100 + (uint32_t)i, .comm = (char *)"g++", .gone = 1 };
	procs[1].comm = (char *)"trainer";
	procs[1].peak = procs[1].allocs = 1;
	r.procs = procs;
	r.procs_cnt = VIEW_BRIEF_PROCS + 10;
	text = written(&r, &(struct view_opts){ .top = 3, .has_by = 1, .by = BY_PROCESS });
	at = strstr(text, "trainer");
	assert_non_null(at);
	assert_true(at < strstr(text, "g++"));
	assert_non_null(strstr(text, "71 more processes (--top)"));
	free(text);
	mem_open(&m);
	assert_int_equal(view_report_json(m.f, &r, &(struct view_opts){ .top = 3, .is_brief = 1 }), 0);
	fclose(m.f);
	assert_non_null(strstr(m.text, "\"comm\": \"trainer\""));
	assert_null(strstr(m.text, "\"pid\": 100,"));
	assert_non_null(strstr(m.text, "\"pid\": 173,"));
	free(m.text);
}

/* Generated files that were gone as their lines were looked up: the end of every report says so. */
static void test_generated_files_gone(void **state)
{
	struct report_place places[] = { { .op = (char *)EV_PLACE_NOT_KNOWN, .bytes = 3 << 20 },
					 { .op = (char *)"inductor: cpp_fused_0", .bytes = 1 << 20 } };
	struct report r = fix_report();
	char *text;

	(void)state;
	for (int verbose = 0; verbose < 2; verbose++) {
		r.places = (struct report_places){ .rows = places, .cnt = 2, .total = 2 };
		text = written(&r, &(struct view_opts){ .top = 3, .is_verbose = verbose });
		assert_non_null(strstr(text, "1 line that allocated 3.00 MiB: their files said nothing"));
		free(text);
		r.places.rows = &places[1];
		r.places.cnt = 1;
		text = written(&r, &(struct view_opts){ .top = 3, .is_verbose = verbose });
		assert_null(strstr(text, "said nothing of them"));
		free(text);
	}
}

/* What --by asks for stands behind the first line of the verdict; -v has all tables, each once. */
static void test_tables(void **state)
{
	static const struct {
		enum view_by by;
		const char *head;
	} all[] = { { BY_OP, "\nOperators, by" }, { BY_CATEGORY, "\nBy category\n" }, { BY_DEVICE, "\nBy device\n" },
		    { BY_PROCESS, "\nProcesses\n" }, { BY_REGION, "\nRegions and" }, { BY_SYMBOL, "\nProbed symbols" },
		    { BY_NAME, "\nNamed tensors" }, { BY_STACK, "\nStacks, by" }, { BY_MODULE, "\nModules\n" } };
	struct report_module module = { .name = (char *)"", .root = (char *)"Net", .class = (char *)"Net" };
	struct report_tensor tensor = { .path = (char *)"w", .root = (char *)"Net", .type = (char *)"", .key = (char *)"" };
	struct report_stack stack = { .at_peak = 1 };
	struct report r = fix_report();

	(void)state;
	r.modules.rows = &module;
	r.names.rows = &tensor;
	r.stacks.rows = &stack;
	r.modules.cnt = r.names.cnt = r.names.total = r.stacks.cnt = r.stacks.total = 1;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char *text = written(&r, &(struct view_opts){ .top = 20, .has_by = 1, .by = all[i].by });
		char *whole = written(&r, &(struct view_opts){ .top = 20, .is_verbose = 1 });
		char *both = written(&r, &(struct view_opts){ .top = 20, .is_verbose = 1, .has_by = 1, .by = all[i].by });
		char *at = strstr(text, all[i].head), *of_both = strstr(both, all[i].head);
		size_t lines = 0;

		assert_non_null(at);
		for (char *c = text; c < at; c++)
			lines += *c == '\n';
		assert_in_range(lines, 1, 4);
		assert_non_null(strstr(whole, all[i].head));
		assert_true(of_both && of_both < strstr(both, "\nProcess ") && !strstr(of_both + 1, all[i].head));
		free(text);
		free(whole);
		free(both);
	}
}

static void csv_golden(const char *name, const struct report *r, enum view_by by)
{
	struct mem m;

	mem_open(&m);
	assert_int_equal(view_report_csv(m.f, r, &(struct view_opts){ .top = 20, .by = by }), 0);
	mem_golden(&m, name);
}

static void test_report_csv(void **state)
{
	struct report r = fix_report(), hostile = fix_hostile();

	(void)state;
	csv_golden("report_op.csv", &r, BY_OP);
	csv_golden("report_device.csv", &r, BY_DEVICE);
	csv_golden("report_process.csv", &r, BY_PROCESS);
	csv_golden("report_region.csv", &r, BY_REGION);
	csv_golden("report_category.csv", &r, BY_CATEGORY);
	csv_golden("report_symbol.csv", &r, BY_SYMBOL);
	csv_golden("report_hostile.csv", &hostile, BY_NAME);
}

static void test_hostile_names_stay_tame(void **state)
{
	struct report r = fix_hostile();

	(void)state;
	for (unsigned by = BY_OP; by <= BY_CATEGORY; by++)
		for (unsigned width = 0; width < 200; width += 30) {
			struct view_opts o = { .is_verbose = width % 60 != 0, .top = 20, .width = width, .path = "FILE",
					       .by = (enum view_by)by };
			struct mem m;

			mem_open(&m);
			assert_int_equal(view_report_text(m.f, &r, &o), 0);
			fclose(m.f);
			check_tame(m.text, m.len, !width ? 100 : width < 72 ? 72 : width);
			assert_non_null(strstr(m.text, "evil"));
			assert_non_null(strstr(m.text, "lost"));
			free(m.text);
		}
}

/* --- the live view ------------------------------------------------------------------------------------ */

static void test_live_lines(void **state)
{
	struct report r = fix_report(), h = fix_hostile();
	struct live_view *v;
	struct mem m;

	(void)state;
	mem_open(&m);
	v = live_view__new(m.f);
	assert_non_null(v);
	assert_int_equal(live_view__draw(v, &r), 0);
	fix_devs[0].allocs += 2000;
	r.run.end_ts_ns += 2000000000;
	assert_int_equal(live_view__draw(v, &r), 0);
	fix_devs[0].allocs -= 2000; /* counters that go back must not wrap around */
	r.run.end_ts_ns += 1000000000;
	assert_int_equal(live_view__draw(v, &r), 0);
	assert_int_equal(live_view__draw(v, &h), 0);
	r.sampling.is_on = 1;
	r.sampling.steps_traced = 3;
	r.sampling.price_ratio = 0.0187;
	assert_int_equal(live_view__draw(v, &r), 0);
	live_view__free(v);
	fflush(m.f);
	check_tame(m.text, m.len, 2000);
	assert_non_null(strstr(m.text, "cpu.allocs_per_s=1000"));
	assert_non_null(strstr(m.text, "cpu.allocs_per_s=0"));
	assert_non_null(strstr(m.text, " steps_traced=3 price=0.0187 "));
	mem_golden(&m, "live_lines.txt");
}

/* --- exports --------------------------------------------------------------------------------------------- */

#define DECISION(at, where, bytes, block, ver, process, thread, operator, around, what, device, category, open) \
	{ .ts_ns = at, .ptr = where, .size = bytes, .id = block, .version = ver, .pid = process, .tid = thread, \
	  .op = operator, .region = around, .kind = what, .dev = device, .cat = category, .depth = open }

static void export_golden(const char *format, const char *file)
{
	const struct export_format *f = export_format_find(format);
	struct names *names = names__new();
	name_id op = names__add(names, "aten::addmm"), bad = names__add(names, HOSTILE);
	struct report r = fix_report();
	const struct tl_event evs[] = {
		DECISION(10, 0, 0, 0, 0, 1, 2, op, NAME_NONE, TL_OP, 0, 0, 3),
		DECISION(20, 0x7f0012345678, 4096, 1, 0, 1, 2, op, bad, TL_CREATE, MT_DEV_CPU, CAT_UNKNOWN, 1),
		DECISION(30, 0x1000, TL_SIZE_UNKNOWN, 2, 0, 1, 2, NAME_NONE, NAME_NONE, TL_PREEXISTING, MT_DEV_HOST, 0, 0),
		DECISION(40, 0x7f0012345678, 4096, 1, 1, 1, 2, op, op, TL_VERSION, MT_DEV_CPU, CAT_GRADIENT, 1),
		DECISION(50, 0x7f0012345678, 4096, 1, 1, 1, 9, bad, bad, TL_DESTROY, MT_DEV_CUDA0 + 3, 200, 1),
		DECISION(60, 0, 0, 0, 0, 1, 2, NAME_NONE, bad, TL_REGION, 0, 0, 0),
		DECISION(70, 0, 0, 0, 0, 1, 2, NAME_NONE, op, TL_REGION_END, 0, 0, 0),
		DECISION(80, 17, 0, 0, 0, 1, 2, NAME_NONE, NAME_NONE, TL_STEP, 0, 0, 0),
		DECISION(90, 0, UINT64_MAX - 1, 0, 0, 1, 2, op, NAME_NONE, TL_OOM, MT_DEV_CPU, 0, 0),
		DECISION(100, 0x2000, 12, 5, 0, 1, 2, op, bad, TL_TAG, MT_DEV_CPU, CAT_PARAMETER, 0),
		DECISION(110, 0, 0, 0, 0, 1, 2, (name_id){ 777 }, NAME_NONE, TL_OP, 0, 0, 0),
		DECISION(120, 0, 0, 0, 0, 1, 2, op, op, 99, 0, 0, 0),
		{ .ts_ns = 130, .begin_ns = 65, .took_ns = 40, .added = 4096, .step = 412, .pid = 1, .function = op,
		  .reason = bad, .compile_id = op, .kind = TL_COMPILED, .compiled = EV_COMPILED_AGAIN },
		{ .ts_ns = 140, .begin_ns = 66, .took_ns = 41, .added = TL_SIZE_UNKNOWN, .pid = 1, .compile_id = op,
		  .kind = TL_COMPILED, .compiled = EV_COMPILED_BACKWARD },
	};
	struct export_ctx *c = NULL;
	struct mem m;

	assert_non_null(f);
	mem_open(&m);
	assert_int_equal(export_begin(f, &c, &(struct export_to){ .out = m.f, .names = names, .dev = -1 }), 0);
	for (size_t i = 0; i < sizeof(evs) / sizeof(evs[0]); i++)
		assert_int_equal(f->event(c, &evs[i], FIX_EPOCH_OFF), 0);
	assert_int_equal(export_end(f, c, &r), 0);
	names__free(names);
	mem_golden(&m, file);
}

static void test_exports(void **state)
{
	(void)state;
	export_golden("jsonl", "events.jsonl");
	export_golden("csv", "events.csv");
	assert_null(export_format_find("frob"));
}

static void test_export_to_a_full_disk(void **state)
{
	struct report rep = fix_report();
	struct labels *labels;

	(void)state;
	assert_int_equal(labels__new(&labels, NULL), 0);
	for (const struct export_format *const *f = export_formats(); *f; f++) {
		struct names *names = names__new();
		FILE *full = fopen("/dev/full", "w");
		struct export_ctx *c = NULL;
		int r = 0;

		assert_non_null(full);
		/* One that opens its own file: test_export_viewers, tests/e2e/test_viewers.py; or that this build lacks. */
		if ((*f)->needs & EXPORT_FILE || ((*f)->missing && (*f)->missing())) {
			fclose(full);
			names__free(names);
			continue;
		}
		assert_int_equal(export_begin(*f, &c, &(struct export_to){ .out = full, .names = names, .labels = labels,
								      .report = &rep, .dev = -1 }), 0);
		for (uint64_t i = 1; i <= 100000 && !r; i++)
			r = (*f)->event(c, &(struct tl_event){ .kind = TL_CREATE, .ts_ns = i, .size = 1, .id = i,
							       .dev = MT_DEV_CPU }, 0);
		if (!((*f)->needs & EXPORT_LABELS))
			assert_int_equal(r, -ENOSPC); /* the others may hold back as much as that */
		assert_int_equal(export_end(*f, c, &rep), -ENOSPC);
		fclose(full);
		names__free(names);
	}
	labels__free(labels);
}

/* --- numbers and text -------------------------------------------------------------------------------------- */

static void test_sentence(void **state)
{
	struct sentence s = { 0 };

	(void)state;
	sentence__add(&s, "%s %u", "blocks", 12u);
	sentence__add(&s, "; %s", "and more");
	assert_string_equal(s.text, "blocks 12; and more");
	assert_int_equal(s.len, strlen(s.text));
	for (unsigned i = 0; i < TEXT_BYTES_MAX; i++)
		sentence__add(&s, "xyz");
	assert_int_equal(s.len, sizeof(s.text) - 1);
	assert_int_equal(strlen(s.text), s.len);
	s.len = 0;
	sentence__add(&s, "anew");
	assert_string_equal(s.text, "anew");
}

static void test_units(void **state)
{
	static const struct {
		uint64_t v;
		const char *bytes, *ns;
	} rows[] = {
		{ 0, "0 B", "0 ns" },
		{ 999, "999 B", "999 ns" },
		{ 1023, "1023 B", "1.02 \xc2\xb5s" },
		{ 1024, "1.00 KiB", "1.02 \xc2\xb5s" },
		{ 10230, "9.99 KiB", "10.2 \xc2\xb5s" },
		{ 10239, "10.0 KiB", "10.2 \xc2\xb5s" },
		{ 1048575, "1.00 MiB", "1.05 ms" },
		{ 999999999, "954 MiB", "1.00 s" },
		{ 61000000000ull, "56.8 GiB", "1 min 01 s" },
		{ 3600000000000ull, "3.27 TiB", "1 h 00 min" },
		{ 200000000000000ull, "182 TiB", "2 d 07 h" },
		{ UINT64_MAX, "16.0 EiB", "213503 d 23 h" },
	};
	char buf[24];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_string_equal(fmt_bytes(buf, rows[i].v), rows[i].bytes);
		assert_string_equal(fmt_ns(buf, rows[i].v), rows[i].ns);
	}
	assert_string_equal(fmt_count(buf, 0), "0");
	assert_string_equal(fmt_count(buf, 0.25), "0.2");
	assert_string_equal(fmt_count(buf, 9999), "9999");
	assert_string_equal(fmt_count(buf, 10000), "10.0 k");
	assert_string_equal(fmt_count(buf, 1e6), "1.00 M");
	assert_string_equal(fmt_share(buf, 1, 0), "-");
	assert_string_equal(fmt_share(buf, 1, 3), "33.3 %");
	assert_string_equal(fmt_share(buf, 1, 1e9), "<0.1 %");
	assert_string_equal(fmt_time(buf, 1795251162000000000ll), "2026-11-21 08:52:42 UTC");
}

static void test_utf8_there_and_back(void **state)
{
	(void)state;
	for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
		char text[4];
		unsigned bytes = utf8_encode(cp, text);
		uint32_t back;

		assert_in_range(bytes, 1, 4);
		if (cp >= 0xd800 && cp < 0xe000) /* half of a pair is no character */
			continue;
		if (utf8_decode(text, bytes, &back) != bytes || back != cp)
			fail_msg("U+%04x became U+%04x", cp, back);
	}
}

static void test_text_fit(void **state)
{
	char buf[TEXT_BYTES_MAX], longer[6000];

	(void)state;
	assert_int_equal(text_fit(buf, sizeof(buf), "aten::addmm", 20), 11);
	assert_string_equal(buf, "aten::addmm");
	assert_int_equal(text_fit(buf, sizeof(buf), "abcdefghij", 5), 5);
	assert_string_equal(buf, "ab\xe2\x80\xa6ij");
	assert_int_equal(text_cut(buf, sizeof(buf), "abcdefghij", 5), 5);
	assert_string_equal(buf, "abcd\xe2\x80\xa6");
	text_fit(buf, sizeof(buf), "a\tb\x7f\x1b[0m", 40);
	assert_string_equal(buf, "a\\x09b\\x7f\\x1b[0m");
	text_fit(buf, sizeof(buf), "x\xff\xc0\xaf\xe2\x80\xae", 40);
	assert_string_equal(buf, "x\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	/* Wide characters are never split or miscounted. */
	for (unsigned cols = 0; cols < 12; cols++)
		assert_true(text_fit(buf, sizeof(buf), "\xe5\xbc\xa0\xe9\x87\x8f\xe5\xbc\xa0\xe9\x87\x8f", cols) <= cols);
	memset(longer, '\x01', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_true(text_fit(buf, sizeof(buf), longer, 100000) < TEXT_BYTES_MAX);
	assert_int_equal(text_fit(buf, sizeof(buf), NULL, 10), 0);
	assert_int_equal(text_fit_path(buf, sizeof(buf), "layers.10.out", 13), 13);
	assert_string_equal(buf, "layers.10.out");
	assert_int_equal(text_fit_path(buf, sizeof(buf), "transformer.decoder_layers.10.feed_forward.0.weight", 32), 32);
	assert_string_equal(buf, "trans\xe2\x80\xa6.decod\xe2\x80\xa6.10.feed_\xe2\x80\xa6.0.weight");
	text_fit_path(buf, sizeof(buf), "exp_avg transformer.layers.3.weight", 25);
	assert_string_equal(buf, "exp_\xe2\x80\xa6 tran\xe2\x80\xa6.laye\xe2\x80\xa6.3.weig\xe2\x80\xa6");
	text_fit_path(buf, sizeof(buf), "a.b.c.d.e.f.g.h.i.j.k", 5); /* nothing to take away */
	assert_string_equal(buf, "a.\xe2\x80\xa6.k");
	text_fit_path(buf, sizeof(buf), "inductor: extern_kernels.addmm (aten.add, aten.mul, aten.addmm)", 40);
	assert_string_equal(buf, "addmm (aten.add, aten.mul, aten.addmm)");
	text_fit_path(buf, sizeof(buf), "inductor: extern_kernels.addmm (aten.add, aten.mul, aten.addmm)", 30);
	assert_string_equal(buf, "addmm (aten.add, aten.mul, at\xe2\x80\xa6");
	text_fit(buf, sizeof(buf), "inductor: cpp_fused_gelu_view_3", 31);
	assert_string_equal(buf, "inductor: cpp_fused_gelu_view_3");
	text_fit(buf, sizeof(buf), "inductor: cpp_fused_gelu_view_3", 22);
	assert_string_equal(buf, "cpp_fused_gelu_view_3");
	text_fit(buf, sizeof(buf), "inductor: ", 5);
	assert_string_equal(buf, "in\xe2\x80\xa6: ");
	text_fit_path(buf, sizeof(buf), "inductor: extern_kernels.addmm (aten.add, aten.mul, aten.addmm)", 20);
	assert_string_equal(buf, "addmm (ate\xe2\x80\xa6" "en.addmm)");
	text_fit_path(buf, sizeof(buf), "cpp_fused_native_layer_norm_3", 15); /* one word */
	assert_string_equal(buf, "cpp_fus\xe2\x80\xa6_norm_3");
	for (unsigned cols = 0; cols < 20; cols++)
		assert_true(text_fit_path(buf, sizeof(buf), "\xe5\xbc\xa0\xe9\x87\x8f.0.\xe9\x87\x8f...x", cols) <= cols);
	/* Every byte pair: valid out, within the columns. */
	for (unsigned i = 1; i < 65536; i++) {
		char two[3] = { (char)(i >> 8 ? i >> 8 : 'x'), (char)(i & 0xff), '\0' };

		assert_true(text_fit(buf, sizeof(buf), two, 6) <= 6);
		check_tame(buf, strlen(buf), 8);
		assert_true(text_fit_path(buf, sizeof(buf), two, 1) <= 1);
		check_tame(buf, strlen(buf), 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report_text),
		cmocka_unit_test(test_price_of_both_ends),
		cmocka_unit_test(test_price_that_is_reversed),
		cmocka_unit_test(test_steps_of_some),
		cmocka_unit_test(test_head_of_all_jobs), cmocka_unit_test(test_head_of_two_jobs),
		cmocka_unit_test(test_tables), cmocka_unit_test(test_helpers_after_the_job),
		cmocka_unit_test(test_generated_files_gone), cmocka_unit_test(test_nothing_lives),
		cmocka_unit_test(test_report_csv),
		cmocka_unit_test(test_hostile_names_stay_tame),
		cmocka_unit_test(test_live_lines),	cmocka_unit_test(test_exports),
		cmocka_unit_test(test_export_to_a_full_disk), cmocka_unit_test(test_units), cmocka_unit_test(test_sentence),
		cmocka_unit_test(test_text_fit),	cmocka_unit_test(test_utf8_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
