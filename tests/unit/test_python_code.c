/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * python: lines against what co_lines() of 3.10.13, 3.11.7 and 3.13.0 says of one function; code objects in
 * made-up memory; any bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memtrace/event.h"
#include "python/code.h"
#include "python/linetable.h"

/* Up to `end` bytes of code, this line; 0: none. */
struct span {
	uint32_t end, line;
};

static const uint8_t table_10[] = {
	6, 2, 2, 1, 6, 255, 4, 2, 2, 1, 2, 255, 2, 2, 2, 1, 2, 1, 2, 1, 2, 255, 6, 254, 10, 6, 2, 1, 8, 1, 4, 3, 12,
	254, 2, 1, 4, 1, 2, 254,
};
static const struct span spans_10[] = {
	{ 6, 203 }, { 8, 204 }, { 14, 203 }, { 18, 205 }, { 20, 206 }, { 22, 205 }, { 24, 207 }, { 26, 208 },
	{ 28, 209 }, { 30, 210 }, { 32, 209 }, { 38, 207 }, { 48, 213 }, { 50, 214 }, { 58, 215 }, { 62, 218 },
	{ 74, 216 }, { 76, 217 }, { 80, 218 }, { 82, 216 },
};

static const uint8_t table_11[] = {
	128, 0, 240, 4, 1, 9, 21, 240, 0, 1, 9, 21, 216, 18, 19, 240, 3, 1, 9, 21, 241, 0, 1, 9, 21, 244, 0, 1, 9,
	21, 128, 65, 224, 8, 9, 240, 0, 5, 5, 19, 216, 12, 13, 240, 3, 5, 5, 19, 229, 15, 16, 216, 12, 13, 216, 15,
	16, 216, 15, 16, 240, 3, 1, 15, 18, 240, 5, 3, 16, 19, 241, 0, 3, 16, 19, 244, 0, 3, 16, 19, 240, 0, 3, 9,
	19, 240, 12, 0, 14, 15, 208, 4, 20, 208, 4, 20, 136, 1, 136, 1, 240, 2, 3, 5, 13, 221, 8, 9, 137, 3, 140, 3,
	136, 3, 136, 3, 248, 221, 11, 12, 240, 0, 1, 5, 13, 240, 0, 1, 5, 13, 240, 0, 1, 5, 13, 216, 8, 12, 136, 4,
	240, 3, 1, 5, 13, 248, 248, 248, 224, 11, 12, 128, 72,
};
static const struct span spans_11[] = {
	{ 2, 201 }, { 4, 203 }, { 6, 203 }, { 8, 204 }, { 10, 203 }, { 14, 203 }, { 24, 203 }, { 26, 203 },
	{ 28, 205 }, { 30, 205 }, { 32, 206 }, { 34, 205 }, { 46, 207 }, { 48, 208 }, { 50, 209 }, { 52, 210 },
	{ 54, 209 }, { 56, 207 }, { 60, 207 }, { 70, 207 }, { 72, 207 }, { 74, 213 }, { 76, 213 }, { 78, 213 },
	{ 80, 213 }, { 82, 213 }, { 84, 214 }, { 96, 215 }, { 100, 215 }, { 110, 215 }, { 112, 215 }, { 114, 215 },
	{ 116, 0 }, { 128, 216 }, { 130, 216 }, { 132, 216 }, { 134, 216 }, { 136, 217 }, { 138, 217 }, { 140, 216 },
	{ 142, 0 }, { 144, 0 }, { 146, 0 }, { 148, 218 }, { 150, 218 },
};

static const uint8_t table_13[] = {
	128, 0, 241, 6, 0, 19, 20, 243, 3, 1, 9, 21, 217, 18, 19, 136, 81, 243, 3, 0, 10, 11, 217, 18, 19, 240, 3, 0,
	5, 6, 240, 0, 1, 9, 21, 230, 8, 9, 222, 12, 13, 220, 15, 16, 216, 12, 13, 216, 15, 16, 216, 15, 16, 240, 3,
	1, 15, 18, 241, 5, 3, 16, 19, 240, 0, 3, 9, 19, 243, 12, 0, 14, 15, 136, 1, 145, 4, 137, 81, 240, 2, 3, 5,
	13, 220, 8, 9, 140, 3, 240, 6, 0, 12, 13, 128, 72, 249, 242, 31, 1, 9, 21, 248, 244, 26, 0, 12, 13, 243, 0,
	1, 5, 13, 216, 8, 12, 216, 11, 12, 128, 72, 240, 5, 1, 5, 13, 250,
};
static const struct span spans_13[] = {
	{ 2, 201 }, { 6, 204 }, { 14, 203 }, { 20, 204 }, { 28, 203 }, { 32, 204 }, { 36, 203 }, { 50, 205 },
	{ 64, 206 }, { 74, 207 }, { 76, 208 }, { 78, 209 }, { 80, 210 }, { 82, 209 }, { 88, 207 }, { 106, 213 },
	{ 108, 214 }, { 128, 215 }, { 132, 218 }, { 136, 0 }, { 142, 203 }, { 144, 0 }, { 162, 216 }, { 164, 217 },
	{ 168, 218 }, { 170, 216 }, { 176, 0 },
};

static void check_table(unsigned minor, const uint8_t *table, size_t len, const struct span *spans, size_t cnt)
{
	uint32_t at = 0;

	for (size_t i = 0; i < cnt; i++)
		for (; at < spans[i].end; at += 2)
			assert_int_equal(py_line(minor, table, len, 201, at), spans[i].line);
	assert_int_equal(py_line(minor, table, len, 201, at), 0);
	assert_int_equal(py_line(minor, table, len, 201, UINT64_MAX), 0);
}

static void test_lines(void **state)
{
	(void)state;
	check_table(10, table_10, sizeof(table_10), spans_10, sizeof(spans_10) / sizeof(spans_10[0]));
	check_table(11, table_11, sizeof(table_11), spans_11, sizeof(spans_11) / sizeof(spans_11[0]));
	check_table(13, table_13, sizeof(table_13), spans_13, sizeof(spans_13) / sizeof(spans_13[0]));
}

static void test_lines_of_any_bytes(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)i % 64;
		uint8_t *table = malloc(len + 1); /* its own block: ASan sees one byte too far */

		for (size_t k = 0; k < len; k++)
			table[k] = (uint8_t)((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 33);
		for (unsigned minor = PY_MINOR_MIN; minor <= PY_MINOR_MAX; minor++) {
			assert_true(py_line(minor, table, len, (uint32_t)seed, seed % 100) <= INT32_MAX);
			assert_int_equal(py_line(minor, table, 0, 1, 0), 0);
		}
		free(table);
	}
}

/* --- code objects in memory of our making ----------------------------------------------------------------- */

#define BASE 0x7f0000000000ull
#define TYPE 0x7f1000000000ull

struct fake {
	uint8_t bytes[16384];
};

static int read_fake(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct fake *f = ctx;

	if (addr < BASE || addr - BASE > sizeof(f->bytes) || len > sizeof(f->bytes) - (addr - BASE))
		return -EFAULT;
	memcpy(buf, f->bytes + (addr - BASE), len);
	return 0;
}

static void put(struct fake *f, uint64_t addr, uint64_t v, size_t len)
{
	memcpy(f->bytes + (addr - BASE), &v, len);
}

static uint64_t put_str(struct fake *f, const struct py_frame_offsets *at, uint64_t addr, const char *text, unsigned kind)
{
	size_t len = strlen(text);

	put(f, addr, 1, 8);
	put(f, addr + 16, len, 8);
	put(f, addr + 32, 1u << 5 | kind << 2 | (kind == 1) << 6, 4);
	for (size_t i = 0; i < len; i++)
		put(f, addr + (kind == 1 ? at->str_ascii : at->str_other) + i * kind, (uint8_t)text[i], kind);
	return addr;
}

enum { CODE = 0x1000, FILE_NAME = 0x2000, FUNCTION = 0x2800, TABLE = 0x3000 };

static uint64_t make_code(struct fake *f, const struct py_frame_offsets *at)
{
	__u64 words[4];

	memset(f, 0, sizeof(*f));
	put(f, BASE + CODE, 3, 8);
	put(f, BASE + CODE + 8, TYPE, 8);
	put(f, BASE + CODE + at->code_firstlineno, 201, 4);
	put(f, BASE + CODE + at->code_filename, put_str(f, at, BASE + FILE_NAME, "/a/job.py", 1), 8);
	put(f, BASE + CODE + at->code_qualname, put_str(f, at, BASE + FUNCTION, "Net.forward", 2), 8);
	put(f, BASE + CODE + at->code_linetable, BASE + TABLE, 8);
	put(f, BASE + TABLE + 16, sizeof(table_11), 8);
	memcpy(f->bytes + TABLE + 32, table_11, sizeof(table_11));
	memcpy(words, f->bytes + CODE + at->code_check, sizeof(words));
	return mt_py_check(words);
}

static void test_code(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct py_mem mem = { read_fake, f };

	(void)state;
	for (unsigned minor = PY_MINOR_MIN; minor <= PY_MINOR_MAX; minor++) {
		struct py_runtime rt = { .at = py_frame_offsets(minor), .code_type = TYPE };
		uint64_t check = make_code(f, rt.at);
		struct py_code c;

		assert_non_null(rt.at);
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check), 0);
		assert_string_equal(c.file, "/a/job.py");
		assert_string_equal(c.function, "Net.forward");
		if (minor > 10) {
			assert_int_equal(py_code__line(&c, minor, BASE + CODE + rt.at->code_bytecode + 30), 206);
			assert_int_equal(py_code__line(&c, minor, BASE + CODE), 0); /* before its code */
		}
		py_code__done(&c);
		/* Another one lies there now, it was freed, or it never was one. */
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check + 1), -ESTALE);
		put(f, BASE + CODE, 0x7f1234567890, 8);
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check), -ESTALE);
		put(f, BASE + CODE, 0, 8);
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check), -ESTALE);
		put(f, BASE + CODE, 1, 8);
		put(f, BASE + CODE + 8, TYPE + 8, 8);
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check), -ESTALE);
		assert_int_equal(py_code__read(&c, &rt, &mem, 1, check), -ESTALE);
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + sizeof(*f), check), -ESTALE);
	}
	assert_null(py_frame_offsets(9));
	assert_null(py_frame_offsets(14));
	free(f);
}

/* A long path keeps its end; characters of two and four bytes become UTF-8. */
static void test_texts(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct py_runtime rt = { .at = py_frame_offsets(12), .code_type = TYPE };
	struct py_mem mem = { read_fake, f };
	uint64_t check = make_code(f, rt.at);
	char path[900];
	struct py_code c;

	(void)state;
	memset(path, 'd', sizeof(path));
	strcpy(path + sizeof(path) - 9, "/last.py");
	put_str(f, rt.at, BASE + FILE_NAME, path, 1);
	put(f, BASE + FUNCTION + 16, 2, 8);
	put(f, BASE + FUNCTION + 32, 1u << 5 | 4u << 2, 4);
	put(f, BASE + FUNCTION + rt.at->str_other, 0x1f600, 4);
	put(f, BASE + FUNCTION + rt.at->str_other + 4, 0xe9, 4);
	assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check), 0);
	assert_int_equal(strlen(c.file), PY_CODE_TEXT_MAX - 4);
	assert_string_equal(c.file + strlen(c.file) - 8, "/last.py");
	assert_string_equal(c.function, "\xf0\x9f\x98\x80\xc3\xa9");
	py_code__done(&c);
	free(f);
}

/* A str that calls itself ASCII and is none has no room for its UTF-8: refused, never written beyond the end. */
static void test_texts_that_lie(void **state)
{
	static const unsigned states[] = {
		1u << 5 | 1u << 2 | 1u << 6, 1u << 5 | 2u << 2 | 1u << 6, 1u << 5 | 4u << 2 | 1u << 6,
	};
	struct fake *f = calloc(1, sizeof(*f));
	struct py_runtime rt = { .at = py_frame_offsets(12), .code_type = TYPE };
	struct py_mem mem = { read_fake, f };

	(void)state;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		uint64_t check = make_code(f, rt.at);
		struct py_code c;

		put(f, BASE + FUNCTION + 16, PY_CODE_TEXT_MAX - 4, 8);
		put(f, BASE + FUNCTION + 32, states[i], 4);
		memset(f->bytes + FUNCTION + rt.at->str_ascii, 0xff, TABLE - FUNCTION - rt.at->str_ascii);
		assert_int_equal(py_code__read(&c, &rt, &mem, BASE + CODE, check), -ESTALE);
	}
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lines_of_any_bytes),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_texts_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
