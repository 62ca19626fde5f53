/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What tracing costs a job, by its own steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/core/price.h"

#define MS 1000000ull

static uint64_t now;

static void steps(struct price *p, unsigned cnt, uint64_t took_ns, uint64_t spread_ns)
{
	for (unsigned i = 0; i < cnt; i++) {
		uint64_t took = took_ns + i % 5 * spread_ns;

		now += took;
		price__step(p, took, now);
	}
}

static void traced(struct price *p, unsigned cnt, uint64_t took_ns, uint64_t spread_ns)
{
	price__attach(p, 1);
	steps(p, 3, 500 * MS, 0); /* meanwhile */
	price__attach(p, 0);
	steps(p, 1, 700 * MS, 0); /* under way when the last probe was set */
	steps(p, cnt, took_ns, spread_ns);
}

static void the_loss_is_that_of_the_median_step(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 20, 15 * MS, 0);
	traced(&p, 30, 20 * MS, 0);
	price__report(&p, 7, &sum);
	assert_int_equal(sum.pid, 7);
	assert_int_equal(sum.steps_before, 20);
	assert_int_equal(sum.steps, 30);
	assert_int_equal(sum.before_ns, 15 * MS);
	assert_int_equal(sum.traced_ns, 20 * MS);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	assert_true(sum.error == 0);
}

/* Quartiles 2 ms apart around 12 ms: 1.57 x 2 / sqrt(25) / 12 on both sides. */
static void steps_that_differ_make_it_unsure(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 25, 10 * MS, MS);
	traced(&p, 25, 10 * MS, MS);
	price__report(&p, 1, &sum);
	assert_true(sum.lost == 0);
	assert_true(sum.error > 0.0739 && sum.error < 0.0741);
}

static void few_steps_say_nothing(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	traced(&p, 100, 20 * MS, 0); /* launched: none before */
	price__report(&p, 1, &sum);
	assert_int_equal(sum.steps, 0);
	p = (struct price){ 0 };
	steps(&p, 100, 15 * MS, 0);
	traced(&p, PRICE_STEPS_MIN - 1, 20 * MS, 0);
	price__report(&p, 1, &sum);
	assert_int_equal(sum.steps, 0);
	steps(&p, 1, 20 * MS, 0);
	price__report(&p, 1, &sum);
	assert_int_equal(sum.steps, PRICE_STEPS_MIN);
}

/* Of many steps some are kept, from the whole time; what comes long after is other work. */
static void many_steps_and_late_ones(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 100 * PRICE_STEPS, MS / 10, 0);
	traced(&p, 5 * PRICE_STEPS, MS, 0);
	steps(&p, 4 * PRICE_STEPS, 2 * MS, 0);
	price__report(&p, 1, &sum);
	assert_in_range(sum.steps_before, PRICE_STEPS / 2, PRICE_STEPS);
	assert_in_range(sum.steps, PRICE_STEPS / 2, PRICE_STEPS);
	assert_int_equal(sum.traced_ns, MS);
	now += PRICE_TRACED_NS;
	steps(&p, 100 * PRICE_STEPS, 9 * MS, 0);
	sum = (struct report_price){ 0 };
	price__report(&p, 1, &sum);
	assert_int_equal(sum.traced_ns, MS);
}

/* Probes that are set again, of a library that comes later, are no second beginning. */
static void what_is_set_later_is_left_out(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 20, 15 * MS, 0);
	traced(&p, 10, 20 * MS, 0);
	traced(&p, 10, 20 * MS, 0);
	price__report(&p, 1, &sum);
	assert_int_equal(sum.steps, 20);
	assert_int_equal(sum.before_ns, 15 * MS);
	assert_int_equal(sum.traced_ns, 20 * MS);
}

static void the_process_with_most_steps_is_reported(void **state)
{
	struct price one = { 0 }, two = { 0 };
	struct report_price sum = { 0 };

	(void)state;
	steps(&one, 5, 15 * MS, 0);
	traced(&one, 50, 20 * MS, 0);
	steps(&two, 10, 15 * MS, 0);
	traced(&two, 10, 30 * MS, 0);
	price__report(&one, 1, &sum);
	price__report(&two, 2, &sum);
	price__report(&one, 1, &sum);
	assert_int_equal(sum.pid, 2);
	assert_int_equal(sum.traced_ns, 30 * MS);
}

static void after(struct price *p, unsigned cnt, uint64_t took_ns)
{
	for (unsigned i = 0; i < cnt; i++)
		price__after(p, took_ns);
}

/* The job became slower by itself: the traced steps lie between. */
static void both_ends_cancel_what_changes_evenly(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 20, 14 * MS, 0);
	traced(&p, 30, 20 * MS, 0);
	after(&p, 10, 16 * MS);
	price__report(&p, 7, &sum);
	assert_int_equal(sum.steps_before, 20);
	assert_int_equal(sum.steps_after, 10);
	assert_int_equal(sum.steps, 30);
	assert_int_equal(sum.before_ns, 14 * MS);
	assert_int_equal(sum.after_ns, 16 * MS);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	assert_true(sum.error > 0.0499 && sum.error < 0.0501); /* they are so far apart */
}

/* In a long trace each end is compared with the traced steps that are near to it. */
static void each_end_has_its_own_traced_steps(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 20, 15 * MS, 0);
	traced(&p, PRICE_TRACED_NS / 20 / MS, 20 * MS, 0);
	steps(&p, 3 * PRICE_TRACED_NS / 40 / MS, 40 * MS, 0);
	after(&p, 10, 30 * MS);
	price__report(&p, 7, &sum);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	assert_true(sum.error < 0.0001);
}

/* Of the latest steps each second counts the same, and what was long before a pause does not count. */
static void the_latest_steps_are_evenly_spread(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 20, 15 * MS, 0);
	traced(&p, 30, 20 * MS, 0);
	after(&p, 10, 15 * MS);
	p.is_long = true;
	p.last[1] = (struct price_sample){ .cnt = 60, .stride = 4 };
	for (size_t i = 0; i < 60; i++)
		p.last[1].v[i] = 20 * MS;
	p.last[0] = (struct price_sample){ .cnt = 100, .stride = 1 };
	for (size_t i = 0; i < 100; i++)
		p.last[0].v[i] = 40 * MS;
	price__report(&p, 7, &sum);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	now += 2 * PRICE_TRACED_NS;
	steps(&p, 10, 20 * MS, 0);
	sum = (struct report_price){ 0 };
	price__report(&p, 7, &sum);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	assert_int_equal(p.last[1].cnt, 0);
}

static void a_disturbed_end_does_not_count(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, 20, 50 * MS, 0);
	traced(&p, 30, 20 * MS, 0);
	after(&p, 10, 15 * MS);
	price__report(&p, 7, &sum);
	assert_int_equal(sum.steps_before, 0);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	p.before = p.after;
	p.after = (struct price_sample){ 0 };
	after(&p, 10, 50 * MS);
	sum = (struct report_price){ 0 };
	price__report(&p, 7, &sum);
	assert_int_equal(sum.steps_after, 0);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
	p.before = p.after; /* nothing else is known then */
	sum = (struct report_price){ 0 };
	price__report(&p, 7, &sum);
	assert_true(sum.lost < -1.49);
}

static void one_end_is_enough(void **state)
{
	struct report_price sum = { 0 };
	struct price p = { 0 };

	(void)state;
	steps(&p, PRICE_STEPS_MIN - 1, 50 * MS, 0);
	traced(&p, 30, 20 * MS, 0);
	after(&p, PRICE_STEPS_MIN - 1, 15 * MS);
	price__report(&p, 7, &sum);
	assert_int_equal(sum.steps, 0);
	after(&p, 1, 15 * MS);
	price__report(&p, 7, &sum);
	assert_int_equal(sum.steps_before, 0);
	assert_int_equal(sum.steps_after, PRICE_STEPS_MIN);
	assert_true(sum.lost > 0.2499 && sum.lost < 0.2501);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_loss_is_that_of_the_median_step),
		cmocka_unit_test(steps_that_differ_make_it_unsure),
		cmocka_unit_test(few_steps_say_nothing),
		cmocka_unit_test(many_steps_and_late_ones),
		cmocka_unit_test(what_is_set_later_is_left_out),
		cmocka_unit_test(the_process_with_most_steps_is_reported),
		cmocka_unit_test(both_ends_cancel_what_changes_evenly),
		cmocka_unit_test(each_end_has_its_own_traced_steps),
		cmocka_unit_test(the_latest_steps_are_evenly_spread),
		cmocka_unit_test(a_disturbed_end_does_not_count),
		cmocka_unit_test(one_end_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
