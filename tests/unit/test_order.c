/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* order against a stable sort of the same events; the number of each event is in `addr`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "event/order.h"

#define MANY 20000

struct sink {
	struct event evs[MANY];
	size_t cnt;
	size_t fail_at; /* 0: never; else the n-th event fails */
};

static struct sink sink;

static int take(void *ctx, const struct event *ev)
{
	struct sink *s = ctx;

	assert_true(s->cnt < MANY);
	s->evs[s->cnt++] = *ev;
	return s->fail_at && s->cnt == s->fail_at ? -EIO : 0;
}

static int push(struct order *o, uint64_t ts_ns, uint64_t no)
{
	struct event ev = { .ts_ns = ts_ns, .addr = no, .kind = MT_EV_STEP };

	return order__push(o, &ev);
}

static uint64_t rng;

static uint32_t below(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((rng >> 32) * n >> 32);
}

/* Every number once; times do not go back; equal times in the order of push. */
static void check_sink(size_t cnt)
{
	uint8_t *seen = calloc(cnt, 1);

	assert_non_null(seen);
	assert_int_equal(sink.cnt, cnt);
	for (size_t i = 0; i < cnt; i++) {
		assert_true(sink.evs[i].addr < cnt);
		assert_int_equal(seen[sink.evs[i].addr]++, 0);
		if (!i)
			continue;
		assert_true(sink.evs[i].ts_ns >= sink.evs[i - 1].ts_ns);
		if (sink.evs[i].ts_ns == sink.evs[i - 1].ts_ns)
			assert_true(sink.evs[i].addr > sink.evs[i - 1].addr);
	}
	free(seen);
}

enum shape { SORTED, EQUAL, REVERSED, RANDOM, TWO_RINGS, FOUR_NOISY, SAWTOOTH, SHAPES };

static uint64_t time_of(enum shape shape, size_t i)
{
	switch (shape) {
	case SORTED:
		return i * 3;
	case EQUAL:
		return 7;
	case REVERSED:
		return MANY - i;
	case RANDOM:
		return below(1000);
	case TWO_RINGS:
		return (i / 128) * 64 + i % 64;
	case FOUR_NOISY:
		return 1000 + (i / 400) * 100 + i % 100 - (below(8) ? 0 : below(60));
	default:
		return i % 37;
	}
}

static void test_like_a_stable_sort(void **state)
{
	(void)state;
	for (int shape = 0; shape < SHAPES; shape++) {
		for (size_t cnt = 1; cnt <= MANY; cnt = cnt * 3 + 1) {
			struct order *o = order__new(MANY, take, &sink);

			assert_non_null(o);
			rng = cnt;
			memset(&sink, 0, sizeof(sink));
			for (size_t i = 0; i < cnt; i++)
				assert_int_equal(push(o, time_of(shape, i), i), 0);
			assert_int_equal(order__waiting(o), cnt);
			assert_int_equal(sink.cnt, 0);
			assert_int_equal(order__flush(o, UINT64_MAX), 0);
			assert_int_equal(order__waiting(o), 0);
			assert_int_equal(order__late_cnt(o), 0);
			check_sink(cnt);
			order__free(o);
		}
	}
}

static void test_flush_passes_on_only_what_is_old(void **state)
{
	struct order *o = order__new(MANY, take, &sink);

	(void)state;
	memset(&sink, 0, sizeof(sink));
	assert_int_equal(order__flush(o, UINT64_MAX), 0);
	push(o, 30, 0);
	push(o, 10, 1);
	push(o, 20, 2);
	push(o, 20, 3);
	assert_int_equal(order__flush(o, 9), 0);
	assert_int_equal(sink.cnt, 0);
	assert_int_equal(order__flush(o, 20), 0);
	assert_int_equal(sink.cnt, 3);
	assert_int_equal(sink.evs[0].addr, 1);
	assert_int_equal(sink.evs[1].addr, 2);
	assert_int_equal(sink.evs[2].addr, 3);
	assert_int_equal(order__waiting(o), 1);
	push(o, 25, 4);
	assert_int_equal(order__late_cnt(o), 0);
	order__flush(o, UINT64_MAX);
	assert_int_equal(sink.evs[3].addr, 4);
	assert_int_equal(sink.evs[4].addr, 0);
	order__free(o);
}

static void test_late_events_are_kept(void **state)
{
	struct order *o = order__new(16, take, &sink);

	(void)state;
	memset(&sink, 0, sizeof(sink));
	push(o, 100, 0);
	order__flush(o, 200);
	push(o, 150, 1); /* nothing later than 100 was passed on: not late */
	push(o, 99, 2);
	push(o, 0, 3);
	assert_int_equal(order__late_cnt(o), 2);
	order__flush(o, UINT64_MAX);
	assert_int_equal(sink.cnt, 4);
	assert_int_equal(sink.evs[1].addr, 2);
	assert_int_equal(sink.evs[1].ts_ns, 100);
	assert_int_equal(sink.evs[2].addr, 3);
	assert_int_equal(sink.evs[2].ts_ns, 100);
	assert_int_equal(sink.evs[3].ts_ns, 150);
	order__free(o);
}

static void test_window_is_bounded(void **state)
{
	(void)state;
	for (size_t window = 0; window < 70; window = window * 2 + 1) {
		struct order *o = order__new(window, take, &sink);

		memset(&sink, 0, sizeof(sink));
		rng = window;
		for (size_t i = 0; i < 5000; i++) {
			assert_int_equal(push(o, i * 4 + below(64), i), 0);
			assert_true(order__waiting(o) <= (window ? window : 1));
		}
		assert_int_equal(order__late_cnt(o) > 0, window <= 15); /* 16 places off */
		order__flush(o, UINT64_MAX);
		assert_int_equal(sink.cnt, 5000);
		for (size_t i = 1; i < 5000; i++)
			assert_true(sink.evs[i].ts_ns >= sink.evs[i - 1].ts_ns);
		order__free(o);
	}
}

/* As in live use: rings drained in turn, flushed behind them, for long. */
static void test_rounds(void **state)
{
	struct order *o = order__new(4096, take, &sink);
	uint64_t no = 0;

	(void)state;
	memset(&sink, 0, sizeof(sink));
	rng = 5;
	for (uint64_t round = 0; round < 100; round++) {
		for (uint32_t ring = 0; ring < 4; ring++) {
			uint64_t ts_ns = 100000 + round * 10000;

			for (uint32_t i = 0; i < 40 + below(20); i++) {
				ts_ns += below(200);
				push(o, ts_ns - (below(10) ? 0 : below(2000)), no++);
			}
		}
		assert_int_equal(order__flush(o, 100000 + round * 10000 - 3000), 0);
	}
	order__flush(o, UINT64_MAX);
	assert_int_equal(order__late_cnt(o), 0);
	check_sink(no);
	order__free(o);
}

static int take_next(void *ctx, const struct event *ev)
{
	uint64_t *next = ctx;

	assert_int_equal(ev->addr, *next);
	(*next)++;
	return 0;
}

/* Bytes that the kernel has given. */
static uint64_t resident(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A hundred events wait at each flush, for hours: of a window of 80 MB little is ever touched. */
static void test_calm_flow(void **state)
{
	const uint64_t cnt = 3000000;
	uint64_t next = 0, before = resident();
	struct order *o = order__new(1 << 20, take_next, &next);

	(void)state;
	assert_non_null(o);
	for (uint64_t i = 0; i < cnt; i++) {
		assert_int_equal(push(o, i, i), 0);
		if (i % 1000 == 999)
			assert_int_equal(order__flush(o, i - 100), 0);
	}
	assert_in_range(resident() - before, 0, 8 << 20);
	assert_int_equal(order__flush(o, UINT64_MAX), 0);
	assert_int_equal(next, cnt);
	order__free(o);
}

static void test_error_of_the_consumer(void **state)
{
	struct order *o = order__new(8, take, &sink);

	(void)state;
	memset(&sink, 0, sizeof(sink));
	sink.fail_at = 3;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(push(o, i, i), 0);
	assert_int_equal(push(o, 8, 8), -EIO); /* half is flushed: the third fails */
	assert_int_equal(order__waiting(o), 6);
	assert_int_equal(order__flush(o, UINT64_MAX), 0); /* it goes on behind that one */
	check_sink(9);
	order__free(o);
}

static void test_no_memory(void **state)
{
	(void)state;
	assert_null(order__new(SIZE_MAX, take, NULL));
	assert_null(order__new(SIZE_MAX / 48, take, NULL));
	order__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_a_stable_sort),
		cmocka_unit_test(test_flush_passes_on_only_what_is_old),
		cmocka_unit_test(test_late_events_are_kept),
		cmocka_unit_test(test_window_is_bounded),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_calm_flow),
		cmocka_unit_test(test_error_of_the_consumer),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
