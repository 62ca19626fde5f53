/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * When windows are so that a job loses no more than a share of its time (live/budget.h), and what they cost by its steps
 * (model/core/paid.h): both together, on jobs that are made up, whose true loss is known.
 */
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "live/cadence.h"
#include "model/core/paid.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull
#define WINDOWS 4096

/* A made-up job, and how it is traced. */
struct job {
	double step_ns, slow;	  /* traced steps take so many times as long */
	double set_ns, first_ns;  /* so long probes come and go, with steps as slow as traced ones; and the first time */
	double noise;		  /* steps differ by up to so much, either way */
	unsigned long_every;	  /* every so many steps one takes … */
	double long_ns;		  /* … so much longer, traced or not; */
	double later_slow;	  /* in the second half; 0: as before */
	double mark;		  /* of each step's own time, traced or not: what marks of steps take */
	double tail_ns, tail;	  /* so long behind a window steps take so many times as long, and nobody knows why */
	bool sees_blocks;	  /* … with those of allocations, too */
	bool is_hushed;		  /* … but not longer between windows than it takes to price one */
	/* what was, in the end */
	uint64_t now, steps, random, read_ns;
	double lost, probe_ns; /* the latter as calibration has it */
	struct budget_window was[WINDOWS]; /* with what they truly cost */
	size_t cnt;
	struct cadence c;
	struct paid paid;
};

static double chance(struct job *j)
{
	j->random = j->random * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(j->random >> 11) / 0x1p53;
}

static void one_step(struct job *j, enum paid_step what, double slow)
{
	double bare = j->step_ns * (1 + j->noise * (2 * chance(j) - 1)), took;

	if (j->long_every && !(++j->steps % j->long_every))
		bare += j->long_ns;
	took = bare * (1 + j->mark) + (what == PAID_WATCHED ? 0 : (slow - 1) * j->step_ns);
	j->lost += took - bare;
	j->probe_ns += bare * j->mark / (j->sees_blocks ? PAID_BLOCKS : PAID_MARKS);
	j->probe_ns += (took - bare * (1 + j->mark)) / PAID_CALIBRATED;
	j->now += (uint64_t)took;
	paid__step(&j->paid, what, (uint64_t)took, 0, j->now);
	if (!j->mark || j->now < j->read_ns + SEC)
		return;
	j->read_ns = j->now;
	paid__read(&j->paid, &(struct paid_read){ .ts_ns = j->now, .probe_ns = (uint64_t)j->probe_ns, .cpu_ns = j->now });
}

static void window(struct job *j, double slow)
{
	double set_ns = j->cnt ? j->set_ns : j->first_ns, lost = j->lost;
	uint64_t begin = j->now, until;

	paid__change(&j->paid, false, j->now);
	for (until = j->now + (uint64_t)(set_ns / 2); j->now < until;)
		one_step(j, PAID_BESIDE, slow);
	for (unsigned i = 0; i < j->c.steps + 1; i++)
		one_step(j, i ? PAID_TRACED : PAID_BESIDE, slow);
	for (until = j->now + (uint64_t)(set_ns / 2); j->now < until;)
		one_step(j, PAID_BESIDE, slow);
	paid__change(&j->paid, true, j->now);
	paid__level(&j->paid, j->sees_blocks);
	cadence__over(&j->c, &(struct cadence_window){ .begin_ns = begin, .end_ns = j->now });
	assert_true(j->cnt < WINDOWS);
	j->was[j->cnt++] = (struct budget_window){ begin, j->now, j->lost - lost };
}

static void watched_step(struct job *j, double slow)
{
	double step_ns = j->step_ns;

	j->lost += (slow - 1) * step_ns;
	j->step_ns = slow * step_ns;
	one_step(j, PAID_WATCHED, 1);
	j->step_ns = step_ns;
}

/* Without marks nobody sees it, and it costs nothing. */
static void unseen_step(struct job *j)
{
	paid__still(&j->paid, j->now);
	j->now += (uint64_t)j->step_ns;
}

/* Until the next window, or the end. */
static void rest(struct job *j, uint64_t end)
{
	struct cadence_window last = { .begin_ns = j->was[j->cnt - 1].begin_ns, .end_ns = j->was[j->cnt - 1].end_ns };

	while (j->now < end) {
		double lost_ns = paid__last(&j->paid) + (j->is_hushed ? paid__marks_beside(&j->paid, j->now) : 0);

		bool is_tail = (double)(j->now - last.end_ns) < j->tail_ns;

		if (j->is_hushed && j->paid.is_settled)
			unseen_step(j);
		else
			watched_step(j, is_tail ? j->tail : 1);
		j->c.budget.watch = j->sees_blocks ? j->paid.watch : 0;
		budget__price(&j->c.budget, lost_ns, lost_ns);
		if (paid__is_measured(&j->paid) && j->now >= cadence__next(&j->c, &last))
			break;
	}
}

static void run(struct job *j, double share, uint64_t took)
{
	j->c = (struct cadence){ .steps = 3, .every_ns = j->c.every_ns,
				 .budget = { .share = share, .random = 7, .start_ns = SEC } };
	j->now = SEC;
	for (int i = 0; i < 20; i++)
		one_step(j, PAID_WATCHED, 1);
	while (j->now < SEC + took) {
		window(j, j->later_slow > 0 && j->now > SEC + took / 2 ? j->later_slow : j->slow);
		rest(j, SEC + took);
	}
}

/* What was truly lost of any minute that ends with a window, as a share; the first ones that still pay for the attach aside. */
static double worst_minute(const struct job *j, size_t from)
{
	double worst = 0;

	for (size_t i = from; i < j->cnt; i++) {
		double sum = 0;

		for (size_t k = i + 1; k-- > from && j->was[k].end_ns + BUDGET_MINUTE_NS > j->was[i].end_ns;)
			sum += j->was[k].lost_ns;
		worst = fmax(worst, sum / (double)BUDGET_MINUTE_NS);
	}
	return worst;
}

static double share_lost(const struct job *j)
{
	return j->lost / (double)(j->now - SEC);
}

static double share_said(const struct job *j)
{
	return paid__all(&j->paid, j->now) / (double)(j->now - SEC);
}

static void short_steps_are_paid_for(void **state)
{
	struct job j = { .step_ns = 50 * US, .slow = 3, .set_ns = 200 * MS, .first_ns = SEC };

	(void)state;
	run(&j, 0.02, 300 * SEC);
	assert_true(j.cnt >= 10);
	assert_true(share_lost(&j) <= 0.02);
	assert_true(share_lost(&j) > 0.012); /* and what may be spent is */
	assert_true(worst_minute(&j, 1) <= 0.02);
	assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.0005);
}

static void usual_steps_are_paid_for(void **state)
{
	struct job j = { .step_ns = 17 * MS, .slow = 1.3, .set_ns = 200 * MS, .first_ns = SEC, .noise = 0.2 };

	(void)state;
	run(&j, 0.02, 1800 * SEC);
	assert_true(j.cnt >= 100);
	assert_true(share_lost(&j) <= 0.021);
	assert_true(share_lost(&j) > 0.012);
	assert_true(worst_minute(&j, 1) <= 0.023); /* the noise of single steps is part of what is measured */
	assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.003);
}

/* In windows as between them; where these are most of the time it shows. */
static void marks_are_paid_for_all_the_time(void **state)
{
	static const double shares[] = { 0.02, 0.5, 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		struct job j = { .step_ns = 500 * US, .slow = 3, .set_ns = 2 * SEC, .first_ns = 3 * SEC, .mark = 0.04 };

		run(&j, shares[i], 600 * SEC);
		assert_true(j.cnt >= 2);
		assert_true(share_lost(&j) > 0.038);
		assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.02 * share_lost(&j) + 0.001);
	}
}

/* --between blocks: they are marks that cost more, by what calibration is known to say of them. */
static void allocations_between_are_paid_for(void **state)
{
	static struct job j = { .step_ns = 100 * MS, .slow = 1.3, .set_ns = 300 * MS, .first_ns = 2 * SEC, .noise = 0.01,
				.mark = 0.008, .sees_blocks = true };

	(void)state;
	run(&j, 0.02, 1200 * SEC);
	assert_true(j.paid.watch > 0.0075 && j.paid.watch < 0.0085);
	assert_true(share_lost(&j) > 0.012 && share_lost(&j) < 0.021);
	assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.002);
	paid__level(&j.paid, false);
	assert_true(j.paid.watch == 0); /* of marks alone nothing is known yet */
}

/* What a window leaves behind is its price, and no measure of what a step takes without it. */
static void what_comes_after_is_paid_for(void **state)
{
	struct job j = { .step_ns = 2 * MS, .slow = 1.5, .set_ns = 100 * MS, .first_ns = SEC,
			 .tail_ns = 400 * MS, .tail = 1.3 };

	(void)state;
	run(&j, 0.02, 600 * SEC);
	assert_true(j.cnt >= 20);
	assert_true(share_lost(&j) <= 0.021);
	assert_true(share_lost(&j) > 0.012);
	assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.001);
}

/* Marks that take more than the budget: they are only set around windows, and paid for like these. */
static void dear_marks_are_paid_for(void **state)
{
	struct job j = { .step_ns = 400 * US, .slow = 2.5, .set_ns = 200 * MS, .first_ns = SEC,
			 .mark = 0.035, .is_hushed = true };

	(void)state;
	run(&j, 0.02, 600 * SEC);
	assert_true(j.cnt >= 20);
	assert_true(share_lost(&j) <= 0.021);
	assert_true(share_lost(&j) > 0.012);
	assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.002);
}

/* What the machine does long after a window says nothing of what that cost. */
static void a_price_stands(void **state)
{
	struct paid p = { 0 };
	uint64_t now = SEC;
	double lost;

	(void)state;
	paid__change(&p, false, now);
	for (int i = 0; i < 50; i++)
		paid__step(&p, PAID_WATCHED, 20 * MS, 0, now += 20 * MS);
	for (int i = 0; i < 10; i++)
		paid__step(&p, PAID_TRACED, 30 * MS, 0, now += 30 * MS);
	paid__change(&p, true, now);
	for (int i = 0; i < 80; i++)
		paid__step(&p, PAID_WATCHED, 20 * MS, 0, now += 20 * MS);
	lost = paid__last(&p);
	assert_true(fabs(lost - 100.0 * MS) < 1);
	for (int i = 0; i < 500; i++)
		paid__step(&p, PAID_WATCHED, 40 * MS, 0, now += 40 * MS);
	assert_true(paid__last(&p) == lost);
	assert_true(paid__step_ns(&p) == 40.0 * MS);
	paid__change(&p, false, now);
	assert_true(p.lost_ns == lost);
	for (int i = 0; i < 10; i++)
		paid__step(&p, PAID_TRACED, 50 * MS, 0, now += 50 * MS);
	assert_true(fabs(paid__last(&p) - 100.0 * MS) < 1);
}

/* 40 allocations and frees in 20 ms, each of 2 us by calibration: twice that is 160 us of 20.16 ms. */
static void what_blocks_would_take(void **state)
{
	struct paid p = { 0 };
	uint64_t now = SEC;

	(void)state;
	paid__change(&p, false, now);
	assert_true(paid__of_blocks(&p, 2000) == 0);
	for (int i = 0; i < 50; i++)
		paid__step(&p, PAID_WATCHED, 20 * MS, 0, now += 20 * MS);
	paid__step(&p, PAID_BESIDE, 30 * MS, 17, now += 30 * MS); /* half of them were seen */
	assert_true(paid__of_blocks(&p, 2000) == 0);
	for (int i = 0; i < 3; i++)
		paid__step(&p, PAID_TRACED, 30 * MS, 40, now += 30 * MS);
	paid__change(&p, true, now);
	assert_true(paid__of_blocks(&p, 2000) == 0); /* what the job uses of a CPU is not known yet */
	paid__read(&p, &(struct paid_read){ .ts_ns = now + SEC, .cpu_ns = SEC });
	assert_true(paid__of_blocks(&p, 2000) == 0);
	paid__read(&p, &(struct paid_read){ .ts_ns = now + 2 * SEC, .cpu_ns = 2 * SEC });
	assert_true(fabs(paid__of_blocks(&p, 2000) - 0.12 / 20.12) < 1e-9);
	paid__read(&p, &(struct paid_read){ .ts_ns = now + 3 * SEC, .cpu_ns = 2 * SEC }); /* half of the time it waits */
	assert_true(fabs(paid__of_blocks(&p, 2000) - 0.12 / 10.12) < 1e-9);
	paid__change(&p, false, now);
	assert_true(paid__of_blocks(&p, 2000) == 0); /* of the window before */
}

static void read_counters(struct paid *p, uint64_t probe_ns, uint64_t cpu_ns, uint64_t ts_ns)
{
	paid__read(p, &(struct paid_read){ .ts_ns = ts_ns, .probe_ns = probe_ns, .cpu_ns = cpu_ns });
}

/* Readings are a second apart, so that allocations behind a window come with it. */
static void blocks_between_are_no_part_of_a_window(void **state)
{
	double share = PAID_BLOCKS * 0.1 / (0.9 + PAID_BLOCKS * 0.1);
	struct paid p = { 0 };
	uint64_t now = SEC, probe_ns = 0;

	(void)state;
	paid__level(&p, true);
	for (int i = 0; i < 3; i++) {
		paid__change(&p, false, now);
		read_counters(&p, probe_ns += 300 * MS, now + SEC, now + SEC); /* 200 of them are operators' */
		paid__change(&p, true, now += SEC + 100 * MS);
		read_counters(&p, probe_ns += 100 * MS, now + 900 * MS, now + 900 * MS);
		read_counters(&p, probe_ns += 100 * MS, now + 1900 * MS, now + 1900 * MS);
		now += 1900 * MS;
		assert_true(fabs(p.watch - share) < 1e-9);
		assert_true(fabs(paid__probes(&p) - 200.0 * MS) < 1 * MS);
	}
	paid__level(&p, false);
	assert_true(paid__probes(&p) == 400.0 * MS);
}

static void what_becomes_dear_comes_less_often(void **state)
{
	struct job j = { .step_ns = 17 * MS, .slow = 1.2, .later_slow = 4, .set_ns = 200 * MS, .first_ns = SEC };
	size_t before = 0;

	(void)state;
	run(&j, 0.02, 3600 * SEC);
	while (before < j.cnt && j.was[before].begin_ns < 1800 * SEC)
		before++;
	assert_true(share_lost(&j) <= 0.02);
	assert_true(j.cnt - before < before / 4);
	assert_true(j.cnt > before);
	/* One window is not known to be dear before it was: no minute holds more than one such beyond its budget. */
	assert_true(worst_minute(&j, 1) <= 0.02 + j.was[j.cnt - 1].lost_ns / (double)BUDGET_MINUTE_NS);
}

static void rare_long_steps_are_not_its_price(void **state)
{
	struct job j = { .step_ns = 17 * MS, .slow = 1.3, .set_ns = 200 * MS, .first_ns = SEC, .long_every = 200,
			 .long_ns = 10.0 * (double)SEC };

	(void)state;
	run(&j, 0.02, 7200 * SEC); /* with checkpoints: three quarters of the time */
	assert_true(share_lost(&j) <= 0.02);
	assert_true(j.cnt >= 20);
	assert_true(fabs(share_said(&j) - share_lost(&j)) < 0.003);
}

static void all_of_the_time_may_be_lost(void **state)
{
	struct job j = { .step_ns = 17 * MS, .slow = 1.3, .set_ns = 200 * MS, .first_ns = SEC };

	(void)state;
	run(&j, 1, 100 * SEC);
	assert_true(j.cnt > 30); /* only steps that are watched lie between */
	for (size_t i = 1; i < j.cnt; i++)
		assert_true(j.was[i].begin_ns >= j.was[i - 1].end_ns + BUDGET_REST_NS);
}

static void a_window_can_be_too_dear(void **state)
{
	struct job j = { .step_ns = 17 * MS, .slow = 3, .set_ns = 200 * MS, .first_ns = SEC };

	(void)state;
	run(&j, 0.0001, 8 * 3600 * SEC);
	assert_int_equal(j.cnt, 1);
	assert_true(cadence__may(&j.c, &(struct cadence_window){ .begin_ns = SEC, .end_ns = 3 * SEC }) == UINT64_MAX);
	j = (struct job){ .step_ns = 17 * MS, .slow = 1.1, .set_ns = 20 * MS, .first_ns = 300 * MS };
	run(&j, 0.0001, 8 * 3600 * SEC); /* a cheap one is paid for by some minutes */
	assert_true(j.cnt > 5);
	assert_true(share_lost(&j) <= 0.0001);
}

static void steps_of_an_hour(void **state)
{
	struct job j = { .step_ns = 3600.0 * (double)SEC, .slow = 1.2, .set_ns = 200 * MS, .first_ns = SEC };

	(void)state;
	run(&j, 0.02, 1000 * 3600 * SEC);
	assert_int_equal(j.cnt, 1); /* live/levels.c has slices of time for these */
}

static void every_is_the_least(void **state)
{
	struct job j = { .step_ns = 17 * MS, .slow = 1.1, .set_ns = 20 * MS, .first_ns = 100 * MS, .c.every_ns = 60 * SEC };

	(void)state;
	run(&j, 0.02, 1800 * SEC);
	assert_true(j.cnt >= 25);
	for (size_t i = 1; i < j.cnt; i++)
		assert_true(j.was[i].begin_ns - j.was[i - 1].begin_ns >= 60 * SEC);
}

/* Something that a job does every 50 steps is in as many windows as chance has it. */
static void distances_are_no_grid(void **state)
{
	static struct job j, k;
	double re = 0, im = 0;

	(void)state;
	j = k = (struct job){ .step_ns = 17 * MS, .slow = 1.3, .set_ns = 200 * MS, .first_ns = 300 * MS };
	run(&j, 0.02, 7200 * SEC);
	run(&k, 0.02, 7200 * SEC);
	assert_int_equal(j.cnt, k.cnt); /* the same seed, the same windows */
	assert_memory_equal(j.was, k.was, sizeof(j.was[0]) * j.cnt);
	for (size_t i = 1; i < j.cnt; i++) {
		double turn = 2 * 3.14159265358979 * (double)(j.was[i].begin_ns % (50 * 17 * MS)) / (50 * 17.0 * MS);

		re += cos(turn);
		im += sin(turn);
	}
	assert_true(j.cnt > 300);
	assert_true(hypot(re, im) < 4 * sqrt((double)j.cnt)); /* on a grid it would be their number */
}

/* Without steps there is only what calibration says of the probes, as a share of the job's CPU time. */
static void counters_tell_where_nobody_steps(void **state)
{
	struct paid p = { 0 };
	double all, share = PAID_CALIBRATED * 0.2 / (0.8 + PAID_CALIBRATED * 0.2);
	double watch = PAID_MARKS * 0.01 / (0.99 + PAID_MARKS * 0.01);

	(void)state;
	paid__change(&p, false, SEC);
	read_counters(&p, 100 * MS, 500 * MS, 2 * SEC); /* it gets half of a CPU */
	read_counters(&p, 300 * MS, SEC, 3 * SEC);
	paid__change(&p, true, 4 * SEC);
	read_counters(&p, 400 * MS, 2 * SEC, 5 * SEC);
	assert_true(fabs(paid__last(&p) - share * 4.0 * SEC) < 1);
	assert_false(paid__is_measured(&p));
	read_counters(&p, 405 * MS, 2500 * MS, 6 * SEC); /* marks alone */
	assert_true(paid__probes(&p) == 400.0 * MS); /* marks of the rest are no part of it */
	assert_true(fabs(p.watch - watch) < 1e-9);
	all = share * 4 * SEC + watch * (103 - share * 4) * SEC; /* of what was the job's own time, in the window, too */
	assert_true(fabs(paid__all(&p, 104 * SEC) - all) < 1 * MS);
	paid__change(&p, false, 104 * SEC);
	assert_true(fabs(paid__all(&p, 104 * SEC) - all) < 1 * MS);
	read_counters(&p, 0, 0, 105 * SEC); /* another recording's */
	assert_true(paid__last(&p) == 0);
	read_counters(&p, UINT64_MAX, UINT64_MAX, 106 * SEC);
	assert_true(isfinite(paid__all(&p, 107 * SEC)));
}

/* Steps that seem to have become faster while they were traced: of all windows together that is not said. */
static void probes_cost_what_calibration_says_at_least(void **state)
{
	uint64_t now = SEC, probe_ns = 0, cpu_ns = 0;
	struct paid p = { 0 };

	(void)state;
	read_counters(&p, 0, 0, SEC);
	for (int i = 0; i < 3; i++) {
		paid__change(&p, false, now);
		for (int k = 0; k < 100; k++)
			paid__step(&p, PAID_TRACED, 10 * MS, 0, now += 10 * MS);
		paid__change(&p, true, now);
		read_counters(&p, probe_ns += 200 * MS, cpu_ns += SEC, now + 1);
		for (int k = 0; k < 100; k++)
			paid__step(&p, PAID_WATCHED, 20 * MS, 0, now += 20 * MS);
		read_counters(&p, probe_ns, cpu_ns += 2 * SEC, now);
	}
	assert_true(paid__last(&p) < 0);
	assert_true(paid__all(&p, now) > 0.45 * (double)SEC && paid__all(&p, now) < 0.65 * (double)SEC);
}

/* Steps that the job itself tells of when no mark is set are neither the window's, which is over, nor watched. */
static void a_still_job_may_tell_of_steps(void **state)
{
	struct paid p = { 0 };
	uint64_t now = SEC, steps;
	double lost, all;

	(void)state;
	paid__change(&p, false, now);
	for (int i = 0; i < 50; i++)
		paid__step(&p, PAID_WATCHED, 20 * MS, 0, now += 20 * MS);
	for (int i = 0; i < 10; i++)
		paid__step(&p, PAID_TRACED, 30 * MS, 0, now += 30 * MS);
	paid__change(&p, true, now);
	for (int i = 0; i < 80; i++)
		paid__step(&p, PAID_WATCHED, 20 * MS, 0, now += 20 * MS);
	paid__still(&p, now);
	lost = paid__last(&p);
	all = paid__all(&p, now);
	steps = p.steps;
	for (int i = 0; i < 500; i++)
		paid__step(&p, PAID_BESIDE, 25 * MS, 0, now += 25 * MS);
	assert_int_equal(p.steps, steps);
	assert_true(paid__last(&p) == lost && paid__all(&p, now) == all);
	paid__change(&p, false, now);
	paid__step(&p, PAID_TRACED, 30 * MS, 0, now += 30 * MS);
	assert_int_equal(p.steps, 1);
}

/* What stays set when marks have gone is measured on its own, and paid for as long as it is all there is. */
static void what_is_left_is_paid_for(void **state)
{
	struct paid p = { 0 };
	double left = PAID_MARKS * 0.005 / (0.995 + PAID_MARKS * 0.005);
	double watch = PAID_MARKS * 0.02 / (0.98 + PAID_MARKS * 0.02), all;

	(void)state;
	paid__change(&p, false, SEC);
	read_counters(&p, 100 * MS, SEC, 2 * SEC);
	paid__change(&p, true, 3 * SEC);
	read_counters(&p, 200 * MS, 2 * SEC, 4 * SEC);
	read_counters(&p, 220 * MS, 3 * SEC, 5 * SEC);
	assert_true(fabs(p.watch - watch) < 1e-9);
	paid__still(&p, 6 * SEC);
	all = paid__all(&p, 6 * SEC);
	read_counters(&p, 240 * MS, 4 * SEC, 6 * SEC); /* of before */
	read_counters(&p, 250 * MS, 5 * SEC, 7 * SEC);
	assert_true(p.left == 0);
	assert_true(fabs(paid__marks_beside(&p, 7 * SEC) - watch * 5 * SEC) < 1);
	read_counters(&p, 260 * MS, 7 * SEC, 9 * SEC);
	assert_true(fabs(p.left - left) < 1e-9 && fabs(p.watch - watch) < 1e-9);
	assert_true(fabs(paid__all(&p, 106 * SEC) - all - left * 100 * SEC) < MS);
	assert_true(fabs(paid__marks_beside(&p, 106 * SEC) - (watch - left) * 5 * SEC) < 1);
	paid__change(&p, false, 106 * SEC);
	assert_true(fabs(paid__all(&p, 106 * SEC) - all - left * 100 * SEC) < MS);
}

/* What marks cost all the time is taken from what windows may. */
static void marks_are_part_of_the_price(void **state)
{
	struct budget b = { .share = 0.02, .start_ns = SEC };

	(void)state;
	budget__window(&b, SEC, 2 * SEC);
	budget__price(&b, 200 * MS, 100 * MS);
	assert_int_equal(budget__may(&b), SEC + 300 * MS * 50);
	b.watch = 0.01;
	assert_true(llabs((long long)(budget__may(&b) - (SEC + 300 * MS * 100))) < 1000);
	b.watch = 0.021;
	assert_true(budget__may(&b) == UINT64_MAX);
	assert_true(budget__next(&b) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_steps_are_paid_for),
		cmocka_unit_test(usual_steps_are_paid_for),
		cmocka_unit_test(marks_are_paid_for_all_the_time),
		cmocka_unit_test(allocations_between_are_paid_for),
		cmocka_unit_test(what_comes_after_is_paid_for),
		cmocka_unit_test(dear_marks_are_paid_for),
		cmocka_unit_test(a_price_stands),
		cmocka_unit_test(probes_cost_what_calibration_says_at_least),
		cmocka_unit_test(what_blocks_would_take),
		cmocka_unit_test(blocks_between_are_no_part_of_a_window),
		cmocka_unit_test(what_becomes_dear_comes_less_often),
		cmocka_unit_test(rare_long_steps_are_not_its_price),
		cmocka_unit_test(all_of_the_time_may_be_lost),
		cmocka_unit_test(a_window_can_be_too_dear),
		cmocka_unit_test(steps_of_an_hour),
		cmocka_unit_test(every_is_the_least),
		cmocka_unit_test(distances_are_no_grid),
		cmocka_unit_test(counters_tell_where_nobody_steps),
		cmocka_unit_test(a_still_job_may_tell_of_steps),
		cmocka_unit_test(what_is_left_is_paid_for),
		cmocka_unit_test(marks_are_part_of_the_price),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
