/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* When the probes of a trace take more than --max-overhead allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "live/overhead.h"
#include "live/windows.h"
#include "unit/model_help.h"

#define MS 1000000ull
#define S  (1000 * MS)

/* A second later, in which the processes used cpu_ms and the probes probe_ms of it. */
static bool second(struct overhead *o, uint64_t probe_ms, uint64_t cpu_ms)
{
	return overhead__turn(o, o->at_ns + S, o->probe_ns + probe_ms * MS, o->cpu_ns + cpu_ms * MS);
}

static struct overhead begun(double limit)
{
	struct overhead o = { .limit = limit };

	assert_false(overhead__turn(&o, 5 * S, 7 * MS, 3 * S));
	return o;
}

static void ends_after_three_seconds_on_end(void **state)
{
	struct overhead o = begun(0.1);

	(void)state;
	assert_false(second(&o, 110, 1000));
	assert_false(second(&o, 500, 1000));
	assert_true(second(&o, 101, 1000));
	assert_true(o.share > 0.1009 && o.share < 0.1011);
}

static void a_second_below_begins_anew(void **state)
{
	struct overhead o = begun(0.1);

	(void)state;
	for (int i = 0; i < 50; i++) {
		assert_false(second(&o, 900, 1000));
		assert_false(second(&o, 900, 1000));
		assert_false(second(&o, 100, 1000)); /* the limit itself is allowed */
	}
}

/* What was used before the first turn does not count, nor what no limit was set for. */
static void only_what_comes_later_counts(void **state)
{
	struct overhead o = { .limit = 0.1 }, none = { 0 };

	(void)state;
	assert_false(overhead__turn(&o, S, 900 * MS, 1000 * MS));
	for (int i = 0; i < 9; i++) {
		assert_false(second(&o, 1, 1000));
		assert_false(second(&none, 1000, 1000));
	}
}

/* A job that waits: seconds without work are neither above nor below. */
static void idle_seconds_do_not_count(void **state)
{
	struct overhead o = begun(0.1);
	uint64_t now = o.at_ns, cpu = o.cpu_ns, probe = o.probe_ns;

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_false(overhead__turn(&o, now += S, probe, cpu += MS));
	for (int i = 0; i < 2; i++)
		assert_false(overhead__turn(&o, now += S, probe += 500 * MS, cpu += 1000 * MS));
	assert_false(overhead__turn(&o, now += S, probe, cpu));
	assert_true(overhead__turn(&o, now += S, probe + 500 * MS, cpu + 1000 * MS));
}

/* A view asks ten times a second; the counters come once. */
static void turns_shorter_than_a_second_do_not_count(void **state)
{
	struct overhead o = begun(0.1);
	uint64_t now = o.at_ns;
	int at = 0;

	(void)state;
	for (uint64_t i = 1; i <= 40 && !at; i++)
		if (overhead__turn(&o, now + i * 100 * MS, 7 * MS + i / 10 * 500 * MS, 3 * S + i / 10 * S))
			at = (int)i;
	assert_int_equal(at, 30);
}

/* Totals that shrink are of something else: no share of 2^64 ns. */
static void totals_that_shrink_begin_anew(void **state)
{
	struct overhead o = begun(0.1);

	(void)state;
	assert_false(second(&o, 900, 1000));
	assert_false(second(&o, 900, 1000));
	assert_false(overhead__turn(&o, o.at_ns + S, 0, 0));
	assert_false(second(&o, 900, 1000));
}

/* --- of a session with windows ---------------------------------------------------------------------------------------- */

static unsigned notes;

static void count_notes(void *ctx, struct event ev)
{
	(void)ctx;
	notes += ev.kind == EV_NOTE;
}

static int begin(void **state)
{
	struct event ev = { .kind = EV_PROC, .pid = 100, .tid = 100, .ts_ns = S };

	(void)state;
	notes = 0;
	return model_begin(NULL) || model__handle(m, &ev);
}

static struct windows with_budget(bool is_own)
{
	return (struct windows){ .model = m, .tell = { .names = names, .push = count_notes }, .overhead.limit = 0.1,
				 .is_quiet = true, .is_own = is_own };
}

/* So many seconds in which probes took half of the CPU time: whether it is to be detached then. */
static bool busy(struct windows *w, unsigned seconds)
{
	static uint64_t total = S;
	bool is_over = false;

	for (unsigned i = 0; i < seconds && !is_over; i++) {
		struct event cost = { .kind = EV_COST, .aux = MT_PROG_OP, .addr = total, .size = total / 2, .ts_ns = total };
		struct event cpu = { .kind = EV_CPU, .pid = 100, .size = total, .ts_ns = total };

		assert_int_equal(model__handle(m, &cost), 0);
		assert_int_equal(model__handle(m, &cpu), 0);
		total += S;
		w->overhead.at_ns -= w->overhead.at_ns ? S : 0; /* a second ago */
		is_over = windows__cost_too_much(w);
	}
	return is_over;
}

/* In windows, and as long as something can still go, rests make up for it. */
static void what_cannot_go_ends_it(void **state)
{
	struct windows w = with_budget(false);

	(void)state;
	assert_false(busy(&w, 10));
	w.is_low = true;
	assert_false(busy(&w, OVERHEAD_TURNS));
	w.is_low = false;
	assert_false(busy(&w, 1));
	w.is_low = true;
	assert_false(busy(&w, OVERHEAD_TURNS)); /* begins anew */
	assert_true(busy(&w, 1));
	assert_int_equal(notes, 0);
	w = with_budget(false);
	w.levels.is_off = true; /* there are no windows */
	assert_true(busy(&w, OVERHEAD_TURNS + 1));
}

static void a_budget_of_our_own_ends_nothing(void **state)
{
	struct windows w = with_budget(true);

	(void)state;
	w.is_low = true;
	assert_false(busy(&w, 20));
	assert_int_equal(notes, 1);
	w = with_budget(true);
	w.levels.is_off = true; /* that was said when it was found */
	assert_false(busy(&w, 20));
	assert_int_equal(notes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_after_three_seconds_on_end),
		cmocka_unit_test(a_second_below_begins_anew),
		cmocka_unit_test(only_what_comes_later_counts),
		cmocka_unit_test(idle_seconds_do_not_count),
		cmocka_unit_test(turns_shorter_than_a_second_do_not_count),
		cmocka_unit_test(totals_that_shrink_begin_anew),
		cmocka_unit_test_setup_teardown(what_cannot_go_ends_it, begin, teardown),
		cmocka_unit_test_setup_teardown(a_budget_of_our_own_ends_nothing, begin, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
