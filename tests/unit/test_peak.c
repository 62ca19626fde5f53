/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What a device remembers of its highest moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/core/device.h"
#include "model/core/tally.h"

static struct device *dev;
static struct tally ops;
static uint64_t id, nobodys; /* live bytes of no module */
static const struct gaps never;

static int setup(void **state)
{
	(void)state;
	dev = device__new(MT_DEV_CPU, 0, 0, &never);
	id = nobodys = 0;
	return !dev || tally__init(&ops) < 0 || tally__add_dev(&ops, 0) < 0;
}

static int teardown(void **state)
{
	(void)state;
	tally__done(&ops);
	device__free(dev);
	return 0;
}

static struct block allocated(uint64_t ts, uint64_t op, uint64_t size)
{
	struct block b = { .id = ++id, .size = size, .op = op, .dev = MT_DEV_CPU };

	tally__allocated(&ops, 0, (uint32_t)op, size, dev->epoch);
	device__allocated(dev, &b, nobodys, ts);
	return b;
}

static void died(uint64_t ts, const struct block *b)
{
	tally__freed(&ops, 0, (uint32_t)b->op, b->size, dev->epoch);
	device__freed(dev, b, ts);
}

static uint64_t op_at_peak(uint32_t op)
{
	return cell__at_peak(&ops.devs[0].cells[op], dev->epoch);
}

static void shares_are_those_of_the_peak(void **state)
{
	struct block a, b, c;

	(void)state;
	a = allocated(1, 1, 100);
	b = allocated(2, 2, 50); /* the peak: 150 */
	died(3, &a);
	c = allocated(4, 3, 60); /* 110 */
	assert_int_equal(dev->peak, 150);
	assert_int_equal(dev->peak_ts_ns, 2);
	assert_int_equal(op_at_peak(1), 100);
	assert_int_equal(op_at_peak(2), 50);
	assert_int_equal(op_at_peak(3), 0);
	died(5, &b);
	died(6, &c);
	assert_int_equal(op_at_peak(2), 50);
	allocated(7, 3, 151);
	assert_int_equal(op_at_peak(1), 0);
	assert_int_equal(op_at_peak(2), 0);
	assert_int_equal(op_at_peak(3), 151);
	assert_int_equal(device_cat__at_peak(&dev->cats[CAT_UNKNOWN], dev->epoch), 151);
}

static void equal_is_no_new_peak(void **state)
{
	struct block a;

	(void)state;
	a = allocated(1, 1, 100);
	died(2, &a);
	allocated(3, 2, 100);
	assert_int_equal(dev->peak_ts_ns, 1);
	assert_int_equal(op_at_peak(1), 100);
	assert_int_equal(op_at_peak(2), 0);
}

static void equal_and_better_known_is_the_peak(void **state)
{
	struct block a, b = { .id = 2, .size = 100, .op = 2, .dev = MT_DEV_CPU, .cat = CAT_ACTIVATION };

	(void)state;
	nobodys = 100;
	a = allocated(1, 1, 100);
	died(2, &a);
	nobodys = 0;
	a = allocated(3, 2, 100); /* of a module now */
	assert_int_equal(dev->peak, 100);
	assert_int_equal(dev->peak_ts_ns, 3);
	assert_int_equal(op_at_peak(1), 0);
	assert_int_equal(op_at_peak(2), 100);
	died(4, &a);
	assert_int_equal(dev->peak_blocks.cnt, 1);
	b.id = ++id;
	tally__allocated(&ops, 0, 2, b.size, dev->epoch);
	device__allocated(dev, &b, nobodys, 5); /* and of a known category */
	assert_int_equal(dev->peak_ts_ns, 5);
	assert_int_equal(dev->peak_blocks.cnt, 0);
	assert_int_equal(device_cat__at_peak(&dev->cats[CAT_ACTIVATION], dev->epoch), 100);
	died(6, &b);
	allocated(7, 1, 100); /* less known: not this one */
	assert_int_equal(dev->peak_ts_ns, 5);
	assert_int_equal(op_at_peak(2), 100);
}

static void freed_since_the_peak_are_kept(void **state)
{
	struct block a, b;

	(void)state;
	a = allocated(1, 1, 100);
	b = allocated(2, 1, 50);
	died(3, &a);
	a = allocated(4, 1, 10); /* allocated after the peak: not part of it */
	died(5, &a);
	died(6, &b);
	assert_int_equal(dev->peak_blocks.cnt, 2);
	assert_int_equal(dev->peak_blocks.heap[0].block.id, 2); /* the smallest on top */
	assert_int_equal(dev->peak_blocks.heap[0].freed_ts_ns, 6);
	allocated(7, 1, 1000);
	assert_int_equal(dev->peak_blocks.cnt, 0);
}

static void only_the_largest_are_kept(void **state)
{
	struct block blocks[3 * PEAK_FREED_MAX];
	size_t n = 3 * PEAK_FREED_MAX;

	(void)state;
	for (size_t i = 0; i < n; i++)
		blocks[i] = allocated(i, 1, 1 + i * 7919 % n); /* 7919 is prime: each size once */
	for (size_t i = 0; i < n; i++)
		died(n + i, &blocks[i]);
	assert_int_equal(dev->peak_blocks.cnt, PEAK_FREED_MAX);
	assert_int_equal(dev->peak_blocks.missed, n - PEAK_FREED_MAX);
	qsort(dev->peak_blocks.heap, PEAK_FREED_MAX, sizeof(struct peak_freed), freed__cmp);
	for (size_t i = 0; i < PEAK_FREED_MAX; i++)
		assert_int_equal(dev->peak_blocks.heap[i].block.size, n - i);
}

static void integral_of_live_over_time(void **state)
{
	struct block a;

	(void)state;
	a = allocated(10, 1, 100);
	allocated(20, 1, 50);
	died(30, &a);
	assert_int_equal(device__byte_ns(dev, 40), 100 * 10 + 150 * 10 + 50 * 10);
	allocated(41, 1, 1ull << 57);
	assert_true(device__byte_ns(dev, UINT64_MAX) == UINT64_MAX); /* 121 bits: says "at least" */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shares_are_those_of_the_peak, setup, teardown),
		cmocka_unit_test_setup_teardown(equal_is_no_new_peak, setup, teardown),
		cmocka_unit_test_setup_teardown(equal_and_better_known_is_the_peak, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_since_the_peak_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(only_the_largest_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(integral_of_live_over_time, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
