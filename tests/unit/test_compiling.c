/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What torch.compile has compiled, as events: when they are said, and how long ago it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "live/compiling.h"
#include "live/looker.h"

#define S NS_PER_S
#define WALL (1700000000 * S)

static struct event told[4];
static size_t told_cnt;

static void keep(void *ctx, struct event ev)
{
	(void)ctx;
	assert_true(told_cnt < 4);
	told[told_cnt++] = ev;
}

/* The loop comes to it 5 s after the look: an event of that time would come after others of later ones, and be lost. */
static void test_a_look_that_waited(void **state)
{
	static struct py_compiles list = { .cnt = 2, .missed = 3 };
	struct look_job job = { .pid = 7, .compiles = &list, .now_ns = now_ns() - 5 * S, .wall_ns = WALL };
	struct tell tell = { .names = names__new(), .push = keep };
	struct compiling c = { 0 };
	uint64_t before = now_ns();

	(void)state;
	list.v[0] = (struct py_compile){ .begin_ns = WALL - 2 * S, .end_ns = WALL - S, .id = "0/1" };
	list.v[1] = (struct py_compile){ .begin_ns = WALL + S, .end_ns = WALL + 2 * S, .id = "0/2" }; /* the clock was set */
	compiling__end(&c, &job, &tell);
	assert_int_equal(told_cnt, 3);
	for (size_t i = 0; i < told_cnt; i++)
		assert_true(told[i].kind == EV_COMPILED && told[i].ts_ns >= before && told[i].ts_ns <= now_ns());
	assert_int_equal(told[0].ts_ns - told[0].addr, job.now_ns - 2 * S);
	assert_int_equal(told[0].size, S);
	assert_int_equal(told[1].addr, 0);
	assert_int_equal(told[2].flags, EV_COMPILED_MISSED);
	assert_int_equal(told[2].size, 3);
	names__free(tell.names);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_look_that_waited) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
