/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* JSON that we write, read by somebody else's parser (jansson, which refuses invalid UTF-8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/view_fix.h"
#include "view/export.h"
#include "view/json.h"
#include "view/view.h"

/* Integers above 2^63 are legal JSON, but jansson takes them as reals only (flags). */
static json_t *parse(const char *text, size_t len, size_t flags)
{
	json_error_t e;
	json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES | flags, &e);

	if (!v)
		print_message("line %d: %s in: %.300s\n", e.line, e.text, text + (e.position > 100 ? e.position - 100 : 0));
	assert_non_null(v);
	return v;
}

static json_t *report_json(const struct report *r, size_t top, size_t flags, char **ret_text)
{
	struct view_opts o = { .top = top };
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	json_t *v;

	assert_int_equal(view_report_json(f, r, &o), 0);
	fclose(f);
	v = parse(text, len, flags);
	if (ret_text)
		*ret_text = text;
	else
		free(text);
	return v;
}

/* The value at "a.b.c". */
static json_t *at(json_t *v, const char *path)
{
	char word[64];

	while (v && *path) {
		size_t n = strcspn(path, ".");

		snprintf(word, sizeof(word), "%.*s", (int)n, path);
		v = json_object_get(v, word);
		path += n + (path[n] == '.');
	}
	assert_non_null(v);
	return v;
}

static void is_int(json_t *v, const char *path, json_int_t want)
{
	assert_true(json_is_integer(at(v, path)));
	assert_int_equal(json_integer_value(at(v, path)), want);
}

/* DESIGN's contract, name by name. */
static void test_contract(void **state)
{
	struct report r = fix_report();
	json_t *v, *op;

	(void)state;
	r.run.lost[MT_LOSS_RING] = 5;
	v = report_json(&r, 0, 0, NULL);
	is_int(v, "schema", 1);
	is_int(v, "target.pid", 4242);
	assert_string_equal(json_string_value(at(v, "target.comm")), "python");
	assert_string_equal(json_string_value(at(v, "target.cmdline")), "python train.py --epochs 3");
	is_int(v, "start_ns", FIX_EPOCH_OFF + (json_int_t)FIX_T0);
	is_int(v, "duration_ns", 3000000000);
	is_int(v, "events.alloc", 123533);
	is_int(v, "events.free", 123441);
	is_int(v, "events.op", 530512);
	is_int(v, "lost.ring", 5);
	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		if (loss_name(i))
			assert_true(json_is_integer(json_object_get(at(v, "lost"), loss_name(i))));
	assert_true(json_is_object(at(v, "coverage")));
	is_int(v, "overhead.hits", 654045);
	is_int(v, "overhead.probe_ns", 694742900);
	assert_true(fabs(json_number_value(at(v, "overhead.fraction")) - 0.248123) < 1e-9);
	is_int(v, "devices.cpu.live", 12345678);
	is_int(v, "devices.cpu.peak", 123456789);
	is_int(v, "devices.cpu.peak_ns", FIX_EPOCH_OFF + (json_int_t)FIX_T0 + 1234567890);
	is_int(v, "devices.cpu.allocs", 123456);
	is_int(v, "devices.cpu.frees", 123400);
	is_int(v, "devices.cpu.categories.PARAMETER.live", 9000000);
	is_int(v, "devices.cpu.categories.PARAMETER.at_peak", 90000000);
	is_int(v, "devices.cpu.categories.PARAMETER.byte_ns", 90000000000000000);
	is_int(v, "devices.cpu.categories.BUFFER.live", 1000000);
	is_int(v, "devices.cpu.preexisting_blocks", 12);
	is_int(v, "devices.cpu.preexisting_bytes", 4567890);
	assert_string_equal(json_string_value(at(v, "flow.classes")), "extended");
	is_int(v, "flow.nodes", 530000);
	is_int(v, "flow.input_stale", 2);
	is_int(v, "flow.without_storage.sparse", 40);
	is_int(v, "devices.cpu.categories.unknown.live", 2345678);
	assert_null(json_object_get(at(v, "devices.cpu.categories"), "ACTIVATION"));
	is_int(v, "devices.cuda:1.peak", 70ll << 30);
	assert_null(json_object_get(at(v, "devices"), "host"));
	is_int(v, "host.live", 600);
	is_int(v, "kernel.rss", 491ll << 20);
	is_int(v, "kernel.framework", 12345678);
	is_int(v, "kernel.unseen", (491ll << 20) - 12345678);
	op = json_array_get(at(v, "ops"), 0);
	assert_string_equal(json_string_value(at(op, "name")), "aten::addmm");
	is_int(op, "count", 30000);
	is_int(op, "alloc_bytes", 5ll << 30);
	is_int(op, "alloc_count", 30000);
	is_int(op, "at_peak", 60ll << 30);
	assert_int_equal(json_array_size(at(v, "processes")), 2);
	assert_int_equal(json_array_size(at(v, "peak_blocks")), 2);
	json_decref(v);
	v = report_json(&r, 1, 0, NULL);
	assert_int_equal(json_array_size(at(v, "ops")), 1);
	assert_int_equal(json_array_size(at(v, "peak_blocks")), 1);
	json_decref(v);
}

static void test_golden(void **state)
{
	struct report r = fix_report();
	char *text, *want = NULL;
	size_t cap = 0;
	FILE *f;

	(void)state;
	json_decref(report_json(&r, 0, 0, &text));
	if (getenv("MT_GOLDEN_UPDATE")) {
		f = fopen("tests/golden/report.json", "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	f = fopen("tests/golden/report.json", "r");
	assert_non_null(f);
	assert_true(getdelim(&want, &cap, -1, f) > 0);
	fclose(f);
	assert_string_equal(text, want);
	free(want);
	free(text);
}

static void test_hostile(void **state)
{
	struct report r = fix_hostile(), empty = fix_empty();
	json_t *v;

	(void)state;
	v = report_json(&r, 0, JSON_DECODE_INT_AS_REAL, NULL);
	assert_non_null(strstr(json_string_value(at(v, "target.comm")), "\xef\xbf\xbd"));
	assert_non_null(strstr(json_string_value(at(v, "target.comm")), "\x1b[2J\x07\r\n\"quoted\\\""));
	assert_true(json_is_false(at(v, "coverage.complete")));
	json_decref(v);
	v = report_json(&empty, 0, 0, NULL);
	assert_int_equal(json_object_size(at(v, "devices")), 0);
	assert_null(json_object_get(v, "host"));
	assert_null(json_object_get(v, "kernel"));
	json_decref(v);
}

static void test_every_byte_pair(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 65536; i++) {
		char two[2] = { (char)(i >> 8), (char)(i & 0xff) }, *text = NULL;
		size_t len = 0;
		FILE *f = open_memstream(&text, &len);
		struct outbuf o;
		json_error_t e;
		json_t *v;

		assert_int_equal(outbuf__init(&o, f), 0);
		json_quote(&o, two, 2);
		assert_int_equal(outbuf__flush(&o), 0);
		outbuf__done(&o);
		fclose(f);
		for (size_t k = 0; k < len; k++)
			assert_true((unsigned char)text[k] >= 0x20 && text[k] != 0x7f);
		v = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
		assert_non_null(v);
		json_decref(v);
		free(text);
	}
}

static void test_numbers(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct outbuf o;
	struct json j;

	(void)state;
	assert_int_equal(outbuf__init(&o, f), 0);
	json__init(&j, &o);
	json__begin_flat(&j, NULL, '[');
	json__u64(&j, NULL, 0);
	json__u64(&j, NULL, 10);
	json__u64(&j, NULL, 99);
	json__u64(&j, NULL, 100);
	json__u64(&j, NULL, UINT64_MAX);
	json__i64(&j, NULL, INT64_MIN);
	json__i64(&j, NULL, -1);
	json__f64(&j, NULL, 0.5);
	json__f64(&j, NULL, NAN);
	json__f64(&j, NULL, INFINITY);
	json__f64(&j, NULL, 1e300);
	json__hex(&j, NULL, 0);
	json__hex(&j, NULL, UINT64_MAX);
	json__str(&j, NULL, NULL);
	json__str_or_null(&j, NULL, "");
	json__bool(&j, NULL, 2);
	json__begin(&j, NULL, '{');
	json__end(&j, '}');
	json__end(&j, ']');
	assert_int_equal(outbuf__flush(&o), 0);
	outbuf__done(&o);
	fclose(f);
	assert_string_equal(text, "[0,10,99,100,18446744073709551615,-9223372036854775808,-1,0.5,null,null,1e+300,"
				  "\"0x0\",\"0xffffffffffffffff\",\"\",null,true,{}]\n");
	free(text);
}

/* Each line an object, block records with every field of the contract. */
static void test_jsonl_lines(void **state)
{
	static const char *const fields[] = { "t", "ev", "dev", "ptr", "size", "id", "version", "cat", "op", "region",
					      "tid", "pid" };
	struct names *names = names__new();
	name_id bad = names__add(names, HOSTILE);
	struct export_ctx *c = NULL;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(export_begin(&export_jsonl, &c, &(struct export_to){ .out = f, .names = names, .dev = -1 }), 0);
	for (unsigned kind = 0; kind < 256; kind++) {
		struct tl_event ev = { .ts_ns = kind, .kind = (uint8_t)kind, .op = bad, .region = bad, .dev = (uint8_t)kind,
				       .cat = (uint8_t)kind, .size = kind & 1 ? TL_SIZE_UNKNOWN : 1, .ptr = UINT64_MAX };

		assert_int_equal(export_jsonl.event(c, &ev, FIX_EPOCH_OFF), 0);
	}
	assert_int_equal(export_end(&export_jsonl, c, NULL), 0);
	fclose(f);
	for (char *line = strtok(text, "\n"), *ev; line; line = strtok(NULL, "\n")) {
		json_t *v = parse(line, strlen(line), JSON_DECODE_INT_AS_REAL);

		ev = (char *)json_string_value(json_object_get(v, "ev"));
		assert_non_null(ev);
		if (!strcmp(ev, "create") || !strcmp(ev, "preexisting") || !strcmp(ev, "version") || !strcmp(ev, "destroy"))
			for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
				assert_non_null(json_object_get(v, fields[i]));
		json_decref(v);
	}
	free(text);
	names__free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contract), cmocka_unit_test(test_golden),
		cmocka_unit_test(test_hostile),	 cmocka_unit_test(test_every_byte_pair),
		cmocka_unit_test(test_numbers),	 cmocka_unit_test(test_jsonl_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
