/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A column is a line: the same ones as text, as JSON and for the terminal interface. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

struct thing {
	const char *name;
	uint64_t bytes, parts[2];
	uint8_t has_bytes, dev;
	uint32_t pid;
};

static int is_asked(const struct drawn *d)
{
	return d->of != NULL;
}

static void doubled(struct cell *c, const void *row)
{
	c->num = 2 * ((const struct thing *)row)->bytes;
}

enum { LONG = 1 };

static const struct column columns[] = {
	{ "pid", "process", COL_NUMBER, OF(thing, pid), .shown_if = is_asked, TEXT(5, 9), TUI(3, 8, 100) },
	{ "name", "thing", COL_OR_NULL, OF(thing, name), TEXT(1, 8, .wide = 1), TUI(1, 20, .wide = 1) },
	{ "bytes", "size", COL_BYTES, OF(thing, bytes), IF(thing, has_bytes), TEXT(2, 10), TUI(2, 9) },
	{ NULL, "twice", COL_BYTES, VIA(doubled), TEXT(3, 10) },
	{ "part", "of all", COL_SHARE, ELEMENT(thing, parts), TEXT(4, 9) },
	{ "dev", NULL, COL_DEV, OF(thing, dev), .only = LONG },
};

static const struct table table = TABLE(columns), long_table = TABLE(columns, .variant = LONG);

static const struct thing things[] = {
	{ .name = "first", .bytes = 1 << 20, .parts = { 10, 25 }, .has_bytes = 1, .pid = 7 },
	{ .name = "", .dev = MT_DEV_CUDA0 },
};

static void test_text(void **state)
{
	struct drawn d = drawn_as(AS_TEXT, NULL);
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct page p;

	(void)state;
	d.whole = 100;
	d.index = 1;
	assert_int_equal(page__init(&p, f, 50, 0), 0);
	table__text(&p, &table, &d, things, 2, sizeof(things[0]));
	d.of = &d;
	table__text(&p, &table, &d, things, 1, sizeof(things[0]));
	assert_int_equal(page__done(&p), 0);
	fclose(f);
	assert_string_equal(text, "  thing                    size     twice   of all\n"
				  "  first                1.00 MiB  2.00 MiB   25.0 %\n"
				  "                              -       0 B    0.0 %\n"
				  "  thing           size     twice   of all  process\n"
				  "  first       1.00 MiB  2.00 MiB   25.0 %        7\n");
	free(text);
}

static void test_json(void **state)
{
	struct drawn d = drawn_as(AS_JSON, NULL);
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct outbuf o;
	struct json j;

	(void)state;
	assert_int_equal(outbuf__init(&o, f), 0);
	json__init(&j, &o);
	json__begin_flat(&j, NULL, '{');
	table__list(&j, "things", &table, &d, things, 2, sizeof(things[0]));
	table__object(&j, "long", &long_table, &d, &things[1]);
	json__end(&j, '}');
	assert_int_equal(outbuf__flush(&o), 0);
	outbuf__done(&o);
	fclose(f);
	assert_string_equal(text, "{\"things\":[{\"pid\":7,\"name\":\"first\",\"bytes\":1048576,\"part\":10},"
				  "{\"pid\":0,\"name\":null,\"part\":0}],"
				  "\"long\":{\"pid\":0,\"name\":null,\"part\":0,\"dev\":\"cuda:0\"}}\n");
	free(text);
}

/* The terminal interface has columns of its own order, and asks for their width when it knows the screen's. */
static void test_tui(void **state)
{
	struct drawn d = drawn_as(AS_TUI, NULL);
	const struct column *shown[TABLE_SHOWN_MAX];

	(void)state;
	assert_int_equal(table__shown(&table, &d, shown), 2); /* nobody asks for the process */
	d.of = &d;
	assert_int_equal(table__shown(&table, &d, shown), 3);
	assert_string_equal(shown[0]->head, "thing");
	assert_string_equal(shown[1]->head, "size");
	assert_string_equal(shown[2]->head, "process");
}

struct spot {
	char name[40];
	uint32_t kind;
};

static const char *kind_word(unsigned kind)
{
	return kind == 3 ? "third" : "other";
}

static const struct column spot_columns[] = {
	{ "name", "name", COL_TEXT, IN_ROW(spot, name), TEXT(1, 6, .most = 10) },
	{ "kind", "kind", COL_TEXT, OF(spot, kind), NAMED(kind_word), TEXT(2, 5, .gap = 2) },
	{ NULL, "number", COL_NUMBER, OF(spot, kind), TEXT(3, 7) },
};

/* Texts in the row, words for numbers, and a column as wide as its cells, in a table whose heads are its title. */
static void test_untitled(void **state)
{
	static const struct table untitled = TABLE(spot_columns, .is_untitled = 1);
	static const struct spot spots[] = { { "a", 3 }, { "eight in", 4 }, { "longer than ten", 3 } };
	struct drawn d = drawn_as(AS_TEXT, NULL);
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct page p;

	(void)state;
	assert_int_equal(page__init(&p, f, 50, 1), 0);
	for (size_t cnt = 1; cnt <= 3; cnt++)
		table__text(&p, &untitled, &d, spots, cnt, sizeof(spots[0]));
	assert_int_equal(page__done(&p), 0);
	fclose(f);
	assert_string_equal(text, "\n\x1b[1mname    kind  number\x1b[0m\na       third      3\n"
				  "\n\x1b[1mname      kind  number\x1b[0m\na         third      3\neight in  other      4\n"
				  "\n\x1b[1mname        kind  number\x1b[0m\na           third      3\n"
				  "eight in    other      4\nlonge\xe2\x80\xa6 ten  third      3\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_tui),
		cmocka_unit_test(test_untitled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
