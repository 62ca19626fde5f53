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

static struct event reported[4];
static size_t reported_cnt;

static void keep(void *ctx, struct event ev)
{
	(void)ctx;
	assert_true(reported_cnt < 4);
	reported[reported_cnt++] = ev;
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
	assert_int_equal(reported_cnt, 3);
	for (size_t i = 0; i < reported_cnt; i++)
		assert_true(reported[i].kind == EV_COMPILED && reported[i].ts_ns >= before && reported[i].ts_ns <= now_ns());
	assert_int_equal(reported[0].ts_ns - reported[0].addr, job.now_ns - 2 * S);
	assert_int_equal(reported[0].size, S);
	assert_int_equal(reported[1].addr, 0);
	assert_int_equal(reported[2].flags, EV_COMPILED_MISSED);
	assert_int_equal(reported[2].size, 3);
	names__free(tell.names);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_look_that_waited) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
