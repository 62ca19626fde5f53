/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* line_sort against a stable sort of the same lines, in memory and in runs in a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/fold/line_sort.h"

#define LINES 5000
#define LONG_LINE (300u << 10) /* more than an outbuf holds */

struct line {
	struct line_key key;
	char text[64];
	int seq;
};

static struct line lines[LINES];

static int cmp(const void *pa, const void *pb)
{
	const struct line *a = pa, *b = pb;
	int r;

	if (a->key.place != b->key.place)
		return a->key.place < b->key.place ? -1 : 1;
	if (a->key.num != b->key.num)
		return a->key.num > b->key.num ? -1 : 1;
	r = strcmp(a->key.text, b->key.text);
	return r ? r : a->seq - b->seq;
}

static void make(unsigned seed)
{
	static const char *const words[] = { "", "a", "aa", "ab", "b", "\xc3\xa9" };

	srand(seed);
	for (int i = 0; i < LINES; i++) {
		struct line *l = &lines[i];
		const char *word = words[rand() % 6];

		l->key = (struct line_key){ .place = (uint8_t)(rand() % 3), .num = (uint64_t)(rand() % 4) << (rand() % 60),
					    .text = word, .len = strlen(word) };
		snprintf(l->text, sizeof(l->text), "%.*s%d\n", rand() % 30, "-------------------------------", i);
		l->seq = i;
	}
}

/* The lines through it, with `bytes` of memory; the caller frees. */
static char *sorted(size_t bytes, int is_itself)
{
	struct line_sort *s;
	struct outbuf o;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_int_equal(outbuf__init(&o, f), 0);
	outbuf__lit(&o, "head\n");
	s = line_sort__new(&o, bytes);
	assert_non_null(s);
	for (int i = 0; i < LINES; i++) {
		struct line_key key = lines[i].key;

		if (is_itself)
			key = (struct line_key){ .text = LINE_ITSELF };
		if (i % 7 == 3) /* nothing was written: no line */
			assert_int_equal(line_sort__put(s, &key), 0);
		outbuf__str(&o, lines[i].text);
		assert_int_equal(line_sort__put(s, &key), 0);
	}
	assert_int_equal(line_sort__end(s), 0);
	line_sort__free(s);
	outbuf__lit(&o, "foot\n");
	assert_int_equal(outbuf__flush(&o), 0);
	outbuf__done(&o);
	fclose(f);
	return text;
}

static char *expected(void)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	qsort(lines, LINES, sizeof(lines[0]), cmp);
	fputs("head\n", f);
	for (int i = 0; i < LINES; i++)
		fputs(lines[i].text, f);
	fputs("foot\n", f);
	fclose(f);
	return text;
}

static void like_a_stable_sort(void **state)
{
	static const size_t bytes[] = { 0, 1, 300, 4096, 100000 }; /* 1: each line a run of its own */
	char *got[5], *want;

	(void)state;
	make(7);
	for (size_t i = 0; i < 5; i++)
		got[i] = sorted(bytes[i], 0);
	want = expected();
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(got[i], want);
		free(got[i]);
	}
	free(want);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

static void lines_by_themselves(void **state)
{
	char *got, *at;

	(void)state;
	make(8);
	got = sorted(1000, 1);
	qsort(lines, LINES, sizeof(lines[0]), by_text);
	at = got + strlen("head\n");
	for (int i = 0; i < LINES; at += strlen(lines[i].text), i++)
		assert_memory_equal(at, lines[i].text, strlen(lines[i].text));
	free(got);
}

/* Lines longer than what is kept, and runs longer than what is given back at once. */
static void long_lines(void **state)
{
	char *one = malloc(LONG_LINE), *text = NULL;
	struct line_sort *s;
	struct outbuf o;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_non_null(one);
	assert_int_equal(outbuf__init(&o, f), 0);
	s = line_sort__new(&o, 3 << 20);
	for (int i = 0; i < 26; i++) {
		memset(one, 'a' + i, LONG_LINE);
		outbuf__put(&o, one, LONG_LINE);
		assert_int_equal(line_sort__put(s, &(struct line_key){ .num = (uint64_t)(i * 7 % 26), .text = "" }), 0);
	}
	assert_int_equal(line_sort__end(s), 0);
	line_sort__free(s);
	assert_int_equal(outbuf__flush(&o), 0);
	assert_int_equal(len, 26 * LONG_LINE);
	for (int i = 0; i < 26; i++) {
		memset(one, 'a' + (25 - i) * 15 % 26, LONG_LINE); /* 15 · 7 is 1 modulo 26 */
		assert_memory_equal(text + (size_t)i * LONG_LINE, one, LONG_LINE);
	}
	outbuf__done(&o);
	fclose(f);
	free(text);
	free(one);
}

/* No room for the file: an error, and what was written before is as it was. */
static void no_room(void **state)
{
	struct line_key key = { .text = LINE_ITSELF };
	char *was = getenv("TMPDIR"), *text = NULL, kept[4096] = "";
	struct line_sort *s;
	struct outbuf o;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	if (was)
		snprintf(kept, sizeof(kept), "%s", was);
	setenv("TMPDIR", "/nowhere", 1);
	assert_int_equal(outbuf__init(&o, f), 0);
	outbuf__lit(&o, "head\n");
	s = line_sort__new(&o, 1);
	outbuf__lit(&o, "a line\n");
	assert_int_equal(line_sort__put(s, &key), 0);
	outbuf__lit(&o, "another\n");
	assert_int_equal(line_sort__put(s, &key), -ENOENT);
	line_sort__free(s);
	assert_int_equal(outbuf__flush(&o), 0);
	assert_string_equal(text, "head\n");
	outbuf__done(&o);
	fclose(f);
	free(text);
	if (was)
		setenv("TMPDIR", kept, 1);
	else
		unsetenv("TMPDIR");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like_a_stable_sort),
		cmocka_unit_test(lines_by_themselves),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
