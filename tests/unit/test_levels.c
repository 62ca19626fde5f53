/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* When a session is at which level (live/levels.h, cadence.h), and what a model makes of the gaps (model_levels.c, gaps.h). */
#include <math.h>

#include "event/packed.h"
#include "live/levels.h"
#include "memtrace/loss.h"
#include "model/core/carried.h"
#include "model/core/gaps.h"
#include "model/core/paid.h"
#include "view/metrics/metrics.h"
#include "view/outbuf.h"
#include "unit/levels_help.h"

#define SEC 1000000000ull

/* --- the state machine -------------------------------------------------------------------------------------------- */

static struct levels l;
static struct levels_seen now;
static struct event reported;

static enum levels_do turn(uint64_t after_ns)
{
	now.now_ns += after_ns;
	memset(&reported, 0, sizeof(reported));
	return levels__turn(&l, &now, &reported);
}

static int begin(void **state)
{
	(void)state;
	l = (struct levels){ .cadence = { .steps = 3, .every_ns = 10 * SEC }, .between = MT_LEVEL_WATCH };
	now = (struct levels_seen){ .now_ns = 1000 * SEC, .is_setting = true, .pid = PID };
	assert_int_equal(turn(0), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_GAP);
	return 0;
}

/* All is set, the window is told. */
static void open_window(uint64_t steps)
{
	now.is_setting = false;
	now.steps = steps;
	assert_int_equal(turn(SEC), LEVELS_TELL);
	assert_int_equal(reported.kind, EV_LEVEL);
	assert_int_equal(reported.flags, EV_LEVEL_ARMED);
	assert_int_equal(reported.aux, PID);
	now.window = reported.addr;
	now.state = EV_LEVEL_ARMED;
}

static void close_window(int took)
{
	for (int i = 0; i < took; i++) {
		levels__lowered(&l, 1, now.now_ns);
		assert_int_equal(turn(1000000), LEVELS_NOTHING);
		assert_int_equal(turn(SEC), LEVELS_LOWER);
		assert_int_equal(reported.kind, 0);
	}
	levels__lowered(&l, 0, now.now_ns);
	assert_int_equal(turn(0), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_REST);
}

static void nothing_without_a_cadence(void **state)
{
	(void)state;
	l = (struct levels){ .between = MT_LEVEL_WATCH };
	now = (struct levels_seen){ .now_ns = SEC };
	assert_int_equal(turn(100 * SEC), LEVELS_NOTHING);
}

static void windows_come_in_their_time(void **state)
{
	uint64_t began = now.now_ns;

	(void)state;
	assert_int_equal(turn(5 * SEC), LEVELS_NOTHING); /* probes are being set */
	open_window(7);
	assert_int_equal(reported.size, 3);
	now.steps = 12;
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	now.state = EV_LEVEL_TAIL;
	now.window--; /* an older one's */
	assert_int_equal(turn(0), LEVELS_NOTHING);
	now.window++;
	now.is_setting = true; /* a late operator is on its way */
	assert_int_equal(turn(0), LEVELS_NOTHING);
	now.is_setting = false;
	assert_int_equal(turn(0), LEVELS_LOWER);
	assert_int_equal(reported.flags, EV_LEVEL_GAP);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH);
	close_window(2);
	assert_int_equal(turn(began + 10 * SEC - now.now_ns - 1), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_RAISE);
	now.is_setting = true;
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	open_window(40);
	assert_int_equal(reported.addr, 2);
}

static void a_late_one_is_not_made_up_for(void **state)
{
	(void)state;
	open_window(1);
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(35 * SEC), LEVELS_LOWER);
	close_window(0);
	assert_int_equal(turn(0), LEVELS_RAISE); /* at once, and one */
	now.is_setting = true;
	assert_int_equal(turn(0), LEVELS_NOTHING);
}

/* Somebody wants all: at once, for as long as he wants, and nobody pays for it. */
static void a_held_window_goes_on(void **state)
{
	(void)state;
	open_window(1);
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	close_window(0);
	now.is_priced = false;
	l.is_held = true;
	assert_int_equal(turn(1), LEVELS_RAISE);
	open_window(3);
	assert_int_equal(reported.size, 0);
	assert_true(l.is_all);
	now.steps = 100;
	assert_int_equal(turn(10 * LEVELS_WAIT_NS), LEVELS_NOTHING);
	assert_int_equal(turn(10 * LEVELS_WAIT_NS), LEVELS_NOTHING); /* not even a step that does not end gives it up */
	l.is_held = false;
	assert_int_equal(turn(0), LEVELS_LOWER);
	close_window(1);
	l.is_held = true; /* while another one is under way: it becomes that */
	assert_int_equal(turn(0), LEVELS_RAISE);
	l.is_held = false;
	open_window(200);
	assert_int_equal(reported.size, 3);
	l.is_held = true;
	assert_int_equal(turn(0), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_ARMED);
	assert_int_equal(reported.size, 0);
	assert_int_equal(reported.addr, l.number);
	now.steps = 0; /* nobody steps: from a while on it is traced */
	assert_int_equal(turn(LEVELS_NO_STEPS_NS), LEVELS_TELL);
	assert_int_equal(turn(LEVELS_SLICE_NS), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_TRACED);
	assert_int_equal(turn(10 * LEVELS_SLICE_NS), LEVELS_NOTHING);
	l.is_held = false;
	assert_int_equal(turn(0), LEVELS_LOWER);
}

static void without_steps_time_is_measured(void **state)
{
	(void)state;
	open_window(0);
	assert_int_equal(turn(LEVELS_NO_STEPS_NS - 1), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_FIRST);
	assert_int_equal(turn(LEVELS_SLICE_NS), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_TRACED);
	assert_int_equal(reported.size, 0);
	assert_int_equal(turn(LEVELS_SLICE_NS - 1), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_LOWER);
	close_window(1);
}

static void a_step_without_an_end_is_given_up(void **state)
{
	(void)state;
	open_window(5);
	assert_int_equal(turn(LEVELS_WAIT_NS - 1), LEVELS_NOTHING);
	now.steps = 6; /* it was only long */
	assert_int_equal(turn(2), LEVELS_NOTHING);
	assert_int_equal(turn(LEVELS_WAIT_NS), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_LOWER);
	close_window(0);
	assert_int_equal(l.window.steps, 0);
}

static void what_comes_new_is_lowered(void **state)
{
	(void)state;
	open_window(1);
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	close_window(0);
	now.is_new = now.is_setting = true; /* a child with all its parent's probes */
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	now.is_setting = false;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	now.is_new = false;
	close_window(0);
	assert_int_equal(turn(20 * SEC), LEVELS_RAISE);
}

static void where_it_cannot_be_all_stays(void **state)
{
	(void)state;
	open_window(1);
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	levels__lowered(&l, -95, now.now_ns);
	assert_int_equal(turn(100 * SEC), LEVELS_NOTHING);
}

static int begin_budget(void **state)
{
	(void)begin(state);
	l.cadence = (struct cadence){ .steps = 3, .budget = { .share = 0.02, .start_ns = now.now_ns } };
	return 0;
}

static void end_window(uint64_t took_ns)
{
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(took_ns), LEVELS_LOWER);
	assert_int_equal(reported.seq, EV_LEVEL_BUDGET / 50);
	close_window(0);
}

static void a_budget_waits_for_the_price(void **state)
{
	uint64_t may_ns, next_ns;

	(void)state;
	open_window(1);
	end_window(SEC);
	assert_int_equal(turn(LEVELS_WAIT_NS - 1), LEVELS_NOTHING);
	now.is_priced = true;
	budget__price(&l.cadence.budget, 3e9, 1e9);
	may_ns = cadence__may(&l.cadence, &l.window);
	next_ns = cadence__next(&l.cadence, &l.window);
	assert_in_range(may_ns, 1000 * SEC + 199 * SEC, 1000 * SEC + 202 * SEC);
	assert_true(next_ns >= may_ns);
	assert_int_equal(turn(next_ns - now.now_ns - 1), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_RAISE);
}

static void what_is_wanted_comes_as_soon_as_may_be(void **state)
{
	uint64_t may_ns;

	(void)state;
	open_window(1);
	end_window(SEC);
	now.is_priced = true;
	budget__price(&l.cadence.budget, 3e9, 1e9);
	may_ns = cadence__may(&l.cadence, &l.window);
	assert_true(may_ns < cadence__next(&l.cadence, &l.window));
	l.wanted = EV_WHY_RSS;
	assert_int_equal(turn(may_ns - now.now_ns - 1), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_RAISE);
	assert_int_equal(l.wanted, EV_WHY_DUE);
	assert_int_equal(reported.dev, EV_WHY_RSS);
}

/* Marks that take a large part of the budget go, too, once the window is priced, and come with the next one. */
static void dear_marks_go_between_windows(void **state)
{
	uint64_t next_ns;

	(void)state;
	open_window(1);
	end_window(SEC);
	now.is_expensive = true;
	assert_int_equal(turn(SEC), LEVELS_NOTHING); /* what the window cost is not known yet */
	now.is_priced = true;
	assert_int_equal(turn(0), LEVELS_NOTHING); /* nor what marks take */
	assert_false(levels__is_low(&l, &now));
	now.is_settled = true;
	budget__price(&l.cadence.budget, 3e9, 1e9);
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	assert_int_equal(reported.kind, 0);
	assert_int_equal(levels__low(&l), MT_LEVEL_STILL);
	levels__lowered(&l, 0, now.now_ns);
	assert_int_equal(turn(0), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_REST);
	assert_int_equal(reported.depth, MT_LEVEL_STILL);
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	next_ns = cadence__next(&l.cadence, &l.window);
	assert_int_equal(turn(next_ns - now.now_ns), LEVELS_RAISE);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH);
	assert_int_equal(levels__low(&l), MT_LEVEL_WATCH);
}

/* --between blocks: what allocates keeps its probes until it is known that they take too much; then it is as without. */
static void dear_blocks_go_for_good(void **state)
{
	(void)state;
	l.between = MT_LEVEL_BLOCKS;
	open_window(1);
	end_window(SEC);
	assert_int_equal(reported.depth, MT_LEVEL_BLOCKS);
	now.is_priced = now.is_settled = true;
	budget__price(&l.cadence.budget, 3e9, 1e9);
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	assert_int_equal(levels__low(&l), MT_LEVEL_BLOCKS);
	now.is_expensive = true;
	now.is_settled = false;
	assert_int_equal(turn(SEC), LEVELS_NOTHING); /* steps have not told yet */
	assert_false(levels__is_low(&l, &now)); /* there is something to take away, so nothing is detached */
	now.is_settled = true;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	assert_int_equal(reported.flags, EV_LEVEL_GAP);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH);
	assert_true(l.is_change);
	now.is_priced = now.is_settled = now.is_expensive = false;
	close_window(0);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH);
	assert_int_equal(l.cadence.budget.cnt, 2); /* the change has its price, too */
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	now.is_priced = true;
	budget__price(&l.cadence.budget, 1e7, l.cadence.budget.before_ns); /* but a window costs what it did */
	assert_int_equal(turn(cadence__next(&l.cadence, &l.window) - now.now_ns), LEVELS_RAISE);
	assert_false(l.is_change);
	assert_in_range(now.now_ns, 1000 * SEC + 199 * SEC, 1000 * SEC + 310 * SEC);
	open_window(2);
	end_window(SEC);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH); /* and stays away */
}

/* Nobody said what is to be seen between windows: allocations, too, where the budget pays for them, and until it does not. */
static void blocks_come_where_they_fit(void **state)
{
	(void)state;
	l.is_auto = true;
	open_window(1);
	end_window(SEC);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH);
	now.is_priced = now.is_settled = now.blocks_fit = true;
	budget__price(&l.cadence.budget, 1e9, 1e9);
	assert_int_equal(turn(SEC), LEVELS_NOTHING); /* not before the next window */
	assert_int_equal(turn(cadence__next(&l.cadence, &l.window) - now.now_ns), LEVELS_RAISE);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH); /* until then they were not seen */
	open_window(2);
	end_window(SEC);
	assert_int_equal(reported.depth, MT_LEVEL_BLOCKS);
	now.is_expensive = true;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH);
	now.is_expensive = now.is_priced = false;
	close_window(0);
	now.is_priced = true;
	budget__price(&l.cadence.budget, 1e7, l.cadence.budget.before_ns);
	assert_int_equal(turn(cadence__next(&l.cadence, &l.window) - now.now_ns), LEVELS_RAISE);
	open_window(3);
	end_window(SEC);
	assert_int_equal(reported.depth, MT_LEVEL_WATCH); /* once they were too much, for good */
}

/* At rest without marks. */
static void be_still(void)
{
	open_window(1);
	end_window(SEC);
	now.is_expensive = now.is_priced = now.is_settled = true;
	budget__price(&l.cadence.budget, 3e9, 1e9);
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	levels__lowered(&l, 0, now.now_ns);
	assert_int_equal(turn(0), LEVELS_TELL);
	assert_int_equal(reported.depth, MT_LEVEL_STILL);
}

/* A child that comes then has its price by counters, for no step is seen: the next window does not wait for any. */
static void what_comes_new_keeps_no_window_away(void **state)
{
	(void)state;
	be_still();
	for (int i = 0; i < 20; i++) {
		now.is_new = true;
		now.is_priced = now.is_settled = false; /* another stretch */
		assert_int_equal(turn(10 * SEC), LEVELS_LOWER);
		now.is_new = false;
		close_window(0);
		assert_int_equal(reported.depth, MT_LEVEL_STILL);
		budget__price(&l.cadence.budget, 1e8, 1e8);
		assert_int_equal(turn(LEVELS_READ_NS - 1), LEVELS_NOTHING);
		if (turn(20 * SEC) == LEVELS_RAISE)
			return;
	}
	fail_msg("nothing is traced again");
}

/* What is still set is all that must be: from then on it may be too much. */
static void what_cannot_go_is_known(void **state)
{
	(void)state;
	assert_false(levels__is_low(&l, &now));
	open_window(1);
	assert_false(levels__is_low(&l, &now));
	end_window(SEC);
	now.now_ns += LEVELS_WAIT_NS - 1;
	assert_false(levels__is_low(&l, &now)); /* marks may go */
	now.now_ns++;
	assert_true(levels__is_low(&l, &now)); /* steps that would say so do not come */
	now.is_settled = true;
	assert_false(levels__is_low(&l, &now));
	l.cadence.align_steps = 1000; /* marks stay */
	assert_true(levels__is_low(&l, &now));
	now.is_setting = true;
	assert_false(levels__is_low(&l, &now));
	begin_budget(state);
	be_still();
	assert_true(levels__is_low(&l, &now));
	now.is_new = true;
	assert_false(levels__is_low(&l, &now));
}

static void marks_of_a_job_without_steps_cannot_go(void **state)
{
	(void)state;
	open_window(0);
	assert_int_equal(turn(LEVELS_NO_STEPS_NS), LEVELS_TELL);
	assert_int_equal(turn(LEVELS_SLICE_NS), LEVELS_TELL);
	end_window(LEVELS_SLICE_NS);
	now.now_ns += LEVELS_READ_NS - 1;
	assert_false(levels__is_low(&l, &now));
	now.now_ns++;
	assert_true(levels__is_low(&l, &now));
}

/* --align: the model waits for the step, and what is set comes shortly before. */
static void a_window_waits_for_its_step(void **state)
{
	(void)state;
	l.cadence.align_steps = 1000;
	open_window(1);
	assert_int_equal(reported.size, event_level_size(3, 1000));
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	close_window(0);
	now.step_ns = 20e6;
	now.step_no = 500; /* 500 steps are 10 s */
	assert_int_equal(turn(20 * SEC), LEVELS_NOTHING);
	now.step_no = 950;
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	now.step_no = 990; /* too late for 1000 */
	assert_int_equal(turn(0), LEVELS_NOTHING);
	now.step_no = 1970;
	assert_int_equal(turn(0), LEVELS_RAISE);
}

/* … or by the wall clock, to a turn of the loop. */
static void a_window_waits_for_the_clock(void **state)
{
	(void)state;
	l.cadence.align_ns = 30 * SEC;
	now.wall_ns = 5 * SEC;
	open_window(1); /* the first one comes with the attach */
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	close_window(0);
	now.wall_ns = 20 * SEC;
	assert_int_equal(turn(15 * SEC), LEVELS_NOTHING);
	now.wall_ns = 29 * SEC + 400000000;
	assert_int_equal(turn(0), LEVELS_RAISE);
	now.wall_ns += 300000000;
	assert_int_equal(turn(300000000), LEVELS_NOTHING); /* all is set, too early */
	now.wall_ns = 30 * SEC - 1;
	assert_int_equal(turn(299999999), LEVELS_NOTHING);
	now.wall_ns++;
	assert_int_equal(turn(1), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_ARMED);
}

/* A clock that is set back meanwhile keeps no probes set. */
static void a_clock_may_be_set_back(void **state)
{
	(void)state;
	l.cadence.align_ns = 30 * SEC;
	now.wall_ns = 7205 * SEC;
	open_window(1);
	now.state = EV_LEVEL_TAIL;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	close_window(0);
	now.wall_ns = 7229 * SEC + 400000000;
	assert_int_equal(turn(20 * SEC), LEVELS_RAISE);
	now.wall_ns += 300000000;
	assert_int_equal(turn(300000000), LEVELS_NOTHING);
	now.wall_ns -= 3600 * SEC;
	assert_int_equal(turn(299999999), LEVELS_NOTHING);
	assert_int_equal(turn(1), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_ARMED);
}

/* Marks do not go when the next window is due, and waits for nothing but the clock. */
static void marks_stay_for_a_window_that_is_due(void **state)
{
	(void)state;
	l.cadence.align_ns = 30 * SEC;
	now.wall_ns = 5 * SEC;
	open_window(1);
	end_window(SEC);
	now.is_priced = true;
	budget__price(&l.cadence.budget, 1e8, 1e8);
	assert_int_equal(turn(25 * SEC), LEVELS_NOTHING);
	assert_true(l.due_ns < now.now_ns);
	now.is_expensive = now.is_settled = true;
	assert_int_equal(turn(SEC), LEVELS_NOTHING);
	now.wall_ns = 29 * SEC + 400000000;
	assert_int_equal(turn(SEC), LEVELS_RAISE);
}

static void steps_that_do_not_end_have_slices(void **state)
{
	(void)state;
	open_window(1);
	assert_int_equal(turn(LEVELS_WAIT_NS + 1), LEVELS_LOWER);
	close_window(0);
	assert_int_equal(turn(LEVELS_WAIT_NS + 1), LEVELS_RAISE); /* nobody could say what it cost */
	open_window(1);
	assert_int_equal(turn(LEVELS_NO_STEPS_NS), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_FIRST);
	assert_int_equal(turn(LEVELS_SLICE_NS), LEVELS_TELL);
	assert_int_equal(reported.flags, EV_LEVEL_TRACED);
	assert_int_equal(reported.size, 0);
	assert_int_equal(turn(LEVELS_SLICE_NS), LEVELS_LOWER);
}

static void what_comes_new_is_paid_for(void **state)
{
	(void)state;
	open_window(1);
	end_window(SEC);
	now.is_new = true;
	assert_int_equal(turn(SEC), LEVELS_LOWER);
	now.is_new = false;
	close_window(0);
	assert_int_equal(l.cadence.budget.cnt, 2);
}

/* --- the clock that stands still ------------------------------------------------------------------------------------- */

static void the_clock_stands_still(void **state)
{
	struct gaps g = { 0 };

	(void)state;
	assert_int_equal(gaps__clock(&g, 50), 50);
	assert_true(gaps__begin(&g, 100));
	assert_true(gaps__begin(&g, 150)); /* it is open */
	assert_int_equal(gaps__clock(&g, 90), 90);
	assert_int_equal(gaps__clock(&g, 100), 100);
	assert_int_equal(gaps__clock(&g, 170), 100);
	gaps__end(&g, 200);
	gaps__end(&g, 250);
	assert_int_equal(gaps__clock(&g, 200), 100);
	assert_int_equal(gaps__clock(&g, 230), 130);
	assert_true(gaps__begin(&g, 300));
	assert_int_equal(gaps__clock(&g, 1000), 200);
	assert_int_equal(gaps__clock(&g, 250), 150);
	assert_int_equal(gap__seen_ns(&g.v[1], 340), 300); /* not yet */
	assert_false(gaps__sees(&g));
	assert_true(gaps__seen(&g, 330));
	assert_false(gaps__seen(&g, 335));
	assert_true(gaps__sees(&g));
	assert_int_equal(gap__seen_ns(&g.v[1], 340), 340);
	gaps__blind(&g, 350);
	gaps__blind(&g, 360);
	assert_false(gaps__seen(&g, 370)); /* again, but not all of it */
	assert_false(gaps__sees(&g));
	gaps__end(&g, 400);
	assert_true(gaps__sees(&g));
	gaps__blind(&g, 450); /* none is open */
	assert_true(gaps__begin(&g, 500));
	assert_true(gaps__seen(&g, 510));
	gaps__end(&g, 600);
	assert_false(gaps__saw(&g, 120, 180));
	assert_false(gaps__saw(&g, 300, 330)); /* it is not known yet */
	assert_true(gaps__saw(&g, 325, 335));
	assert_true(gaps__saw(&g, 340, 360));
	assert_false(gaps__saw(&g, 350, 400));
	assert_true(gaps__saw(&g, 520, 530));
	assert_true(gaps__begin(&g, 700));
	gaps__blind(&g, 750); /* the window's end, and then nothing */
	gaps__end(&g, 800);
	assert_int_equal(g.v[0].seen_ns, 100);
	assert_int_equal(g.v[1].seen_ns, 350);
	assert_int_equal(g.v[2].seen_ns, 600); /* to its end */
	assert_int_equal(g.v[3].seen_ns, 700);
	gaps__check(&g);
	gaps__done(&g);
}

static void many_gaps_are_joined(void **state)
{
	struct gaps g = { 0 };
	uint64_t n = 50 * GAPS_MAX, last = 0;

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		assert_true(gaps__begin(&g, i * 100 + 10));
		gaps__end(&g, i * 100 + 100);
	}
	gaps__check(&g);
	assert_int_equal(g.times, n);
	assert_true(g.cnt <= GAPS_MAX);
	assert_int_equal(gaps__clock(&g, n * 100), n * 10); /* the sum is exact */
	for (uint64_t at = 0; at < n * 100; at += 77) {
		uint64_t clock = gaps__clock(&g, at);

		assert_true(clock >= last && clock <= at);
		last = clock;
	}
	assert_int_equal(gaps__clock(&g, (n - 1) * 100 + 5), (n - 1) * 10 + 5); /* and so is what is recent */
	gaps__done(&g);
}

static void carried_are_found_by_address(void **state)
{
	struct carried c = { 0 };

	(void)state;
	carried__add(&c, PID, MT_DEV_CPU, 0x300);
	carried__add(&c, PID, MT_DEV_CUDA0, 0x100);
	carried__add(&c, PID - 1, MT_DEV_CPU, 0x200);
	carried__add(&c, PID, MT_DEV_CPU, 0x100);
	carried__sort(&c);
	assert_int_equal(carried__from(&c, PID, MT_DEV_CPU, 0x101), carried__from(&c, PID, MT_DEV_CPU, 0x300));
	assert_int_equal(c.v[carried__from(&c, PID, MT_DEV_CPU, 0x100)].ptr, 0x100);
	assert_int_equal(carried__from(&c, PID + 1, MT_DEV_CPU, 0), c.cnt);
	carried__done(&c);
}

/* --- the model --------------------------------------------------------------------------------------------------------- */

static uint8_t state_of(void)
{
	uint64_t window;

	return model__level_of(m, &window);
}

static void states_follow_the_steps(void **state)
{
	(void)state;
	assert_int_equal(state_of(), EV_LEVEL_TRACED);
	step();
	go_down();
	step();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	assert_int_equal(state_of(), EV_LEVEL_ARMED);
	step();
	assert_int_equal(state_of(), EV_LEVEL_FIRST);
	step();
	assert_int_equal(state_of(), EV_LEVEL_TRACED);
	step();
	assert_int_equal(state_of(), EV_LEVEL_TRACED);
	step();
	assert_int_equal(state_of(), EV_LEVEL_TAIL);
	step();
	assert_int_equal(report()->sampling.steps_traced, 2);
	assert_int_equal(rep->sampling.steps_seen, 5); /* of the first two nobody knows the begin */
	assert_int_equal(rep->sampling.windows, 1);
	assert_int_equal(gaps_reported, 3); /* begins, ends, begins */
}

static void count(uint64_t steps)
{
	SEND(.kind = EV_STEPS, .size = steps);
}

/* What two readings say, one after the other, is believed: the first may be one too low. */
static void numbers_of_steps_are_the_optimizers(void **state)
{
	(void)state;
	count(7); /* before any step: nothing can be said */
	step();
	count(1000); /* in between a boundary and its counting: it is 1001 */
	assert_int_equal(model__step_no(m, PID), 0);
	step();
	count(1002);
	assert_int_equal(model__step_no(m, PID), 0);
	step();
	count(1003);
	assert_int_equal(model__step_no(m, PID), 1003);
	step();
	count(1003); /* again too low */
	step();
	assert_int_equal(model__step_no(m, PID), 1005);
	count(5); /* a job that begins anew */
	step();
	count(6);
	assert_int_equal(model__step_no(m, PID), 6);
	count(UINT64_MAX);
	assert_int_equal(model__step_no(m, PID), 6);
	count(INT64_MAX); /* such numbers and a boundary more do not fit */
	count(INT64_MAX);
	step();
	assert_int_equal(model__step_no(m, PID), 7);
	count(INT64_MAX / 2);
	count(INT64_MAX / 2);
	step();
	assert_int_equal(model__step_no(m, PID), INT64_MAX / 2 + 1);
}

static void windows_begin_at_their_step(void **state)
{
	(void)state;
	for (int i = 1; i <= 3; i++) {
		step();
		count(i + 94);
	}
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, event_level_size(2, 100));
	step(); /* 98 */
	assert_int_equal(state_of(), EV_LEVEL_ARMED);
	step(); /* 99: it begins with 100 */
	assert_int_equal(state_of(), EV_LEVEL_FIRST);
	step();
	assert_int_equal(state_of(), EV_LEVEL_TRACED);
	step();
	step();
	assert_int_equal(state_of(), EV_LEVEL_TAIL);
	assert_int_equal(report()->sampling.traced_cnt, 1);
	assert_int_equal(rep->sampling.traced[0].step, 100);
	assert_int_equal(rep->sampling.traced[0].steps, 2);
	assert_int_equal(rep->sampling.traced[0].end_ns - rep->sampling.traced[0].begin_ns, 200);
}

/* Without a number any step is as good. */
static void unknown_numbers_keep_nobody_waiting(void **state)
{
	(void)state;
	step();
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, event_level_size(2, 100));
	step();
	assert_int_equal(state_of(), EV_LEVEL_FIRST);
	step();
	step();
	step();
	assert_int_equal(report()->sampling.traced[0].step, 0);
	assert_int_equal(rep->sampling.traced[0].steps, 2);
}

/* While no mark is set nobody counts: what is between the last boundary and the next one is no step. */
static void no_step_lasts_over_a_rest_without_marks(void **state)
{
	(void)state;
	step();
	step();
	go_down();
	level(EV_LEVEL_REST, MT_LEVEL_WATCH, 0);
	step();
	level(EV_LEVEL_REST, MT_LEVEL_STILL, 0);
	ts += 60000;
	free_block(0x1000);
	assert_int_equal(report()->sampling.uncounted_ns, 60000);
	ts += 40000;
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 0);
	step();
	step();
	assert_int_equal(report()->sampling.steps_seen, 2); /* go_down has the first, and the last one */
	assert_int_equal(rep->sampling.uncounted_ns, 100000);
	assert_int_equal(rep->run.lost[MT_LOSS_DECODE], 0);
}

/* What the table of operators says to live, all rows. */
static uint64_t live_of_ops(void)
{
	uint64_t sum = rep->ops.none.live;

	for (size_t i = 0; i < rep->ops.cnt; i++)
		sum += rep->ops.rows[i].live;
	return sum;
}

static void time_without_tracing_does_not_count(void **state)
{
	const struct report_dev *d;

	(void)state;
	step();
	alloc(0x1000, 100);
	ts += 10;
	go_down();
	step();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step(); /* the first */
	alloc(0x2000, 900); /* a peak that is not of a traced step */
	use(0x1000, 100);
	free_block(0x2000);
	step(); /* traced */
	alloc(0x3000, 50);
	step(); /* tail */
	alloc(0x4000, 5000);
	ts += 1000;
	d = report()->devs;
	assert_int_equal(d->peak, 150);
	assert_int_equal(d->live, 150); /* when the traced step was over */
	assert_int_equal(live_of_ops(), 150); /* and the tables say the same */
	assert_int_equal(d->byte_ns, 10 * 100 + 100 * 150);
	assert_int_equal(rep->sampling.traced_ns, 100 + 10 + 100); /* before the gap, and the step of the window */
	free_block(0x4000);
}

static void carried_blocks_end_in_their_ways(void **state)
{
	const struct report_dev *d;

	(void)state;
	step();
	alloc(0x1000, 0x100); /* used */
	alloc(0x2000, 0x100); /* never seen late again */
	alloc(0x3000, 0x100); /* another one is allocated there */
	alloc(0x4000, 0x100); /* another one is allocated across its end */
	alloc(0x5000, 0x100); /* freed */
	alloc(0x6000, 0x100); /* a storage of another size is there */
	alloc(0x7000, 0x100); /* another one ends right before it, and one begins right behind it */
	go_down();
	assert_int_equal(report()->devs[0].live, 0x700);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step();
	use(0x1000, 0x100);
	alloc(0x3000, 0x80);
	alloc(0x40ff, 0x10);
	free_block(0x5000);
	use(0x6000, 0x180);
	alloc(0x6f00, 0x100);
	alloc(0x7100, 0x100);
	use(0x7000, 0x100);
	step();
	d = report()->devs;
	assert_int_equal(rep->run.lost[MT_LOSS_REUSE], 0);
	assert_int_equal(d->unseen_blocks, 4);
	assert_int_equal(d->unseen_bytes, 0x400);
	assert_int_equal(d->frees, 1);
	assert_int_equal(d->dropped, 0);
	assert_int_equal(d->live, 0x100 + 0x80 + 0x10 + 0x180 + 0x100 + 0x100 + 0x100);
}

static void at_level_blocks_nothing_is_carried(void **state)
{
	(void)state;
	step();
	alloc(0x1000, 100);
	level(EV_LEVEL_GAP, MT_LEVEL_BLOCKS, 1);
	alloc(0x2000, 50);
	free_block(0x1000);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step();
	step();
	assert_int_equal(report()->devs[0].live, 50);
	assert_int_equal(rep->devs[0].unseen_blocks, 0);
	assert_int_equal(rep->devs[0].peak, 100);
}

static void operators_of_a_gap_are_not_believed(void **state)
{
	(void)state;
	step();
	alloc(0x1000, 100);
	go_down();
	use(0x1000, 77); /* half of what happens is seen: it means nothing */
	SEND(.kind = MT_EV_ALLOC, .addr = 0x9000, .size = 8, .dev = MT_DEV_CPU, .depth = 3, .seq = 99);
	assert_int_equal(report()->devs[0].alloc_bytes, 108);
	assert_int_equal(rep->devs[0].live, 100); /* as it was before the gap */
	assert_int_equal(live_of_ops(), 100);
	assert_int_equal(rep->run.lost[MT_LOSS_FRAME], 0);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step();
	step();
	assert_int_equal(report()->devs[0].live, 8);
}

static uint64_t highest(const struct series *s)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->cnt; i++)
		most = s->points[i].live_max > most ? s->points[i].live_max : most;
	return most;
}

static uint64_t highest_at(const struct series *s, uint64_t ts_ns)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (s->points[i].ts_ns <= ts_ns && ts_ns < s->points[i].ts_ns + s->bucket_ns)
			return s->points[i].live_max;
	return UINT64_MAX;
}

/* Where allocations are seen between windows, live bytes are known, too: in a series of its own. */
static void blocks_between_windows_have_a_series(void **state)
{
	const struct series *s;
	uint64_t gap_ns;

	for (int sees = 0; sees < 2; sees++) {
		setup(state);
		level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
		step();
		alloc(0x1000, 0x100);
		step();
		step();
		level(EV_LEVEL_GAP, sees ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH, 1);
		level(EV_LEVEL_REST, sees ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH, 1);
		gap_ns = ts;
		ts += 10000000;
		alloc(0x2000, 0x300);
		ts += 20000000; /* nothing happens */
		free_block(0x2000);
		ts += 20000000;
		free_block(0x1000);
		s = &report()->devs[0].between;
		assert_int_equal(highest_at(s, gap_ns + 5000000), sees ? 0x100 : UINT64_MAX);
		assert_int_equal(highest_at(s, gap_ns + 20000000), sees ? 0x400 : UINT64_MAX);
		assert_int_equal(highest_at(s, gap_ns + 40000000), sees ? 0x100 : UINT64_MAX);
		assert_int_equal(highest(&rep->devs[0].series), 0x100);
		assert_int_equal(rep->devs[0].peak, 0x100);
		level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
		step();
		step();
		ts += 20000000;
		alloc(0x3000, 0x900);
		step(); /* a traced one of 20 ms */
		level(EV_LEVEL_GAP, sees ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH, 1);
		free_block(0x3000);
		level(EV_LEVEL_REST, sees ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH, 1);
		ts += 5000000;
		s = &report()->devs[0].between;
		assert_int_equal(highest(s), sees ? 0x900 : 0);
		teardown(state);
	}
	setup(state);
}

/* Steps of a gap have no peak, whatever was seen of them; the report says where gaps were. */
static void steps_of_a_gap_have_no_peak(void **state)
{
	(void)state;
	step();
	alloc(0x1000, 100);
	step();
	go_down();
	alloc(0x2000, 1000); /* while probes come and go */
	step();
	step();
	free_block(0x2000);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step();
	use(0x1000, 100);
	step(); /* seen late, and the traced one begins */
	alloc(0x3000, 20);
	free_block(0x3000);
	step();
	assert_int_equal(report()->devs[0].peak, 120);
	assert_int_equal(rep->marks.steps_cnt, 2); /* the first, and the traced one */
	assert_int_equal(step_marks__peak(&rep->marks.steps[0]), 100);
	assert_int_equal(step_marks__peak(&rep->marks.steps[1]), 120);
	assert_int_equal(step_marks__peak(&rep->procs[0].highest_step), 120);
	assert_int_equal(rep->sampling.gaps_cnt, 2); /* the second one is open: the window is over */
	assert_int_equal(rep->sampling.gaps[0].lost_ns, rep->sampling.gaps[0].end_ns - rep->sampling.gaps[0].begin_ns);
	assert_int_equal(rep->sampling.gaps[1].begin_ns, rep->sampling.gaps[1].end_ns);
	assert_true(rep->sampling.in_gap);
}

/* What was allocated while probes went is in no traced moment: nothing that is shown is above a peak. */
static void live_is_never_above_the_peak(void **state)
{
	(void)state;
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 0);
	alloc(0x1000, 100);
	assert_int_equal(report()->devs[0].live, 100); /* nothing was traced yet */
	assert_int_equal(rep->devs[0].peak, 100);
	assert_int_equal(rep->devs[0].cats[CAT_UNKNOWN].at_peak, 100);
	assert_int_equal(rep->procs[0].peak, 100);
	level(EV_LEVEL_TRACED, MT_LEVEL_FULL, 0);
	alloc(0x2000, 20);
	free_block(0x2000);
	go_down();
	alloc(0x3000, 1000);
	assert_int_equal(report()->devs[0].live, 100);
	assert_int_equal(rep->devs[0].cats[CAT_UNKNOWN].live, 100);
	assert_int_equal(rep->devs[0].peak, 120);
	assert_int_equal(rep->procs[0].live, 100);
	free_block(0x1000);
	free_block(0x3000); /* that one has gone is seen */
	assert_int_equal(report()->devs[0].live, 0);
	assert_int_equal(rep->procs[0].live, 0);
}

static void a_gap_of_a_process_that_ends(void **state)
{
	(void)state;
	step();
	alloc(0x1000, 100);
	go_down();
	SEND(.kind = EV_GONE);
	assert_int_equal(report()->devs[0].live, 0);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	SEND(.kind = EV_PROC, .pid = PID + 1);
	for (int i = 0; i < 3; i++) /* those of another one count now */
		SEND(.kind = MT_EV_STEP, .pid = PID + 1, .addr = (uint64_t)i);
	assert_int_equal(state_of(), EV_LEVEL_TAIL);
}

static int take_first(void *ctx, const struct event *ev)
{
	*(struct event *)ctx = *ev;
	return 1;
}

static void slow_step(void)
{
	ts += 200;
	step();
}

/* What steps took in windows and around them, against those between. */
static void the_price_is_that_of_steps(void **state)
{
	struct event ev = { 0 };

	(void)state;
	step();
	step();
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH, .aux = PID, .seq = 20000);
	ts += 1000;
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_REST, .depth = MT_LEVEL_WATCH, .aux = PID, .seq = 20000);
	step(); /* 1000 more than others: probes went */
	ts += PAID_SETTLE_NS; /* so long it may be what they left behind */
	step();
	for (int i = 0; i < 6; i++)
		step();
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH, .aux = PID, .seq = 20000, .addr = 1);
	slow_step();
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_ARMED, .depth = MT_LEVEL_FULL, .aux = PID, .seq = 20000, .size = 1, .addr = 1);
	slow_step();
	slow_step(); /* all of these 200 more */
	slow_step();
	assert_int_equal(model__paid(m)->traced_steps, 1);
	assert_true(fabs(report()->sampling.price_ratio - (1800.0 + PAID_SETTLE_NS) / (double)(ts - 1000)) < 1e-9);
	assert_true(fabs(rep->sampling.budget - 0.02) < 1e-9);
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_REST, .depth = MT_LEVEL_WATCH, .aux = PID, .seq = 20000);
	(void)model__each_level(m, take_first, &ev);
	assert_int_equal(ev.seq, 20000);
}

static void odd_levels_are_counted(void **state)
{
	(void)state;
	level(EV_LEVEL_STATES, MT_LEVEL_FULL, 1);
	SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH, .dev = EV_WHY_MAX, .aux = PID);
	level(EV_LEVEL_GAP, MT_LEVEL_FULL + 1, 1);
	assert_int_equal(report()->run.lost[MT_LOSS_DECODE], 3);
	assert_int_equal(rep->sampling.is_on, 0);
	for (uint32_t i = 0; i < 3000; i++) /* no more machines than there can be */
		SEND(.kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH, .aux = i << EV_MACHINE_SHIFT);
}

static int reported_again;
static struct event again;

static int take(void *ctx, const struct event *ev)
{
	(void)ctx;
	reported_again++;
	again = *ev;
	return 0;
}

static void a_recording_that_begins_later_is_reported(void **state)
{
	(void)state;
	assert_int_equal(model__each_level(m, take, NULL), 0);
	assert_int_equal(reported_again, 0);
	step();
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 5);
	step();
	(void)model__each_level(m, take, NULL); /* nothing would be known there of what is seen late: it waits for a step */
	assert_int_equal(again.flags, EV_LEVEL_ARMED);
	assert_int_equal(again.size, 5);
	step();
	step();
	(void)model__each_level(m, take, NULL);
	assert_int_equal(again.flags, EV_LEVEL_TRACED);
	assert_int_equal(again.size, 4);
	assert_int_equal(again.depth, MT_LEVEL_FULL);
}

/* Of a trace that goes on with all steps it is told as if there never had been a gap. */
static void a_recording_of_all_steps_has_no_gap(void **state)
{
	(void)state;
	reported_again = 0;
	step();
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 0);
	step();
	(void)model__each_level(m, take, NULL);
	assert_int_equal(again.flags, EV_LEVEL_ARMED);
	assert_int_equal(reported_again, 1);
	for (int i = 0; i < 9; i++)
		step();
	(void)model__each_level(m, take, NULL);
	assert_int_equal(reported_again, 1);
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 0);
	(void)model__each_level(m, take, NULL);
	assert_int_equal(reported_again, 2);
	level(EV_LEVEL_TRACED, MT_LEVEL_FULL, 0); /* a slice of time ends by itself */
	(void)model__each_level(m, take, NULL);
	assert_int_equal(reported_again, 3);
}

/* A recording that begins in a gap: what lived is told before the level is. */
static void what_lived_before_a_recording_is_carried(void **state)
{
	static const uint8_t begins[] = { EV_LEVEL_GAP, EV_LEVEL_REST, EV_LEVEL_ARMED };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		SEND(.kind = EV_WAS, .addr = 0x1000, .size = 100, .dev = MT_DEV_CPU);
		level(begins[i], begins[i] == EV_LEVEL_ARMED ? MT_LEVEL_FULL : MT_LEVEL_WATCH, 1);
		alloc(0x1000, 60);
		assert_int_equal(report()->run.lost[MT_LOSS_REUSE], 0);
		assert_int_equal(rep->devs[0].unseen_blocks, i + 1);
		free_block(0x1000);
		level(EV_LEVEL_TRACED, MT_LEVEL_FULL, 0);
	}
}

static void machines_have_gaps_of_their_own(void **state)
{
	const uint32_t other = 1u << EV_MACHINE_SHIFT | PID;

	(void)state;
	step();
	SEND(.kind = MT_EV_ALLOC, .pid = other, .addr = 0x1000, .size = 10, .dev = MT_DEV_CPU);
	alloc(0x1000, 20);
	go_down();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 1);
	step();
	step();
	assert_int_equal(report()->devs[0].live, 10); /* that of the other machine was never out of sight */
	assert_int_equal(rep->devs[0].unseen_bytes, 20);
	SEND(.kind = MT_EV_FREE, .pid = other, .addr = 0x1000, .dev = MT_DEV_CPU);
}

static const uint32_t there = 1u << EV_MACHINE_SHIFT | PID; /* the other machine's */

static void level_there(uint8_t state, uint8_t lv)
{
	SEND(.kind = EV_LEVEL, .flags = state, .depth = lv, .aux = there, .addr = 1);
}

static void steps_at(uint32_t pid, unsigned cnt)
{
	while (cnt--) {
		ts += 100;
		SEND(.kind = MT_EV_STEP, .pid = pid);
	}
}

/* A is traced from its second boundary on, B from its own, which is later; A's window ends first. */
static void machines_have_rows_of_their_own(void **state)
{
	uint64_t begin[2], end[2];

	(void)state;
	SEND(.kind = EV_PROC, .pid = there);
	step();
	steps_at(there, 1);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 0);
	level_there(EV_LEVEL_ARMED, MT_LEVEL_FULL);
	step();
	step();
	begin[0] = ts;
	step();
	steps_at(there, 2);
	begin[1] = ts;
	assert_true(report()->sampling.traced_cnt == 2 && rep->sampling.traced[0].end_ns == ts);
	steps_at(there, 3);
	step();
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 0);
	end[0] = ts;
	steps_at(there, 2);
	assert_int_equal(report()->sampling.traced[1].end_ns, ts); /* it is open */
	level_there(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	end[1] = ts;
	ts += 5;
	assert_int_equal(report()->sampling.traced_cnt, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rep->sampling.traced[i].begin_ns, begin[i]);
		assert_int_equal(rep->sampling.traced[i].end_ns, end[i]);
	}
	assert_true(rep->sampling.traced[0].steps == 2 && rep->sampling.traced[1].steps == 5);
}

static uint64_t uncounted_ns(void)
{
	SEND(.kind = EV_TICK);
	return report()->sampling.uncounted_ns;
}

/* While A's steps are not counted B's windows come and go. */
static void machines_rest_on_their_own(void **state)
{
	(void)state;
	step();
	level(EV_LEVEL_GAP, MT_LEVEL_STILL, 0);
	level(EV_LEVEL_REST, MT_LEVEL_STILL, 0);
	ts += 1000;
	level_there(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	ts += 1000;
	level_there(EV_LEVEL_REST, MT_LEVEL_STILL);
	ts += 1000;
	assert_int_equal(uncounted_ns(), 3000); /* not 4000: it is time of a run, not of two */
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 0);
	ts += 500;
	assert_int_equal(uncounted_ns(), 3000);
	level(EV_LEVEL_REST, MT_LEVEL_STILL, 0);
	ts += 10;
	level(EV_LEVEL_REST, MT_LEVEL_WATCH, 0); /* marks are there again, without a word between */
	ts += 10;
	assert_int_equal(uncounted_ns(), 3010);
}

/* A window that is open while 64 others come and go has a row no longer, and none of theirs. */
static void a_row_that_is_gone_is_nobodys(void **state)
{
	(void)state;
	SEND(.kind = EV_PROC, .pid = there);
	step();
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 0);
	steps_at(there, 1);
	step();
	step();
	for (int i = 0; i < 70; i++) {
		level_there(EV_LEVEL_ARMED, MT_LEVEL_FULL);
		steps_at(there, 3);
		level_there(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	}
	step();
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 0);
	assert_int_equal(report()->sampling.traced_cnt, 64);
	for (size_t i = 0; i < 64; i++) {
		assert_int_equal(rep->sampling.traced[i].steps, 1);
		assert_int_equal(rep->sampling.traced[i].end_ns - rep->sampling.traced[i].begin_ns, 100);
	}
}

static uint64_t dice;

static uint64_t roll(uint64_t sides)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (dice >> 33) % sides;
}

/* send() walks all sums behind each event. */
static void any_order_keeps_the_sums(void **state)
{
	static const uint8_t devs[] = { MT_DEV_CPU, MT_DEV_HOST, MT_DEV_CUDA0 };

	(void)state;
	SEND(.kind = EV_COVER, .name = names__add(names, "flow"), .addr = 1, .size = 1);
	for (dice = 1; dice && ts < 600000; ts += roll(100)) {
		uint64_t ptr = 0x1000 + roll(64) * 0x40, size = 0x10 + roll(8) * 0x10;
		uint32_t pid = PID + (uint32_t)roll(3);
		uint8_t dev = devs[roll(3)];

		switch (roll(12)) {
		case 0:
		case 1:
		case 2:
			SEND(.kind = MT_EV_ALLOC, .pid = pid, .addr = ptr, .size = size, .dev = dev);
			break;
		case 3:
		case 4:
			SEND(.kind = MT_EV_FREE, .pid = pid, .addr = ptr, .dev = dev);
			break;
		case 5:
		case 6:
			use(ptr, size);
			break;
		case 7:
		case 8:
			SEND(.kind = MT_EV_STEP, .pid = pid, .addr = roll(100));
			break;
		case 9:
			SEND(.kind = EV_LEVEL, .flags = (uint8_t)roll(EV_LEVEL_STATES), .depth = (uint8_t)(1 + roll(3)),
			     .aux = pid | (uint32_t)(roll(20) == 0) << EV_MACHINE_SHIFT, .size = roll(3));
			break;
		case 10:
			SEND(.kind = EV_TENSOR, .pid = pid, .addr = ptr, .size = size, .dev = dev,
			     .flags = EV_TENSOR_PARAMETER, .name = names__add(names, "a.weight"), .depth = (uint8_t)roll(3));
			break;
		default:
			if (!roll(30))
				SEND(.kind = roll(2) ? EV_GONE : EV_PROC, .pid = pid,
				     .flags = EV_PROC_EXECED * (uint8_t)roll(2));
		}
	}
	assert_true(report()->sampling.unseen_blocks > 10);
	assert_int_equal(rep->sampling.is_on, 1);
}

static void metrics_say_of_how_many_steps(void **state)
{
	struct outbuf o = { 0 };

	(void)state;
	step();
	outbuf__init(&o, NULL);
	metrics__write(&o, report(), &(struct metrics_opts){ 0 });
	assert_null(memmem(o.buf, o.len, "steps_seen", 10));
	outbuf__done(&o);
	go_down();
	step();
	outbuf__init(&o, NULL);
	metrics__write(&o, report(), &(struct metrics_opts){ 0 });
	assert_non_null(memmem(o.buf, o.len, "memtrace_steps_seen_total 0\n", strlen("memtrace_steps_seen_total 0\n")));
	assert_non_null(memmem(o.buf, o.len, "memtrace_steps_traced_total 0\n", strlen("memtrace_steps_traced_total 0\n")));
	assert_non_null(memmem(o.buf, o.len, "memtrace_price_ratio 0\n", strlen("memtrace_price_ratio 0\n")));
	outbuf__done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_without_a_cadence),
		cmocka_unit_test_setup(windows_come_in_their_time, begin),
		cmocka_unit_test_setup(a_late_one_is_not_made_up_for, begin),
		cmocka_unit_test_setup(a_held_window_goes_on, begin),
		cmocka_unit_test_setup(without_steps_time_is_measured, begin),
		cmocka_unit_test_setup(a_step_without_an_end_is_given_up, begin),
		cmocka_unit_test_setup(what_comes_new_is_lowered, begin),
		cmocka_unit_test_setup(where_it_cannot_be_all_stays, begin),
		cmocka_unit_test_setup(a_budget_waits_for_the_price, begin_budget),
		cmocka_unit_test_setup(what_is_wanted_comes_as_soon_as_may_be, begin_budget),
		cmocka_unit_test_setup(dear_marks_go_between_windows, begin_budget),
		cmocka_unit_test_setup(blocks_come_where_they_fit, begin_budget),
		cmocka_unit_test_setup(dear_blocks_go_for_good, begin_budget),
		cmocka_unit_test_setup(what_comes_new_keeps_no_window_away, begin_budget),
		cmocka_unit_test_setup(what_cannot_go_is_known, begin_budget),
		cmocka_unit_test_setup(marks_of_a_job_without_steps_cannot_go, begin_budget),
		cmocka_unit_test_setup(a_window_waits_for_its_step, begin),
		cmocka_unit_test_setup(a_window_waits_for_the_clock, begin),
		cmocka_unit_test_setup(a_clock_may_be_set_back, begin),
		cmocka_unit_test_setup(marks_stay_for_a_window_that_is_due, begin_budget),
		cmocka_unit_test_setup(steps_that_do_not_end_have_slices, begin_budget),
		cmocka_unit_test_setup(what_comes_new_is_paid_for, begin_budget),
		cmocka_unit_test(the_clock_stands_still),
		cmocka_unit_test(many_gaps_are_joined),
		cmocka_unit_test(carried_are_found_by_address),
		cmocka_unit_test_setup_teardown(states_follow_the_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_of_steps_are_the_optimizers, setup, teardown),
		cmocka_unit_test_setup_teardown(windows_begin_at_their_step, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_numbers_keep_nobody_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(no_step_lasts_over_a_rest_without_marks, setup, teardown),
		cmocka_unit_test_setup_teardown(time_without_tracing_does_not_count, setup, teardown),
		cmocka_unit_test_setup_teardown(carried_blocks_end_in_their_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(at_level_blocks_nothing_is_carried, setup, teardown),
		cmocka_unit_test_setup_teardown(operators_of_a_gap_are_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(steps_of_a_gap_have_no_peak, setup, teardown),
		cmocka_unit_test_teardown(blocks_between_windows_have_a_series, teardown),
		cmocka_unit_test_setup_teardown(live_is_never_above_the_peak, setup, teardown),
		cmocka_unit_test_setup_teardown(a_gap_of_a_process_that_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(the_price_is_that_of_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(odd_levels_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recording_that_begins_later_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recording_of_all_steps_has_no_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(what_lived_before_a_recording_is_carried, setup, teardown),
		cmocka_unit_test_setup_teardown(machines_have_gaps_of_their_own, setup, teardown),
		cmocka_unit_test_setup_teardown(machines_have_rows_of_their_own, setup, teardown),
		cmocka_unit_test_setup_teardown(machines_rest_on_their_own, setup, teardown),
		cmocka_unit_test_setup_teardown(a_row_that_is_gone_is_nobodys, setup, teardown),
		cmocka_unit_test_setup_teardown(any_order_keeps_the_sums, setup, teardown),
		cmocka_unit_test_setup_teardown(metrics_say_of_how_many_steps, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
