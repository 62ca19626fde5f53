/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Who is left out: a buffer that is filled faster than it is read, by processes that tell more or less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "live/share.h"

#define CAPACITY 65536u
#define PROCS 200
#define STEP_NS 1000000ull

/* First in, first out, as rings are. */
struct world {
	struct mt_shares s;
	uint8_t queue[CAPACITY]; /* whose */
	uint64_t in, out, now_ns;
	uint32_t tells[PROCS], procs; /* a step of a ms */
	uint32_t reads;
	uint64_t got[PROCS], over[PROCS], full[PROCS];
};

static uint64_t waiting(const struct world *w)
{
	return w->in - w->out;
}

static void tell(struct world *w, uint32_t who)
{
	enum mt_share_says says = SHARE_TAKES;

	if (waiting(w) > CAPACITY / 4)
		says = shares_ask(&w->s, who + 1, 1, waiting(w), CAPACITY, w->now_ns);
	if (says == SHARE_TAKES && waiting(w) < CAPACITY) {
		w->queue[w->in++ % CAPACITY] = (uint8_t)who;
		return;
	}
	w->over[who] += says == SHARE_OVER;
	w->full[who] += says != SHARE_OVER;
}

/* All tell at once: in turns, each as often as it is due. */
static void step(struct world *w)
{
	uint32_t left[PROCS], most = 1;

	memcpy(left, w->tells, sizeof(left));
	while (most) {
		most = 0;
		for (uint32_t i = 0; i < w->procs; i++) {
			for (uint32_t n = 0; n < 1 + w->tells[i] / 16 && left[i]; n++, left[i]--)
				tell(w, i);
			most |= left[i];
		}
	}
	for (uint32_t n = 0; n < w->reads && waiting(w); n++)
		w->got[w->queue[w->out++ % CAPACITY]]++;
	w->now_ns += STEP_NS;
}

/* Of each second the reader is away for so many ms. */
static void seconds(struct world *w, unsigned cnt, unsigned away_ms)
{
	uint32_t reads = w->reads;

	for (unsigned ms = 0; ms < cnt * 1000; ms++) {
		w->reads = ms % 1000 < away_ms ? 0 : reads;
		step(w);
	}
	w->reads = reads;
}

/* One tells ten times what is read; beside it one that is busy, and some that tell little. The reader stalls now and then. */
static void test_flood(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)state;
	*w = (struct world){ .tells = { 3000, 20, 10, 1, 1 }, .procs = 5, .reads = 300 };
	seconds(w, 20, 200);
	for (unsigned i = 1; i < w->procs; i++)
		assert_int_equal(w->over[i] + w->full[i], 0);
	assert_int_equal(w->full[0], 0);
	print_message("of %u that the flood told %u were taken, of the others all\n", 20 * 3000000, (unsigned)w->got[0]);
	assert_true(w->got[0] > 20 * 800 * (300 - 32) / 10 * 9); /* what the others leave is its own */
	free(w);
}

/* So it is without: they all lose. */
static void test_flood_without(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)state;
	*w = (struct world){ .tells = { 3000, 20, 10, 1, 1 }, .procs = 5, .reads = 300 };
	for (unsigned ms = 0; ms < 2000; ms++) {
		memset(&w->s, 0, sizeof(w->s));
		w->s.lap = (uint32_t)ms; /* nobody's numbers last */
		for (unsigned i = 0; i < SHARES_ROWS; i++)
			w->s.rows[i].pid = UINT32_MAX;
		for (unsigned n = 0; n < w->tells[0] && waiting(w) < CAPACITY; n++)
			w->queue[w->in++ % CAPACITY] = 0;
		step(w);
	}
	assert_true(w->full[1] + w->over[1] + w->full[2] + w->over[2] > 10000);
	free(w);
}

/* Alone nobody is cut but at the last sixteenth, which is there when somebody else comes. */
static void test_alone(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t most = 0;

	(void)state;
	*w = (struct world){ .tells = { 3000 }, .procs = 2, .reads = 300 };
	for (unsigned ms = 0; ms < 1000; ms++) {
		step(w);
		most = waiting(w) > most ? waiting(w) : most;
	}
	assert_int_equal(w->over[0], 0);
	assert_true(w->full[0] > 0);
	assert_in_range(most, CAPACITY / 16 * 15 - 300, CAPACITY / 16 * 15 + 1);
	w->tells[1] = 20;
	seconds(w, 10, 50);
	assert_int_equal(w->over[1] + w->full[1], 0);
	assert_true(w->over[0] > 0);
	free(w);
}

/* A burst that fits is nobody's concern, whoever else is there. */
static void test_burst(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)state;
	*w = (struct world){ .tells = { 380, 10 }, .procs = 2, .reads = 1000 };
	seconds(w, 10, 110);
	assert_int_equal(w->over[0] + w->full[0] + w->over[1] + w->full[1], 0);
	free(w);
}

/* Equals are cut alike, and whoever tells little beside them is not. */
static void test_equals(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)state;
	*w = (struct world){ .tells = { 500, 500, 500, 500, 2 }, .procs = 5, .reads = 300 };
	seconds(w, 10, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_in_range(w->got[i], 300 * 10000 / 4 / 10 * 8, 300 * 10000 / 4 / 10 * 12);
	assert_int_equal(w->over[4] + w->full[4], 0);
	free(w);
}

/* More processes than rows: the flood keeps its own. */
static void test_many(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)state;
	w->procs = PROCS;
	w->reads = 500;
	for (unsigned i = 0; i < PROCS; i++)
		w->tells[i] = i ? 1 : 3000;
	seconds(w, 10, 20);
	for (unsigned i = 1; i < PROCS; i++)
		assert_int_equal(w->over[i] + w->full[i], 0);
	assert_true(w->over[0] > 0);
	free(w);
}

/* Sizes that overflow nothing: the largest ring there is. */
static void test_large(void **state)
{
	struct mt_shares s = { 0 };
	uint64_t capacity = 1ull << 30, waits = capacity / 4, n = 0;

	(void)state;
	while (n++ < 1u << 20 && shares_ask(&s, 1, 1 << 15, waits, capacity, n) == SHARE_TAKES) {
		waits += 1 << 15;
		if (shares_ask(&s, 2, 1 << 12, waits, capacity, n) == SHARE_TAKES)
			waits += 1 << 12;
	}
	assert_in_range(waits, capacity / 4 * 3, capacity / 100 * 80);
}

/* Each is named once, whether it was cut as its events were read or by the programs. */
static void test_names(void **state)
{
	struct share *s = calloc(1, sizeof(*s));
	struct mt_shares rings[2] = { 0 };

	(void)state;
	rings[1].rows[3] = (struct mt_share){ .pid = 7, .left_out = 1 };
	rings[0].rows[5] = (struct mt_share){ .pid = 8 };
	for (unsigned i = 0; i < 40000; i++) {
		assert_true(share__takes(s, 9, 24000, 100000, i));
		(void)share__takes(s, 9 + i % 2, 90000, 100000, i);
	}
	assert_true(s->left_out > 0);
	assert_int_equal(share__next_cut(s, rings, 2), 9);
	assert_int_equal(share__next_cut(s, rings, 2), 10);
	assert_int_equal(share__next_cut(s, rings, 2), 7);
	assert_int_equal(share__next_cut(s, rings, 2), 0);
	rings[0].rows[4] = (struct mt_share){ .pid = 7, .left_out = 2 };
	assert_int_equal(share__left_out(s, rings, 2, 7), 3);
	assert_int_equal(share__left_out(s, rings, 2, 9) + share__left_out(s, rings, 2, 10), s->left_out);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flood), cmocka_unit_test(test_flood_without), cmocka_unit_test(test_alone),
		cmocka_unit_test(test_burst), cmocka_unit_test(test_equals), cmocka_unit_test(test_many),
		cmocka_unit_test(test_large), cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
