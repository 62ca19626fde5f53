/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "timeline/series.h"

#define MS 1000000ull

static struct series_acc acc;

static struct series copy(uint64_t until)
{
	struct series s = { 0 };

	assert_int_equal(series_acc__copy(&acc, until, &s), 0);
	return s;
}

static void maximum_and_end_of_each_bucket(void **state)
{
	struct series s;

	(void)state;
	series_acc__init(&acc, 5 * MS);
	series_acc__set(&acc, 5 * MS, 10);
	series_acc__set(&acc, 5 * MS + 10, 70);
	series_acc__set(&acc, 5 * MS + 20, 30);
	series_acc__set(&acc, 8 * MS, 20); /* two buckets without a change */
	s = copy(9 * MS);
	assert_int_equal(s.cnt, 5);
	assert_int_equal(s.bucket_ns, MS);
	assert_int_equal(s.points[0].ts_ns, 5 * MS);
	assert_int_equal(s.points[0].live_max, 70);
	assert_int_equal(s.points[0].live_end, 30);
	assert_int_equal(s.points[1].live_max, 30);
	assert_int_equal(s.points[2].live_max, 30);
	assert_int_equal(s.points[3].live_max, 30); /* it began with that */
	assert_int_equal(s.points[3].live_end, 20);
	assert_int_equal(s.points[4].live_end, 20);
	free(s.points);
}

static void width_doubles_and_the_maximum_stays(void **state)
{
	struct series s;
	uint64_t max = 0;

	(void)state;
	series_acc__init(&acc, 0);
	for (uint64_t i = 0; i < 10000; i++)
		series_acc__set(&acc, i * MS, i == 777 ? 1000000 : i);
	s = copy(9999 * MS);
	assert_int_equal(s.bucket_ns, 16 * MS);
	assert_int_equal(s.cnt, 9999 / 16 + 1);
	for (size_t i = 0; i < s.cnt; i++) {
		assert_int_equal(s.points[i].ts_ns, i * 16 * MS);
		assert_int_equal(s.points[i].live_end, i + 1 < s.cnt ? i * 16 + 15 : 9999);
		max = s.points[i].live_max > max ? s.points[i].live_max : max;
	}
	assert_int_equal(max, 1000000);
	assert_int_equal(s.points[777 / 16].live_max, 1000000);
	assert_int_equal(s.points[s.cnt - 1].live_end, 9999);
	free(s.points);
}

static void copying_changes_nothing(void **state)
{
	struct series a, b;

	(void)state;
	series_acc__init(&acc, 0);
	series_acc__set(&acc, 0, 5);
	a = copy(100000 * MS);
	b = copy(10);
	assert_int_equal(b.cnt, 1);
	assert_int_equal(a.points[a.cnt - 1].live_end, 5);
	free(a.points);
	free(b.points);
}

/* No width, time or count overflows at the end of time. */
static void the_longest_time(void **state)
{
	struct series s;

	(void)state;
	series_acc__init(&acc, 0);
	series_acc__set(&acc, 1, 7);
	series_acc__set(&acc, UINT64_MAX - 1, 9);
	series_acc__set(&acc, UINT64_MAX, 11);
	series_acc__set(&acc, UINT64_MAX, 3);
	s = copy(UINT64_MAX);
	assert_true(s.cnt <= REPORT_SERIES_MAX);
	assert_int_equal(s.points[0].live_max, 7);
	assert_int_equal(s.points[s.cnt - 1].live_max, 11);
	assert_int_equal(s.points[s.cnt - 1].live_end, 3);
	free(s.points);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maximum_and_end_of_each_bucket),
		cmocka_unit_test(width_doubles_and_the_maximum_stays),
		cmocka_unit_test(copying_changes_nothing),
		cmocka_unit_test(the_longest_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
