/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Whose records are left out: a loop that can take CAPACITY records a window, and processes that tell more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cmd/share.h"

#define CAPACITY 100000u
#define DISCARD 10u /* records that are left out in the time of one that is taken */
#define RING 100000u
#define PROCS 5
#define RINGS_MAX 12

struct world {
	struct share s;
	uint64_t now, ring_lost;
	uint32_t tells[PROCS]; /* a window */
	uint64_t waits[RINGS_MAX]; /* each has a CPU and so a ring of its own, the first one several */
	unsigned rings0;
	uint64_t got[PROCS], lost[PROCS], cut[PROCS]; /* in the last window */
};

static uint32_t owner(const struct world *w, unsigned ring)
{
	return ring < w->rings0 ? 0 : ring - w->rings0 + 1;
}

/* All have their turns at the rings for a tenth of the window. */
static void read_part(struct world *w)
{
	uint64_t time = (uint64_t)CAPACITY / 10 * DISCARD;
	unsigned going;

	do {
		going = 0;
		for (unsigned i = 0; i < w->rings0 + PROCS - 1; i++) {
			uint32_t who = owner(w, i);

			for (unsigned n = 0; n < 64 && w->waits[i] && time >= DISCARD; n++, w->waits[i]--) {
				int takes = !w->s.is_on || share__takes(&w->s, who + 1);

				time -= takes ? DISCARD : 1;
				w->got[who] += (uint64_t)takes;
				w->cut[who] += (uint64_t)!takes;
			}
			going += w->waits[i] && time >= DISCARD;
		}
	} while (going);
}

static void window(struct world *w)
{
	int is_crowded = 0;

	memset(w->got, 0, sizeof(w->got));
	memset(w->cut, 0, sizeof(w->cut));
	memset(w->lost, 0, sizeof(w->lost));
	for (unsigned part = 0; part < 10; part++) { /* rings fill while they are read */
		for (unsigned i = 0; i < w->rings0 + PROCS - 1; i++) {
			uint32_t who = owner(w, i);

			w->waits[i] += w->tells[who] / 10 / (who ? 1 : w->rings0);
			w->lost[who] += w->waits[i] > RING ? w->waits[i] - RING : 0;
			w->waits[i] = w->waits[i] > RING ? RING : w->waits[i];
			is_crowded |= w->waits[i] > RING / 2;
		}
		read_part(w);
	}
	for (unsigned i = 0; i < PROCS; i++)
		w->ring_lost += w->lost[i];
	w->now += SHARE_WINDOW_NS;
	share__turn(&w->s, w->now, w->ring_lost, is_crowded);
}

static void windows(struct world *w, unsigned cnt)
{
	while (cnt--)
		window(w);
}

/* One tells three times what can be taken, another more than is its part of the time, and others little. */
static void test_flood(void **state)
{
	struct world w = { .tells = { 300000, 60000, 1000, 1000, 1000 }, .rings0 = 8 };
	uint64_t lost = 0, taken = 0;

	(void)state;
	windows(&w, 20);
	assert_true(w.s.is_on);
	for (unsigned n = 0; n < 200; n++) {
		window(&w);
		for (unsigned i = 1; i < PROCS; i++) {
			lost += w.lost[i];
			assert_int_equal(w.cut[i], 0);
		}
		taken += w.got[0];
	}
	assert_int_equal(lost, 0);
	print_message("of 300,000 a window of the flood %u were taken, of the others all\n", (unsigned)(taken / 200));
	assert_true(taken / 200 > 1000); /* nor is all of it left out */
	assert_true(w.s.left_out > 0);
	assert_int_equal(share__next_cut(&w.s), 1);
	assert_int_equal(share__next_cut(&w.s), 0);
	w.tells[0] = 10000;
	windows(&w, 100);
	assert_false(w.s.is_on);
	assert_int_equal(w.cut[0], 0);
}

/* So it is without: the one that tells 60,000 loses. */
static void test_flood_without(void **state)
{
	struct world w = { .tells = { 300000, 60000, 1000, 1000, 1000 }, .rings0 = 8 };
	uint64_t lost = 0;

	(void)state;
	for (unsigned n = 0; n < 50; n++) {
		window(&w);
		memset(&w.s, 0, sizeof(w.s));
		lost += w.lost[1];
	}
	assert_true(lost > 100000);
}

/* Alone, or among such as tell the same: what does not fit is lost in the rings as ever. */
static void test_nobody_to_protect(void **state)
{
	struct world alone = { .tells = { 400000 }, .rings0 = 4 };
	struct world equal = { .tells = { 50000, 50000, 50000, 50000, 50000 }, .rings0 = 1 };

	(void)state;
	windows(&alone, 50);
	windows(&equal, 50);
	assert_true(alone.s.is_on && equal.s.is_on);
	assert_int_equal(alone.s.left_out + equal.s.left_out, 0);
	assert_int_equal(alone.got[0], CAPACITY);
}

static void test_many_processes(void **state)
{
	struct share *s = calloc(1, sizeof(*s));

	(void)state;
	share__turn(s, 1, 5, 1);
	for (uint32_t pid = 1; pid < 4000; pid++)
		assert_true(share__takes(s, pid));
	share__turn(s, 2, 10, 1);
	assert_int_equal(s->left_out, 0);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_flood_without),
		cmocka_unit_test(test_nobody_to_protect),
		cmocka_unit_test(test_many_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
