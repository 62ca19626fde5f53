/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The last word on every block: few labels, many, in any order, and what cannot be kept. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "base/err.h"
#include "memtrace/event.h"
#include "timeline/labels.h"

static struct labels *l;

static int setup(void **state)
{
	(void)state;
	l = NULL;
	return labels__new(&l, NULL);
}

static int teardown(void **state)
{
	(void)state;
	labels__free(l);
	return 0;
}

static int final(uint64_t id, uint32_t version, uint8_t cat)
{
	return labels__event(l, &(struct tl_event){ .kind = TL_FINAL, .id = id, .version = version, .cat = cat });
}

static void a_label_for_all_versions(void **state)
{
	(void)state;
	assert_int_equal(final(1, 0, CAT_PARAMETER), 0);
	assert_int_equal(final(3, 0, CAT_UNKNOWN), 0);
	assert_int_equal(labels__get(l, 1, 0), CAT_PARAMETER);
	assert_int_equal(labels__get(l, 1, 99), CAT_PARAMETER);
	assert_int_equal(labels__get(l, 2, 0), CAT_UNKNOWN);
	assert_int_equal(labels__get(l, 3, 0), CAT_UNKNOWN);
	assert_int_equal(labels__get(l, 0, 0), CAT_UNKNOWN);
	assert_int_equal(labels__get(l, UINT64_MAX, 0), CAT_UNKNOWN);
}

static void labels_by_version(void **state)
{
	(void)state;
	assert_int_equal(final(7, 0, CAT_INPUT), 0);
	assert_int_equal(final(7, 3, CAT_ACTIVATION), 0);
	assert_int_equal(final(7, UINT32_MAX, CAT_UNKNOWN), 0);
	assert_int_equal(final(5, 0, CAT_AUTOGRAD_DETAIL), 0); /* later, but before it */
	assert_int_equal(final(5, 1, CAT_UNKNOWN), 0);
	assert_int_equal(labels__get(l, 7, 0), CAT_INPUT);
	assert_int_equal(labels__get(l, 7, 2), CAT_INPUT);
	assert_int_equal(labels__get(l, 7, 3), CAT_ACTIVATION);
	assert_int_equal(labels__get(l, 7, UINT32_MAX - 1), CAT_ACTIVATION);
	assert_int_equal(labels__get(l, 7, UINT32_MAX), CAT_UNKNOWN);
	assert_int_equal(labels__get(l, 5, 0), CAT_AUTOGRAD_DETAIL);
	assert_int_equal(labels__get(l, 5, 1), CAT_UNKNOWN);
	assert_int_equal(final(6, 0, CAT_INPUT), 0); /* more after the first question */
	assert_int_equal(final(6, 2, CAT_GRADIENT), 0);
	assert_int_equal(labels__get(l, 6, 1), CAT_INPUT);
	assert_int_equal(labels__get(l, 6, 2), CAT_GRADIENT);
	assert_int_equal(labels__get(l, 5, 0), CAT_AUTOGRAD_DETAIL);
}

#define CNT 200000u

static uint8_t cat_of(uint64_t id, uint32_t version)
{
	return (uint8_t)((id * 2654435761u + version) % CAT_MAX);
}

/* A third of them with several labels, told in an order that is not that of ids. */
static void many_blocks(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CNT; i++) {
		uint64_t id = 1 + (i * 7919ull) % CNT;

		for (uint32_t v = 0; v <= (id % 3 ? 0 : 4); v += 2)
			assert_int_equal(final(id, v, cat_of(id, v)), 0);
	}
	for (uint64_t id = 1; id <= CNT; id++) {
		assert_int_equal(labels__get(l, id, 0), cat_of(id, 0));
		assert_int_equal(labels__get(l, id, 3), cat_of(id, id % 3 ? 0 : 2));
		assert_int_equal(labels__get(l, id, 9), cat_of(id, id % 3 ? 0 : 4));
	}
}

static void preexisting_blocks_in_order(void **state)
{
	struct labels_late late;
	size_t pos = 0;

	(void)state;
	for (uint64_t id = 1; id <= 10000; id++) {
		struct tl_event ev = { .kind = id % 2 ? TL_PREEXISTING : TL_CREATE, .id = id, .ptr = id << 12,
				       .size = id % 5 ? 64 : TL_SIZE_UNKNOWN, .pid = 9, .dev = MT_DEV_CPU };

		assert_int_equal(labels__event(l, &ev), 0);
	}
	for (uint64_t id = 1; id <= 10000; id += 2) {
		assert_int_equal(labels__next_late(l, &pos, &late), 0);
		assert_int_equal(late.id, id);
		assert_int_equal(late.ptr, id << 12);
		assert_int_equal(late.size, id % 5 ? 64 : TL_SIZE_UNKNOWN);
		assert_int_equal(late.pid, 9);
		assert_int_equal(late.dev, MT_DEV_CPU);
	}
	assert_int_equal(labels__next_late(l, &pos, &late), -ENOENT);
}

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	assert_int_equal(final(0, 0, CAT_INPUT), -ERANGE);
	assert_int_equal(final(UINT64_MAX, 0, CAT_INPUT), -ERANGE);
	assert_int_equal(final(1ull << 40, 0, CAT_INPUT), -ERANGE);
	assert_int_equal(final(1, 0, CAT_MAX), -ERANGE);
	assert_int_equal(labels__get(l, 1, 0), CAT_UNKNOWN);
}

/* A file that may not grow is an error, never a signal, and what was there stays. */
static void no_room(void **state)
{
	struct rlimit was, small = { 1 << 20, 1 << 20 };

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small.rlim_max = was.rlim_max;
	assert_int_equal(final(5, 0, CAT_GRADIENT), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(final(100 << 20, 0, CAT_INPUT), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(labels__get(l, 5, 0), CAT_GRADIENT);
	assert_int_equal(labels__get(l, 100 << 20, 0), CAT_UNKNOWN);
	assert_int_equal(final(6, 0, CAT_INPUT), 0);
}

/* A block's module has a name later than the block, or never, or had one at once. */
static void modules_by_number(void **state)
{
	struct tl_event late = { .kind = TL_CREATE, .module_number = 7 }, none = { .kind = TL_CREATE, .module_number = 8 };
	struct tl_event known = { .kind = TL_CREATE, .module = { 3 }, .root = { 4 } };

	(void)state;
	assert_int_equal(labels__event(l, &(struct tl_event){ .kind = TL_MODULE, .id = 7, .op = { 1 }, .region = { 2 } }), 0);
	labels__module(l, &late);
	assert_true(late.module.v == 1 && late.root.v == 2 && !late.module_number);
	labels__module(l, &none);
	assert_true(!none.module.v && !none.root.v && none.module_number == 8);
	labels__module(l, &known);
	assert_true(known.module.v == 3 && known.root.v == 4);
}

static void no_directory(void **state)
{
	struct labels *none = NULL;
	struct err err = { 0 };
	const char *was = getenv("TMPDIR");

	(void)state;
	setenv("TMPDIR", "/nowhere/at/all", 1);
	assert_int_equal(labels__new(&none, &err), -ENOENT);
	assert_null(none);
	assert_string_not_equal(err.msg, "");
	if (was)
		setenv("TMPDIR", was, 1);
	else
		unsetenv("TMPDIR");
	labels__free(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_label_for_all_versions), TEST(labels_by_version), TEST(many_blocks),
		TEST(preexisting_blocks_in_order), TEST(what_cannot_be_is_refused), TEST(no_room), TEST(modules_by_number),
		TEST(no_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
