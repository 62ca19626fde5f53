/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* When links are closed, on a clock that only sleepers move: how long the pauses are, and that they come to an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define LINKS_MAX 20000
#define MS	  1000000ull

static uint64_t paper_ns = 1000 * MS, begun_ns[LINKS_MAX];
static size_t begun_cnt;

static uint64_t paper_now(void)
{
	return __atomic_load_n(&paper_ns, __ATOMIC_RELAXED);
}

/* The closer's lock is held. */
static void paper_sleep(uint64_t at_ns)
{
	__atomic_store_n(&paper_ns, at_ns, __ATOMIC_RELAXED);
}

static int paper_close(int fd)
{
	(void)fd;
	begun_ns[__atomic_fetch_add(&begun_cnt, 1, __ATOMIC_RELAXED)] = paper_now();
	return 0;
}

#define now_ns	    paper_now
#define sleep_until paper_sleep
#define close	    paper_close
#include "../../user/trace/closer.c"

/* Returns how long the end took: the clock may have moved before. */
static uint64_t closed(struct closer *c)
{
	uint64_t begin = paper_now();

	closer__free(c);
	return paper_now() - begin;
}

static uint64_t from_first_to_last(void)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (size_t i = 0; i < begun_cnt; i++) {
		first = begun_ns[i] < first ? begun_ns[i] : first;
		last = begun_ns[i] > last ? begun_ns[i] : last;
	}
	return last - first;
}

static struct closer *with(size_t batches, size_t links, uint64_t work_ns, size_t threads)
{
	struct closing *v = calloc(links, sizeof(*v));
	struct closer *c = closer__new();

	begun_cnt = 0;
	assert_non_null(c);
	assert_non_null(v);
	for (size_t i = 0; i < links; i++)
		v[i].work_ns = work_ns;
	for (size_t i = 0; i < batches; i++)
		closer__add(c, v, links, threads);
	free(v);
	return c;
}

static void the_job_goes_on_between_two(void **state)
{
	(void)state;
	closed(with(1, 12, MS, 1));
	assert_int_equal(begun_cnt, 12);
	for (size_t i = 1; i < begun_cnt; i++)
		assert_int_equal(begun_ns[i] - begun_ns[i - 1], 5 * MS);
}

static void batches_take_turns(void **state)
{
	(void)state;
	closed(with(6, 10, MS, 4));
	assert_int_equal(begun_cnt, 60);
	assert_int_equal(from_first_to_last(), 59 * 5 * MS);
}

/* Workers that come and go on a busy machine: each link was thought to be 60 ms of work, and the end took minutes. */
static void an_end_is_not_far(void **state)
{
	(void)state;
	assert_true(closed(with(20, 71, 60 * MS, 4)) <= END_WAIT_NS + TURN_NS_MAX);
	assert_int_equal(begun_cnt, 20 * 71);
}

static void one_that_takes_long_is_no_exception(void **state)
{
	(void)state;
	assert_true(closed(with(2, 1, 100000 * MS, 1)) <= TURN_NS_MAX);
	assert_int_equal(begun_cnt, 2);
}

/* Nobody asks for the end, and more come all the time. */
static void a_queue_is_not_endless(void **state)
{
	const struct closing v[50] = { [0 ... 49] = { .work_ns = 60 * MS } };
	struct closer *c = closer__new();
	uint64_t last_ns = 0;

	(void)state;
	begun_cnt = 0;
	for (int i = 0; i < 20; i++) {
		closer__add(c, v, 50, 2);
		last_ns = paper_now();
	}
	while (!closer__is_idle(c))
		usleep(1000);
	assert_int_equal(begun_cnt, 1000);
	assert_true(paper_now() - last_ns <= WAIT_NS + TURN_NS_MAX);
	closer__free(c);
}

static void no_work_no_pause(void **state)
{
	(void)state;
	assert_int_equal(closed(with(3, 100, 0, 8)), 0);
	assert_int_equal(begun_cnt, 300);
	assert_int_equal(closed(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_job_goes_on_between_two),
		cmocka_unit_test(batches_take_turns),
		cmocka_unit_test(an_end_is_not_far),
		cmocka_unit_test(one_that_takes_long_is_no_exception),
		cmocka_unit_test(a_queue_is_not_endless),
		cmocka_unit_test(no_work_no_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
