/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What the traced steps of a recording with gaps are made of, and how sure that is: recordings whose truth is known. */
#include <math.h>

#include "model/core/kinds.h"
#include "model/core/sampled.h"
#include "model/core/spread.h"
#include "view/json.h"
#include "view/metrics/metrics.h"
#include "view/outbuf.h"
#include "view/view.h"
#include "unit/levels_help.h"

static uint64_t dice = 1;

static double roll(void)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (double)(dice >> 11) / 0x1p53;
}

static int is_near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fabs(b) + 1e-6;
}

/* --- averages and errors -------------------------------------------------------------------------------------------- */

static void an_average_by_hand(void **state)
{
	static const struct spread_step v[] = { { 1, 10 }, { 1, 14 }, { 2, 20 }, { 2, 24 }, { 3, 12 }, { 3, 10 } };
	struct report_estimate e = spread__of(v, 6);

	(void)state;
	assert_true(is_near(e.mean, 15));
	/* sums of windows are 24, 44, 22 and were to be 30 each: 6² + 14² + 8² = 296; × 3 / 2; √444 / 6; × 4.303 */
	assert_true(is_near(e.error, 4.303 * sqrt(444) / 6));
	e = spread__of(v, 2);
	assert_true(is_near(e.mean, 12) && e.error < 0); /* one window */
	assert_true(spread__of(v, 0).error < 0);
	e = spread__of((const struct spread_step[]){ { 1, 7 }, { 2, 7 }, { 3, 7 } }, 3);
	assert_true(is_near(e.mean, 7) && e.error == 0);
}

/* Tables of Student's t. */
static void t_is_students(void **state)
{
	(void)state;
	assert_true(fabs(spread__t(2) - 12.706) < 1e-3 && fabs(spread__t(6) - 2.571) < 1e-3);
	assert_true(fabs(spread__t(22) - 2.080) < 2e-3 && fabs(spread__t(31) - 2.042) < 2e-3);
	assert_true(fabs(spread__t(61) - 2.000) < 2e-3 && fabs(spread__t(1001) - 1.962) < 2e-3);
}

/* Of all jobs of many, the truth lies within the error in 95 of 100: neighbours in a window are alike, which counts. */
static void the_truth_lies_within_the_error(void **state)
{
	unsigned misses = 0, jobs = 2000;

	(void)state;
	for (unsigned job = 0; job < jobs; job++) {
		struct spread_step v[30];
		struct report_estimate e;

		for (size_t i = 0; i < 30; i++) {
			static double window;

			window = i % 3 ? window : 100 * (roll() + roll() + roll());
			v[i] = (struct spread_step){ i / 3, 1000 + window + 30 * roll() };
		}
		e = spread__of(v, 30);
		misses += fabs(e.mean - 1165) > e.error; /* 1000 + 150 + 15 */
	}
	assert_in_range(misses, 60, 140);
}

/* --- kinds ---------------------------------------------------------------------------------------------------------- */

#define MS 1000000ull

static struct kinds kinds;
static struct kind found[KINDS_MAX];

/* So many steps of some milliseconds, a quarter more or less. */
static void steps_of(uint64_t marks, double ms, unsigned cnt, int is_traced)
{
	while (cnt--)
		kinds__step(&kinds, marks, (uint64_t)(ms * (0.75 + 0.5 * roll()) * 1e6), is_traced);
}

static void kinds_are_reported_by_marks_and_by_time(void **state)
{
	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	assert_int_equal(kinds__find(&kinds, found), 0);
	steps_of(2, 10, 3000, 0);
	steps_of(2, 40, 60, 0); /* an evaluation, one in fifty */
	steps_of(2, 300, 2, 0); /* the machine slept */
	steps_of(9, 10, 700, 0);
	steps_of(2, 14, 30, 1); /* traced ones are slower */
	steps_of(2, 50, 1, 1);
	steps_of(9, 14, 7, 1);
	assert_int_equal(kinds__find(&kinds, found), 3);
	assert_true(found[0].marks == 2 && found[0].watched == 3000 && found[0].traced == 30);
	assert_true(found[1].marks == 9 && found[1].watched == 700 && found[1].traced == 7);
	assert_true(found[2].marks == 2 && found[2].watched == 62 && found[2].traced == 1);
	assert_int_equal(kinds__of(found, 3, 2, 14 * MS), 0);
	assert_int_equal(kinds__of(found, 3, 9, 14 * MS), 1);
	assert_int_equal(kinds__of(found, 3, 2, 50 * MS), 2);
	assert_int_equal(kinds__of(found, 3, 5, 14 * MS), KINDS_MAX);
	assert_true(fabs((double)kinds__median_ns(&kinds, &found[0], 0) - 10e6) < 1e6);
	assert_true(fabs((double)kinds__median_ns(&kinds, &found[0], 1) - 14e6) < 2e6);
}

/* Of any length: to a bucket's width, an eighth. */
static void a_median_is_as_long_as_its_steps(void **state)
{
	(void)state;
	for (uint64_t ns = 1000; ns < 60 * 3600 * 1000 * MS; ns = ns * 3 / 2) {
		memset(&kinds, 0, sizeof(kinds));
		for (unsigned i = 0; i < 10; i++)
			kinds__step(&kinds, 2, ns, 0);
		assert_int_equal(kinds__find(&kinds, found), 1);
		assert_true(fabs((double)kinds__median_ns(&kinds, &found[0], 0) / (double)ns - 1) < 0.0625);
	}
}

/* One that has not been traced yet, and which of them that is. */
static void a_kind_that_was_never_traced(void **state)
{
	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	steps_of(2, 10, 600, 0);
	steps_of(2, 60, 400, 0);
	steps_of(2, 13, 20, 1);
	assert_int_equal(kinds__find(&kinds, found), 2);
	assert_true(found[0].watched == 600 && found[0].traced == 20);
	assert_true(found[1].watched == 400 && found[1].traced == 0);
	assert_int_equal(kinds__median_ns(&kinds, &found[1], 1), 0);
}

/* Steps that become longer and longer are one kind; and so are those of which only a few are odd. */
static void what_is_between_is_no_kind(void **state)
{
	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	for (unsigned i = 0; i < 4000; i++)
		kinds__step(&kinds, 2, 10 * MS + i * MS / 100, 0);
	assert_int_equal(kinds__find(&kinds, found), 1);
	assert_int_equal(found[0].watched, 4000);
	for (unsigned i = 0; i < 20; i++) /* more numbers of regions than are told apart */
		kinds__step(&kinds, 100 + i, MS, 0);
	assert_int_equal(kinds__find(&kinds, found), 8);
	assert_int_equal(found[1].watched, 14);
}

/* A job beside others: half of its steps are held up, by as many microseconds as tens of milliseconds. */
static void steps_held_up(double ms, unsigned cnt)
{
	while (cnt--) {
		double took = ms * (0.75 + 0.5 * roll());

		took += roll() < 0.5 ? 0.05 * pow(200, roll()) : 0;
		kinds__step(&kinds, 2, (uint64_t)(took * 1e6), 0);
	}
}

/* Then some lie everywhere in between: evaluations, 24 times as long, are found all the same, and none where there are none. */
static void a_busy_machine_hides_no_kind(void **state)
{
	unsigned found_cnt = 0;

	(void)state;
	for (unsigned job = 0; job < 50; job++) {
		uint64_t lengthy = 0;
		unsigned cnt;

		memset(&kinds, 0, sizeof(kinds));
		steps_held_up(0.5, 232);
		steps_held_up(12, 78);
		cnt = kinds__find(&kinds, found);
		for (unsigned i = 0; i < cnt; i++)
			lengthy += kinds__median_ns(&kinds, &found[i], 0) > 6 * MS ? found[i].watched : 0;
		found_cnt += lengthy > 60 && lengthy < 115;
		memset(&kinds, 0, sizeof(kinds));
		steps_held_up(0.5, 3000);
		assert_int_equal(kinds__find(&kinds, found), 1);
	}
	assert_in_range(found_cnt, 42, 50);
}

/* A few traced steps, of other shares than those that were watched: each to its kind. */
static void traced_steps_find_their_kind(void **state)
{
	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	steps_of(6, 6, 40, 0);
	steps_of(6, 350, 12, 0);
	steps_of(6, 12, 3, 1);
	steps_of(6, 318, 2, 1);
	steps_of(6, 770, 2, 1);
	assert_int_equal(kinds__find(&kinds, found), 2);
	assert_true(found[0].watched == 40 && found[0].traced == 3 && found[1].watched == 12 && found[1].traced == 4);
	/* all as slow as those of the other kind are when they are watched: the common kind, slower */
	memset(&kinds, 0, sizeof(kinds));
	steps_of(2, 1, 300, 0);
	steps_of(2, 4, 50, 0);
	steps_of(2, 4, 10, 1);
	assert_int_equal(kinds__find(&kinds, found), 2);
	assert_true(found[0].watched == 300 && found[0].traced == 10 && !found[1].traced);
}

/* Four steps of a first window: two groups more than kinds. They are not all short ones, sixteen times slower. */
static void traced_steps_that_were_held_up_find_theirs(void **state)
{
	static const uint64_t took_ms[] = { 8, 15, 48, 52 };

	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	steps_of(6, 1, 96, 0);
	steps_of(6, 52, 32, 0);
	for (unsigned i = 0; i < 4; i++)
		kinds__step(&kinds, 6, took_ms[i] * MS, 1);
	assert_int_equal(kinds__find(&kinds, found), 2);
	assert_true(found[0].traced == 2 && found[1].traced == 2);
	assert_int_equal(kinds__of(found, 2, 6, 15 * MS), 0);
	assert_int_equal(kinds__of(found, 2, 6, 48 * MS), 1);
}

/* Regions that have probes in windows alone: numbers of them tell nothing. */
static void regions_of_windows_alone_do_not_tell(void **state)
{
	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	steps_of(2, 10, 500, 0);
	steps_of(2, 50, 500, 0);
	steps_of(12, 12, 10, 1);
	steps_of(12, 60, 10, 1);
	assert_int_equal(kinds__find(&kinds, found), 2);
	for (unsigned i = 0; i < 2; i++)
		assert_true(found[i].all_marks && found[i].watched == 500 && found[i].traced == 10);
	assert_true(kinds__of(found, 2, 12, 12 * MS) != kinds__of(found, 2, 12, 60 * MS));
}

static void any_duration_is_one(void **state)
{
	(void)state;
	memset(&kinds, 0, sizeof(kinds));
	for (unsigned i = 0; i < 64; i++)
		for (unsigned k = 0; k < 9; k++)
			kinds__step(&kinds, 1, 1ull << i, (int)k & 1);
	kinds__step(&kinds, 1, 0, 0);
	kinds__step(&kinds, 1, UINT64_MAX, 1);
	assert_int_equal(kinds__find(&kinds, found), 8);
	assert_true(kinds__median_ns(&kinds, &found[0], 0) > 0);
}

/* --- recordings --------------------------------------------------------------------------------------------------------- */

#define BASE 1000

/* 200 ns, of which a block lives 80. */
static void step_with(uint64_t size)
{
	ts += 60;
	alloc(0x2000, size);
	ts += 80;
	free_block(0x2000);
	ts -= 40; /* step() takes 100 */
	step();
}

/* Probes come, and steps of such sizes are traced; around them others, which are not. */
static void window_of(const uint64_t *sizes, size_t cnt)
{
	go_down();
	step_with(77777);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, cnt);
	step_with(66666);
	use(0x1000, BASE);
	step_with(55555); /* the first */
	for (size_t i = 0; i < cnt; i++)
		step_with(sizes[i]);
	step_with(44444);
}

static const struct report_step_dev *cpu(void)
{
	assert_int_equal(report()->sampling.steps.devs_cnt, 1);
	return &rep->sampling.steps.devs[0];
}

static void steps_are_what_they_were(void **state)
{
	const struct report_step_dev *d;

	(void)state;
	step();
	alloc(0x1000, BASE);
	step();
	assert_int_equal(report()->sampling.steps.steps, 0);
	window_of((uint64_t[]){ 100, 200, 300 }, 3);
	d = cpu();
	assert_int_equal(rep->sampling.steps.steps, 3);
	assert_int_equal(rep->sampling.steps.windows, 1);
	assert_true(is_near(d->all.at_peak.mean, 1200) && d->all.at_peak.error < 0);
	assert_true(is_near(d->all.mean.mean, 1000 + 200 * 0.4));
	window_of((uint64_t[]){ 400, 500, 600 }, 3);
	d = cpu();
	assert_int_equal(rep->sampling.steps.windows, 2);
	assert_true(is_near(d->all.at_peak.mean, 1350));
	/* sums of windows: 450 less and 450 more than expected */
	assert_true(is_near(d->all.at_peak.error, 12.706 * sqrt(2 * 2 * 450.0 * 450.0) / 6));
	assert_true(is_near(d->all.mean.error, 0.4 * d->all.at_peak.error));
	assert_true(is_near(d->cats[CAT_UNKNOWN].at_peak.mean, 1350));
	assert_int_equal(rep->sampling.steps_traced, 6);
}

/* Every second step has another region, and another block: each kind by itself. */
static void kinds_have_their_own_means(void **state)
{
	const struct report_step_kind *k;

	(void)state;
	step();
	alloc(0x1000, BASE);
	for (unsigned i = 0; i < 40; i++) {
		if (!(i % 10))
			go_down();
		if (i % 10 == 5)
			level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
		if (i % 10 > 5)
			use(0x1000, BASE);
		if (i % 2)
			SEND(.kind = MT_EV_REGION_BEGIN, .name = names__add(names, "batch"));
		step_with(i % 2 ? 300 : 100);
		if (i % 2)
			SEND(.kind = MT_EV_REGION_END);
	}
	assert_int_equal(report()->sampling.kinds_cnt, 2);
	for (unsigned i = 0; i < 2; i++) {
		k = &rep->sampling.kinds[i];
		assert_int_equal(k->traced, 4);
		assert_int_equal(k->peaks, 1);
		assert_int_equal(k->made.steps, 4);
		assert_int_equal(k->made.windows, 4);
		assert_true(is_near(k->made.devs[0].all.at_peak.mean, BASE + (k->regions ? 300 : 100)));
		assert_true(k->made.devs[0].all.at_peak.error == 0);
	}
	assert_true(is_near(cpu()->all.at_peak.mean, BASE + 200));
	/* of the first nobody knows the begin */
	k = rep->sampling.kinds;
	assert_int_equal(k[0].watched + k[1].watched + 8 + rep->sampling.steps_unsorted, 39);
}

/* Short and long ones that make the same are one kind, and others that make more are not. */
static void the_same_memory_is_the_same_kind(void **state)
{
	(void)state;
	step();
	alloc(0x1000, BASE);
	for (unsigned i = 0; i < 300; i++) {
		if (!(i % 10))
			go_down();
		if (i % 10 == 4)
			level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 4);
		if (i % 10 > 4)
			use(0x1000, BASE);
		ts += i % 3 ? 0 : i % 2 ? 2000 : 40000;
		step_with(i % 3 || i % 2 ? 100 : 300);
	}
	assert_int_equal(report()->sampling.kinds_cnt, 2);
	assert_true(is_near(rep->sampling.kinds[0].made.devs[0].all.at_peak.mean, BASE + 100));
	assert_true(is_near(rep->sampling.kinds[1].made.devs[0].all.at_peak.mean, BASE + 300));
	assert_int_equal(rep->sampling.kinds[0].traced + rep->sampling.kinds[1].traced, rep->sampling.steps.steps);
}

static void a_window_that_is_given_up_adds_nothing(void **state)
{
	(void)state;
	step();
	alloc(0x1000, BASE);
	window_of((uint64_t[]){ 100 }, 1);
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	step();
	step();
	alloc(0x2000, 9999); /* of a step that is never over, traced */
	go_down();
	free_block(0x2000);
	step();
	assert_true(is_near(cpu()->all.at_peak.mean, 1100));
	assert_int_equal(rep->sampling.steps.steps, 1);
	assert_int_equal(rep->sampling.windows, 2);
}

/* A device that comes in the middle of a step, and a process that is not the one whose steps are counted. */
static void others_are_in_it(void **state)
{
	const uint64_t cuda = MT_DEV_CUDA0;

	(void)state;
	step();
	alloc(0x1000, BASE);
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	step();
	use(0x1000, BASE);
	step();
	ts += 100;
	SEND(.kind = MT_EV_ALLOC, .pid = PID + 1, .addr = 0x9000, .size = 640, .dev = (uint8_t)cuda);
	SEND(.kind = MT_EV_STEP, .pid = PID + 1, .addr = 1);
	step(); /* 200 ns */
	step();
	report();
	assert_int_equal(rep->sampling.steps.steps, 2);
	assert_int_equal(rep->sampling.steps.devs_cnt, 2);
	assert_true(is_near(rep->sampling.steps.devs[1].all.at_peak.mean, 640));
	assert_true(is_near(rep->sampling.steps.devs[1].all.mean.mean, (320 + 640) / 2.0));
	SEND(.kind = MT_EV_FREE, .pid = PID + 1, .addr = 0x9000, .dev = (uint8_t)cuda);
}

/* What is known of a block late is true of the steps before. */
static void labels_that_come_late_are_of_all_steps(void **state)
{
	const struct report_step_dev *d;

	(void)state;
	SEND(.kind = EV_COVER, .name = names__add(names, "flow"), .addr = 1, .size = 1);
	step();
	alloc(0x1000, BASE);
	use(0x1000, BASE);
	window_of((uint64_t[]){ 100, 200 }, 2);
	window_of((uint64_t[]){ 100, 200 }, 2);
	assert_true(is_near(cpu()->cats[CAT_PARAMETER].at_peak.mean, 0));
	for (unsigned i = 0; i < 2; i++) /* two looks agree */
		SEND(.kind = EV_TENSOR, .addr = 0x1000, .size = BASE, .dev = MT_DEV_CPU, .flags = EV_TENSOR_PARAMETER,
		     .name = names__add(names, "a.weight"));
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step();
	use(0x1000, BASE);
	step();
	d = cpu();
	assert_true(is_near(d->cats[CAT_PARAMETER].at_peak.mean, BASE));
	assert_true(is_near(d->cats[CAT_PARAMETER].mean.mean, BASE));
	assert_true(d->cats[CAT_PARAMETER].mean.error < 1e-6);
	assert_true(is_near(d->all.at_peak.mean, BASE + 150));
}

/* Of many windows some are kept, of the whole time. */
static void memory_is_bounded(void **state)
{
	(void)state;
	step();
	alloc(0x1000, BASE);
	for (uint64_t i = 1; i <= SAMPLED_MAX; i++)
		window_of((uint64_t[]){ 2 * i, 2 * i }, 2);
	assert_true(is_near(cpu()->all.at_peak.mean, BASE + SAMPLED_MAX + 2)); /* every second: 2 × 2, 2 × 4, … */
	assert_int_equal(rep->sampling.steps.steps, SAMPLED_MAX);
	assert_int_equal(rep->sampling.steps.windows, SAMPLED_MAX / 2);
	assert_int_equal(rep->sampling.steps_traced, 2 * SAMPLED_MAX);
}

static void machines_together_have_no_steps(void **state)
{
	(void)state;
	step();
	alloc(0x1000, BASE);
	window_of((uint64_t[]){ 100, 200 }, 2);
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH, .aux = 1u << EV_MACHINE_SHIFT | PID);
	window_of((uint64_t[]){ 100, 200 }, 2);
	assert_int_equal(report()->sampling.steps.steps, 0);
}

static int has(const struct outbuf *o, const char *text)
{
	return memmem(o->buf, o->len, text, strlen(text)) != NULL;
}

/* In the report; wherever its lines are broken. */
static void says(const char *what, int is_all)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	struct view_opts opts = { .top = 3, .has_by = is_all, .by = BY_CATEGORY };

	assert_int_equal(view_report_text(f, report(), &opts), 0);
	fclose(f);
	for (char *p = text; (p = strchr(p, '\n')); p++) {
		*p = ' ';
		while (p[1] == ' ')
			memmove(p + 1, p + 2, strlen(p + 1));
	}
	if (!strstr(text, what))
		fail_msg("no \"%s\" in: %s", what, text);
	free(text);
}

static void views_say_it(void **state)
{
	struct outbuf o = { 0 };

	(void)state;
	step();
	alloc(0x1000, BASE);
	window_of((uint64_t[]){ 100, 300 }, 2);
	outbuf__init(&o, NULL);
	metrics__write(&o, report(), &(struct metrics_opts){ 0 });
	assert_true(has(&o, "memtrace_traced_step_bytes{device=\"cpu\",category=\"unknown\",of=\"peak\"} 1200\n"));
	assert_false(has(&o, "traced_step_error")); /* one window */
	outbuf__done(&o);
	says("2 steps in one window, which says nothing", 1);
	window_of((uint64_t[]){ 100, 300 }, 2);
	says("4 steps in 2 windows; the average of all steps", 0);
	outbuf__init(&o, NULL);
	metrics__write(&o, report(), &(struct metrics_opts){ 0 });
	assert_true(has(&o, "memtrace_traced_step_bytes{device=\"cpu\",category=\"unknown\",of=\"mean\"} 1080\n"));
	assert_true(has(&o, "memtrace_traced_step_error_bytes{device=\"cpu\",category=\"unknown\",of=\"mean\"} 0\n"));
	outbuf__done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_average_by_hand),
		cmocka_unit_test(t_is_students),
		cmocka_unit_test(the_truth_lies_within_the_error),
		cmocka_unit_test_setup_teardown(steps_are_what_they_were, setup, teardown),
		cmocka_unit_test(kinds_are_reported_by_marks_and_by_time),
		cmocka_unit_test(a_busy_machine_hides_no_kind),
		cmocka_unit_test(traced_steps_find_their_kind),
		cmocka_unit_test(traced_steps_that_were_held_up_find_theirs),
		cmocka_unit_test(a_median_is_as_long_as_its_steps),
		cmocka_unit_test(a_kind_that_was_never_traced),
		cmocka_unit_test(what_is_between_is_no_kind),
		cmocka_unit_test(regions_of_windows_alone_do_not_tell),
		cmocka_unit_test(any_duration_is_one),
		cmocka_unit_test_setup_teardown(kinds_have_their_own_means, setup, teardown),
		cmocka_unit_test_setup_teardown(the_same_memory_is_the_same_kind, setup, teardown),
		cmocka_unit_test_setup_teardown(a_window_that_is_given_up_adds_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(others_are_in_it, setup, teardown),
		cmocka_unit_test_setup_teardown(labels_that_come_late_are_of_all_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(machines_together_have_no_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(views_say_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
