/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* How much longer a step took while probes were set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "event/event.h"
#include "model/core/standstill.h"

#define MS 1000000ull

static void begins(struct standstill *s, struct report_attach *sum)
{
	standstill__attach(s, sum, &(struct event){ .kind = EV_ATTACH, .flags = EV_ATTACH_BEGINS });
}

static void ends(struct standstill *s, struct report_attach *sum, uint64_t sites, uint64_t took_ms, uint32_t slice_us)
{
	standstill__attach(s, sum, &(struct event){ .kind = EV_ATTACH, .addr = sites, .size = took_ms * MS, .aux = 10,
						    .seq = slice_us });
}

static void steps(struct standstill *s, struct report_attach *sum, const unsigned *ms)
{
	for (; *ms; ms++)
		standstill__step(s, sum, *ms * MS);
}

static void the_longest_step_is_set_against_those_before(void **state)
{
	struct standstill s = { 0 };
	struct report_attach sum = { 0 };

	(void)state;
	steps(&s, &sum, (unsigned[]){ 10, 14, 11, 0 });
	begins(&s, &sum);
	steps(&s, &sum, (unsigned[]){ 12, 17, 13, 0 });
	ends(&s, &sum, 3000, 600, 2600);
	assert_int_equal(sum.steps_before, 0); /* the step that is under way is not over */
	steps(&s, &sum, (unsigned[]){ 21, 90, 0 });
	assert_int_equal(sum.sites, 3000);
	assert_int_equal(sum.slices, 10);
	assert_int_equal(sum.took_ns, 600 * MS);
	assert_int_equal(sum.longest_slice_ns, 2600000);
	assert_int_equal(sum.steps_before, 3);
	assert_int_equal(sum.median_before_ns, 11 * MS);
	assert_int_equal(sum.longest_before_ns, 14 * MS);
	assert_int_equal(sum.longest_step_ns, 21 * MS);
	assert_int_equal(sum.longest_gap_ns, 7 * MS);
}

static void whoever_felt_it_most_is_reported(void **state)
{
	struct standstill a = { 0 }, b = { 0 }, silent = { 0 };
	struct report_attach sum = { 0 };

	(void)state;
	steps(&a, &sum, (unsigned[]){ 10, 0 });
	steps(&b, &sum, (unsigned[]){ 100, 0 });
	begins(&a, &sum);
	begins(&b, &sum);
	begins(&silent, &sum);
	ends(&a, &sum, 100, 300, 100);
	ends(&b, &sum, 50, 400, 90);
	ends(&silent, &sum, 50, 200, 80);
	steps(&silent, &sum, (unsigned[]){ 500, 0 }); /* nothing to compare it with */
	steps(&b, &sum, (unsigned[]){ 105, 0 });
	steps(&a, &sum, (unsigned[]){ 40, 0 });
	assert_int_equal(sum.sites, 200);
	assert_int_equal(sum.slices, 30);
	assert_int_equal(sum.took_ns, 400 * MS);
	assert_int_equal(sum.longest_slice_ns, 100000);
	assert_int_equal(sum.longest_step_ns, 40 * MS);
	assert_int_equal(sum.longest_gap_ns, 30 * MS);
}

static void a_step_that_is_shorter_is_no_gap(void **state)
{
	struct standstill s = { 0 };
	struct report_attach sum = { 0 };

	(void)state;
	for (unsigned i = 0; i < 3 * STANDSTILL_BEFORE; i++)
		steps(&s, &sum, (unsigned[]){ i < STANDSTILL_BEFORE ? 90 : 20, 0 });
	begins(&s, &sum);
	ends(&s, &sum, 1, 1, 1);
	steps(&s, &sum, (unsigned[]){ 15, 0 });
	assert_int_equal(sum.steps_before, STANDSTILL_BEFORE);
	assert_int_equal(sum.longest_before_ns, 20 * MS); /* those just before alone */
	assert_int_equal(sum.longest_gap_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_step_is_set_against_those_before),
		cmocka_unit_test(whoever_felt_it_most_is_reported),
		cmocka_unit_test(a_step_that_is_shorter_is_no_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
