/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "event/event.h"

static void test_ids_are_dense_and_stable(void **state)
{
	struct names *n = names__new();
	const char *first;
	char buf[32];

	(void)state;
	assert_non_null(n);
	assert_int_equal(names__last(n), 0);
	assert_int_equal(names__add(n, "aten::add").v, 1);
	first = names__get(n, (name_id){ 1 });
	for (uint32_t i = 2; i <= 50000; i++) {
		snprintf(buf, sizeof(buf), "name %u", i);
		assert_int_equal(names__add(n, buf).v, i);
	}
	assert_int_equal(names__last(n), 50000);
	assert_ptr_equal(names__get(n, (name_id){ 1 }), first); /* texts never move */
	assert_string_equal(first, "aten::add");
	for (uint32_t i = 2; i <= 50000; i++) {
		snprintf(buf, sizeof(buf), "name %u", i);
		assert_int_equal(names__add(n, buf).v, i);
		assert_int_equal(names__find(n, buf).v, i);
		assert_string_equal(names__get(n, (name_id){ i }), buf);
	}
	assert_int_equal(names__last(n), 50000);
	assert_int_equal(names__overflow_cnt(n), 0);
	names__free(n);
}

static void test_edges(void **state)
{
	struct names *n = names__new();
	char *big = malloc(NAME_BYTES_MAX + 10);
	name_id a, b;

	(void)state;
	assert_non_null(n);
	assert_non_null(big);
	assert_int_equal(names__add(n, "").v, 0);
	assert_int_equal(names__add(n, NULL).v, 0);
	assert_int_equal(names__find(n, "").v, 0);
	assert_int_equal(names__find(n, "never").v, 0);
	assert_string_equal(names__get(n, NAME_NONE), "");
	assert_int_equal(names__len(n, NAME_NONE), 0);
	assert_string_equal(names__get(n, (name_id){ 77 }), "?");
	assert_int_equal(names__len(n, (name_id){ 77 }), 1);
	assert_string_equal(names__get(n, (name_id){ UINT32_MAX }), "?");

	/* Bytes as they came: NUL inside, and a prefix is another name. */
	a = names__add_len(n, "a\0b", 3);
	b = names__add_len(n, "a", 1);
	assert_int_not_equal(a.v, b.v);
	assert_int_equal(names__len(n, a), 3);
	assert_memory_equal(names__get(n, a), "a\0b", 4);

	/* Longer ones are cut, and the cut one is the same name again. */
	memset(big, 'x', NAME_BYTES_MAX + 10);
	a = names__add_len(n, big, NAME_BYTES_MAX + 10);
	assert_int_equal(names__len(n, a), NAME_BYTES_MAX);
	assert_int_equal(strlen(names__get(n, a)), NAME_BYTES_MAX);
	assert_int_equal(names__add_len(n, big, NAME_BYTES_MAX).v, a.v);
	names__free(n);
	names__free(NULL);
	free(big);
}

static void test_full_table(void **state)
{
	struct names *n = names__new();
	name_id over;

	(void)state;
	assert_non_null(n);
	for (uint32_t i = 1; i <= NAMES_MAX - 2; i++) {
		uint64_t text = i;

		assert_int_equal(names__add_len(n, (char *)&text, sizeof(text)).v, i);
	}
	assert_int_equal(names__overflow_cnt(n), 0);
	over = names__add(n, "one too many");
	assert_string_equal(names__get(n, over), "?");
	assert_int_equal(names__overflow_cnt(n), 1);
	assert_int_equal(names__add(n, "another").v, over.v);
	assert_int_equal(names__overflow_cnt(n), 2);
	assert_true(names__last(n) < NAMES_MAX);
	/* Known ones are still found. */
	assert_int_equal(names__add_len(n, (char *)&(uint64_t){ 5 }, 8).v, 5);
	names__free(n);
}

static void test_full_table_with_question_mark(void **state)
{
	struct names *n = names__new();

	(void)state;
	assert_non_null(n);
	assert_int_equal(names__add(n, "?").v, 1);
	for (uint32_t i = 2; i <= NAMES_MAX + 5; i++) {
		uint64_t text = i;
		name_id id = names__add_len(n, (char *)&text, sizeof(text));

		assert_true(id.v == i || !strcmp(names__get(n, id), "?"));
	}
	assert_true(names__last(n) < NAMES_MAX);
	assert_true(names__overflow_cnt(n) > 0);
	names__free(n);
}

static void test_event_words(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(event_kind_name(MT_EV_ALLOC), "alloc");
	assert_string_equal(event_kind_name(EV_SELF), "self");
	assert_string_equal(event_kind_name(0), "?");
	assert_string_equal(event_kind_name(60), "?");
	assert_string_equal(event_kind_name(255), "?");
	for (unsigned k = 1; k < EV_MAX; k++)
		if (k < MT_EV_WIRE_MAX || (k >= EV_BEGIN && k <= EV_TENSOR) || k == EV_WAS || k == EV_WAS_FLOW ||
		    k >= EV_MACHINE)
			assert_string_not_equal(event_kind_name((uint8_t)k), "?");
	assert_string_equal(loss_name(MT_LOSS_RING), "ring");
	assert_string_equal(loss_name(MT_LOSS_SITES), "sites");
	assert_null(loss_name(MT_LOSS_NONE));
	assert_null(loss_name(MT_LOSS_MAX));
	assert_null(loss_name(UINT32_MAX));
	assert_string_equal(dev_name(MT_DEV_CPU, buf), "cpu");
	assert_string_equal(dev_name(MT_DEV_HOST, buf), "host");
	assert_string_equal(dev_name(MT_DEV_NONE, buf), "none");
	assert_string_equal(dev_name(MT_DEV_CUDA0 + 3, buf), "cuda:3");
	assert_string_equal(dev_name(MT_DEV_CUDA0 + 63, buf), "cuda:63");
	assert_string_equal(dev_name(255, buf), "dev255");
}

static unsigned full_cnt;
static uint32_t full_who;

static void on_full(void *ctx, uint32_t owner)
{
	assert_ptr_equal(ctx, &full_cnt);
	full_cnt++;
	full_who = owner;
}

static name_id add_of(struct names *n, uint32_t owner, const char *format, unsigned i)
{
	char text[64];

	return names__add_of(n, owner, text, (size_t)snprintf(text, sizeof(text), format, i));
}

/* One process makes up names without end; those of others get through, and the table is never full. */
static void test_share(void **state)
{
	struct names *n = names__new();
	uint64_t lost;

	(void)state;
	names__on_full(n, on_full, &full_cnt);
	for (unsigned i = 0; i < NAMES_MAX + 10; i++)
		(void)add_of(n, 7, "iter%u", i);
	assert_int_equal(full_cnt, 1);
	assert_int_equal(full_who, 7);
	assert_true(names__last(n) >= NAMES_MAX / 9 && names__last(n) <= NAMES_MAX / 8);
	lost = names__overflow_cnt(n);
	assert_int_equal(lost, NAMES_MAX + 10 - (names__last(n) - 1)); /* "?" */
	assert_string_equal(names__get(n, add_of(n, 7, "iter%u", NAMES_MAX)), "?");
	assert_string_equal(names__get(n, add_of(n, 7, "iter%u", 3)), "iter3"); /* was there */
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(names__len(n, add_of(n, 8, "layer%05u", i)), 10);
	assert_string_equal(names__get(n, names__add(n, "aten::add")), "aten::add");
	assert_int_equal(names__overflow_cnt(n), lost + 1);
	names__free(n);
}

/* 65,536 processes with a command line of 4 KiB each, one after the other: a recording's limit is never reached. */
static void test_share_bytes(void **state)
{
	struct names *n = names__new();
	char text[NAME_BYTES_MAX];
	size_t bytes = 0;

	(void)state;
	names__limit(n, 64u << 20);
	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 65536; i++) {
		name_id id;

		text[snprintf(text, sizeof(text), "%08x", i)] = 'x';
		id = names__add_of(n, i % 32 + 1, text, sizeof(text));
		bytes += names__len(n, id) == sizeof(text) ? sizeof(text) : 0;
		if (i % 1024 == 1023)
			names__drop_owner(n, i % 32 + 1);
	}
	assert_true(bytes < 64u << 20);
	assert_true(bytes > 32u << 20);
	assert_string_equal(names__get(n, names__add(n, "aten::add")), "aten::add");
	assert_string_equal(names__get(n, add_of(n, 99, "layer%u", 1)), "layer1");
	names__free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_are_dense_and_stable),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_full_table),
		cmocka_unit_test(test_full_table_with_question_mark),
		cmocka_unit_test(test_event_words),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_share_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
