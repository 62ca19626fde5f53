/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What memory was made of when it was highest, of each of the last stretches of time. */
#include "model/core/highs.h"
#include "model/state.h"
#include "view/fold/hist.h"
#include "unit/levels_help.h"

#define MS 1000000ull
#define T0 (1000 * MS)

static void at(uint64_t ms)
{
	ts = T0 + ms * MS;
}

static uint64_t live_of(const struct report_high *h)
{
	uint64_t sum = 0;

	for (int c = 0; c < CAT_MAX; c++)
		sum += h->cats[c];
	return sum;
}

/* `ms` and bytes of each, in turn. */
static void expect(const uint64_t (*want)[2], unsigned cnt)
{
	const struct report_dev *d = &report()->devs[0];

	assert_int_equal(d->highs_cnt, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		assert_int_equal(d->highs[i].ts_ns, T0 + want[i][0] * MS);
		assert_int_equal(live_of(&d->highs[i]), want[i][1]);
	}
}
#define EXPECT(...)                                                                                                     \
	do {                                                                                                            \
		static const uint64_t want_[][2] = { __VA_ARGS__ };                                                     \
		expect(want_, sizeof(want_) / sizeof(want_[0]));                                                        \
	} while (0)

static void each_stretch_has_its_highest(void **state)
{
	(void)state;
	at(10);
	alloc(0x1000, 100);
	at(20);
	alloc(0x2000, 300);
	at(30);
	free_block(0x2000);
	EXPECT({ 20, 400 });
	at(300);
	alloc(0x3000, 50);
	EXPECT({ 20, 400 }, { 300, 150 });
	at(600); /* what was there when a stretch began counts, too */
	free_block(0x1000);
	at(610);
	alloc(0x4000, 99);
	EXPECT({ 20, 400 }, { 300, 150 }, { 600, 150 });
	at(620);
	alloc(0x5000, 2);
	EXPECT({ 20, 400 }, { 300, 150 }, { 620, 151 });
	at(16310); /* sixteen seconds later only the newer ones are told */
	alloc(0x6000, 1);
	EXPECT({ 620, 151 }, { 16310, 152 });
}

/* In a gap nobody knows; what was carried over it counts again from its end on. */
static void a_gap_has_no_highest(void **state)
{
	(void)state;
	at(10);
	alloc(0x1000, 100);
	at(20);
	go_down();
	at(300);
	alloc(0x2000, 1000);
	at(310);
	free_block(0x2000);
	EXPECT({ 10, 100 });
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	at(600);
	step(); /* the blocks of before are met again … */
	alloc(0x3000, 500);
	use(0x1000, 100);
	free_block(0x3000);
	at(699);
	step(); /* … and this one is traced */
	at(700);
	alloc(0x4000, 7);
	EXPECT({ 10, 100 }, { 700, 107 });
}

static void a_label_goes_where_the_block_lived(void **state)
{
	struct highs h = { .at = 2, .v = { [1] = { .ts_ns = 10, .clock_ns = 10, .live = 5, .cats = { [CAT_UNKNOWN] = 5 } },
					   [2] = { .ts_ns = 20, .clock_ns = 20, .live = 9, .cats = { [CAT_UNKNOWN] = 9 } } } };

	(void)state;
	highs__relabel(&h, CAT_UNKNOWN, CAT_INPUT, 4, 15, UINT64_MAX); /* born behind the first */
	assert_int_equal(h.v[1].cats[CAT_UNKNOWN], 5);
	assert_int_equal(h.v[2].cats[CAT_INPUT], 4);
	highs__relabel(&h, CAT_UNKNOWN, CAT_ACTIVATION, 3, 5, 20); /* ended when the second was */
	assert_int_equal(h.v[1].cats[CAT_ACTIVATION], 3);
	assert_int_equal(h.v[2].cats[CAT_ACTIVATION], 0);
	highs__relabel(&h, CAT_UNKNOWN, CAT_INPUT, 100, 5, UINT64_MAX); /* never more than is there */
	assert_int_equal(h.v[1].cats[CAT_UNKNOWN], 0);
	assert_int_equal(h.v[1].cats[CAT_INPUT], 2);
	highs__check(&h);
}

/* The free of a block begins a stretch, and what it was is known later: it lived in that stretch. */
static void a_label_that_comes_after_the_free(void **state)
{
	const struct device *d;

	(void)state;
	at(10);
	alloc(0x1000, 100);
	at(600);
	free_block(0x1000);
	EXPECT({ 10, 100 }, { 600, 100 });
	d = m->devs[0];
	highs__relabel(&m->devs[0]->highs, CAT_UNKNOWN, CAT_ACTIVATION, 100, T0 + 10 * MS, T0 + 600 * MS);
	assert_int_equal(d->highs.v[d->highs.at].cats[CAT_ACTIVATION], 100);
}

/* A window of tracing that was over before the report was made is in the chart all the same. */
static void a_window_between_two_reports_is_seen(void **state)
{
	struct tui_hist *h = tui_hist__new();
	struct tui_comp c;

	(void)state;
	assert_non_null(h);
	at(0);
	at(10);
	alloc(0x1000, 100);
	alloc(0x2000, 900);
	at(12);
	free_block(0x2000);
	at(20);
	go_down();
	at(900);
	step();
	(void)report();
	tui_hist__add_report(h, rep, &rep->devs[0]);
	assert_true(rep->sampling.in_gap);
	assert_int_equal(tui_hist__get(h, T0, T0 + 900 * MS, &c), 1);
	assert_int_equal(c.sum, 1000);
	assert_int_equal(tui_hist__get(h, T0 + 300 * MS, T0 + 301 * MS, &c) && c.rel_ns > T0 + 100 * MS, 0);
	tui_hist__free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_stretch_has_its_highest, setup, teardown),
		cmocka_unit_test_setup_teardown(a_gap_has_no_highest, setup, teardown),
		cmocka_unit_test(a_label_goes_where_the_block_lived),
		cmocka_unit_test_setup_teardown(a_label_that_comes_after_the_free, setup, teardown),
		cmocka_unit_test_setup_teardown(a_window_between_two_reports_is_seen, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
