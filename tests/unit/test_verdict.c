/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Verdicts on reports with one planted problem each: the right one first, and none where nothing is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "event/event.h"
#include "timeline/ranks.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"
#include "view_fix.h"

#define S 1000000000ull
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define STEPS 100

/* A job in which nothing is wrong: a GPU, 100 steps as high as each other, no part of the peak above the others. */
static struct {
	struct report r;
	struct report_dev devs[2];
	struct report_proc procs[9];
	struct report_proc_dev on[9][2];
	struct step_marks steps[STEPS];
	struct report_module modules[8];
	struct report_leak leaks[3];
	struct report_saved_proc saved[2];
	char texts[9][2][32];
	char *labels[9][2];
} f;

static void set_step(size_t i, uint64_t peak)
{
	f.steps[i] = (struct step_marks){ .number = i + 1, .pid = 10, .begin_ts_ns = FIX_T0 + i * 1000,
					  .at = { [MARK_STEP] = { FIX_T0 + i * 1000 + 999, GIB, peak } } };
}

static int sound(void **state)
{
	(void)state;
	memset(&f, 0, sizeof(f));
	f.devs[0] = (struct report_dev){
		.dev = MT_DEV_CUDA0, .live = 2 * GIB, .peak = 10 * GIB, .peak_ts_ns = FIX_T0 + 5 * 1000 + 500, .allocs = 1000,
		.cats = { [CAT_PARAMETER] = { GIB, 2 * GIB, 0 }, [CAT_ACTIVATION] = { 0, 5 * GIB, 0 },
			  [CAT_OPTIMIZER_STATE] = { GIB, 2 * GIB, 0 }, [CAT_TEMPORARY] = { 0, GIB, 0 } },
		.segs = { .totals = 1, .allocated_peak = 10 * GIB, .reserved_peak = 11 * GIB, .reserved = 11 * GIB,
			  .nvml_total = 80 * GIB } };
	f.devs[1] = (struct report_dev){ .dev = MT_DEV_CPU, .live = MIB, .peak = 2 * MIB, .peak_ts_ns = FIX_T0 + 1,
					 .allocs = 10 };
	for (size_t i = 0; i < STEPS; i++)
		set_step(i, 10 * GIB);
	f.procs[0] = (struct report_proc){ .pid = 10, .comm = (char *)"python", .cmdline = (char *)"python train.py",
					   .peak = 10 * GIB, .peak_ts_ns = FIX_T0 + 5 * 1000 + 500, .highest_step = f.steps[5],
					   .marks_cnt = { [MARK_STEP] = STEPS } };
	f.r = (struct report){ .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + STEPS * 1000, .pid = 10, .ended = 1 },
			       .devs = f.devs, .devs_cnt = 2, .procs = f.procs, .procs_cnt = 1,
			       .marks = { .steps = f.steps, .steps_cnt = STEPS },
			       .modules.rows = f.modules, .leaks = { .per_step = 1, .ticks = STEPS, .ticks_least = 10 },
			       .cost.target_cpu_ns = 1000, .cost.share = 0.031,
			       .modules.phases = { [PHASE_FORWARD] = { .peak = 9 * GIB },
						   [PHASE_BACKWARD] = { .peak = 10 * GIB } } };
	return 0;
}

/* A command is the end of what is next, and nothing else of it is one. */
static void assert_command(const struct verdict_line *l)
{
	const char *command = verdict_command(l), *said = strstr(l->next, "memtrace ");

	if (said != (command[0] ? command : NULL)) {
		print_message("next: %s\ncommand: %s\n", l->next, command);
		fail();
	}
}

static struct verdict judged(void)
{
	struct verdict v;

	verdict__of(&v, &f.r, "job.mtr");
	for (size_t i = 0; i < v.cnt; i++) {
		assert_true(v.lines[i].text[0] && strlen(v.lines[i].text) < VERDICT_BYTES);
		assert_true(!i || v.lines[i].severity >= v.lines[i - 1].severity);
		assert_command(&v.lines[i]);
	}
	return v;
}

/* The first line is of this kind, says this, and its next step says that. */
static void first_is(enum verdict_kind kind, enum verdict_severity severity, uint64_t bytes, const char *text, const char *next)
{
	struct verdict v = judged();

	if (v.lines[0].kind != kind || !strstr(v.lines[0].text, text) || !strstr(v.lines[0].next, next)) {
		print_message("%s: %s\n  next: %s\n", verdict_kind_name(v.lines[0].kind), v.lines[0].text, v.lines[0].next);
		fail();
	}
	assert_int_equal(v.lines[0].severity, severity);
	assert_true(v.lines[0].bytes == bytes);
}

static const struct verdict_line *line_of(const struct verdict *v, enum verdict_kind kind)
{
	for (size_t i = 0; i < v->cnt; i++)
		if (v->lines[i].kind == kind)
			return &v->lines[i];
	return NULL;
}

/* --- nothing is wrong ------------------------------------------------------------------------------------- */

static void nothing_wrong_is_no_problem(void **state)
{
	struct verdict v = judged();

	(void)state;
	assert_int_equal(v.cnt, 3);
	for (size_t i = 0; i < v.cnt; i++)
		assert_int_equal(v.lines[i].severity, VERDICT_FACT);
	assert_int_equal(v.lines[0].kind, VERDICT_PEAK);
	assert_string_equal(v.lines[0].text, "Peak 10.0 GiB on cuda:0 after 5.50 \xc2\xb5s, in backward, in each of 100 steps: "
			    "50 % activations, 20 % parameters, 20 % optimizer state");
	assert_string_equal(v.lines[1].text, "No tensors grow, in 100 steps.");
	assert_non_null(strstr(v.lines[2].text, "Complete: nothing was lost in 100 \xc2\xb5s; "
			       "tracing cost 3.1 % of the job's CPU time."));
}

/* Between windows what lives on is not seen, so that nothing grew in them is no fact. With blocks seen in gaps it is. */
static void growth_in_gaps_is_not_said(void **state)
{
	const struct verdict_line *l;
	struct report_gap gaps[4];
	struct verdict v;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		gaps[i] = (struct report_gap){ .begin_ns = 20 * i, .end_ns = 20 * i + 10, .seen_ns = 20 * i };
	f.r.sampling = (struct report_sampling){ .is_on = 1, .gaps = gaps, .gaps_cnt = 4, .steps_seen = STEPS,
						 .steps_traced = 6, .windows = REPORT_GROWTH_WINDOWS };
	gaps[2].seen_ns = gaps[2].end_ns;
	v = judged();
	l = line_of(&v, VERDICT_GROWTH);
	assert_non_null(strstr(l->text, "6 of 100 steps were traced"));
	assert_non_null(strstr(l->next, "memtrace record -p"));
	f.r.sampling.in_gap = 1; /* the last one has just begun */
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_GROWTH)->text, "Too short to say whether anything grows: what lives on was "
								  "seen in 1 of the 3 gaps"));
	gaps[1].seen_ns = gaps[1].end_ns;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_GROWTH)->text, "in 2 of the 3 gaps"));
	gaps[3].seen_ns = gaps[3].end_ns;
	f.r.sampling.in_gap = 0;
	v = judged();
	assert_string_equal(line_of(&v, VERDICT_GROWTH)->text, "No tensors grow, in 6 traced steps.");
}

/* RSS as of two windows, and between them: a moment that came and went is told, what stays or grows on is another matter. */
static void a_moment_between_windows_is_reported(void **state)
{
	struct report_gap gap = { FIX_T0 + 100, FIX_T0 + 900, 800 };
	struct point rss[10];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 10; i++)
		rss[i] = (struct point){ FIX_T0 + i * 100, 500 * MIB, 500 * MIB };
	f.r.kernel.rss = (struct series){ rss, 10, 100 };
	f.r.sampling = (struct report_sampling){ .is_on = 1, .gaps = &gap, .gaps_cnt = 1, .steps_seen = STEPS,
						 .steps_traced = 6 };
	v = judged();
	assert_null(line_of(&v, VERDICT_SPIKE));
	rss[5].live_max += 128 * MIB;
	v = judged();
	assert_non_null(line_of(&v, VERDICT_SPIKE));
	assert_true(line_of(&v, VERDICT_SPIKE)->bytes == 128 * MIB);
	assert_non_null(strstr(line_of(&v, VERDICT_SPIKE)->text, "RSS was 128 MiB higher for a moment after 500 ns"));
	rss[0].live_max += 128 * MIB; /* in a window, too */
	v = judged();
	assert_null(line_of(&v, VERDICT_SPIKE));
	rss[0].live_max -= 120 * MIB;
	assert_true(facts_of_unseen(&f.r).more == 120 * MIB);
	rss[9].live_end = rss[5].live_max; /* and so it stayed */
	assert_int_equal(facts_of_unseen(&f.r).more, 0);
	rss[9].live_end = 500 * MIB;
	gap.lost_ns = 700; /* of that some was traced */
	assert_int_equal(facts_of_unseen(&f.r).more, 0);
	gap.lost_ns = 800;
	f.r.sampling.is_on = 0;
	assert_int_equal(facts_of_unseen(&f.r).more, 0);
}

/* Memory that no tensor has, and that grows on: said where no place of tensors grows, and in place of "no tensors grow". */
static void memory_beside_tensors_that_grows(void **state)
{
	struct point rss[100], live[100];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 100; i++) { /* first read after a while; 4 MiB a second */
		rss[i] = (struct point){ FIX_T0 + i * S, (1000 + 4 * i) * MIB, i < 4 ? 0 : (1000 + 4 * i) * MIB };
		live[i] = (struct point){ FIX_T0 + i * S, (1 + 4 * i) * MIB, (1 + 4 * i) * MIB };
	}
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 100, S };
	v = judged();
	assert_non_null(line_of(&v, VERDICT_RSS));
	assert_null(line_of(&v, VERDICT_GROWTH));
	assert_int_equal(line_of(&v, VERDICT_RSS)->severity, VERDICT_HINT);
	assert_non_null(strstr(line_of(&v, VERDICT_RSS)->text, "(RSS, without files) grows by"));
	assert_in_range(line_of(&v, VERDICT_RSS)->bytes, 3.9 * MIB, 4.1 * MIB);
	assert_non_null(strstr(line_of(&v, VERDICT_RSS)->next, "memtrace record -p 10 --probes"));
	f.devs[1].dev = MT_DEV_CPU;
	f.devs[1].peak = GIB;
	f.devs[1].series = (struct series){ live, 100, S }; /* tensors have all of it */
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	live[99].live_end = 0; /* they were freed just before the report: what RSS keeps was theirs */
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	f.devs[1].series.cnt = 0;
	for (size_t i = 0; i < STEPS; i++) /* all of it before the first step was over */
		f.steps[i].at[MARK_STEP].ts_ns = FIX_T0 + 98 * S + i;
	f.r.marks.steps_total = STEPS;
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	f.r.marks.steps_total = STEPS + 1; /* it is within one */
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	f.r.marks.steps_total = STEPS + 2; /* the first ones are not known any more */
	assert_true(facts_of_growing(&f.r).grown > 0);
	for (size_t i = 60; i < 100; i++) /* a cache that has filled */
		rss[i].live_end = rss[60].live_end;
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	for (size_t i = 0; i < 100; i++) /* 40 MiB in all */
		rss[i].live_end = (1000 + 4 * i / 10) * MIB;
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
}

/* What a job gives back as it exits is no fall of what grew; another one is to be recorded then. */
static void what_grew_until_the_job_ended(void **state)
{
	struct point rss[100];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 100; i++) {
		uint64_t has = i < 90 ? (1000 + 20 * i) * MIB : 200 * MIB;

		rss[i] = (struct point){ FIX_T0 + i * S, has, has };
	}
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 100, S };
	f.procs[0].marks[MARK_STEP].ts_ns = FIX_T0 + 89 * S;
	assert_int_equal(facts_of_growing(&f.r).grown, 0); /* it goes on: it has given it back */
	f.procs[0].gone = 1;
	f.procs[0].exit_ts_ns = FIX_T0 + 99 * S;
	v = judged();
	assert_non_null(line_of(&v, VERDICT_RSS));
	assert_non_null(strstr(line_of(&v, VERDICT_RSS)->text, "grows by 20.0 MiB a second, to 2.70 GiB by its end"));
	assert_non_null(strstr(line_of(&v, VERDICT_RSS)->next, "memtrace record --probes framework,flow,regions,kernel,host "
			       "--stacks=python -o host.mtr -- COMMAND"));
	assert_null(line_of(&v, VERDICT_GROWTH));
}

/* Of several processes: what came meanwhile, and what still loads, is not what grows. */
static void what_others_bring_is_no_growth(void **state)
{
	struct report_proc *other = &f.procs[1];
	struct point rss[40];

	(void)state;
	for (size_t i = 0; i < 40; i++)
		rss[i] = (struct point){ FIX_T0 + i * S, (1000 + 100 * i) * MIB, (1000 + 100 * i) * MIB };
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 40, S };
	f.r.marks.steps_cnt = 0;
	f.r.run.end_ts_ns = FIX_T0 + 40 * S;
	f.r.procs_cnt = 2;
	f.procs[0].rss_peak = GIB;
	f.procs[0].marks_cnt[MARK_STEP] = 1;
	*other = (struct report_proc){ .pid = 77, .rss_peak = 4 * GIB };
	assert_true(facts_of_growing(&f.r).grown > 0);
	other->own = (struct report_own){ .first_ns = FIX_T0 + 20 * S, .own_first = GIB, .own_last = 4 * GIB };
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	other->own.own_last = 2 * GIB; /* not all of it */
	assert_in_range(facts_of_growing(&f.r).grown, 0.8 * GIB, GIB);
	other->own = (struct report_own){ .first_ns = FIX_T0, .own_first = GIB, .own_last = 4 * GIB };
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	other->marks_cnt[MARK_STEP] = 1;
	assert_true(facts_of_growing(&f.r).grown > 0);
}

/* What runs and has made no step yet may load, for a minute; what is over, or is no job of steps, is judged by what it did. */
static void what_loads_is_no_growth(void **state)
{
	struct report_window first = { .begin_ns = FIX_T0 + 18 * S, .steps = 1 };
	struct point rss[100];

	(void)state;
	for (size_t i = 0; i < 100; i++)
		rss[i] = (struct point){ FIX_T0 + i * S, (1000 + 100 * i) * MIB, (1000 + 100 * i) * MIB };
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 20, S };
	f.r.marks.steps_cnt = 0;
	f.r.run.ended = 0;
	f.r.run.end_ts_ns = FIX_T0 + 20 * S;
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	f.r.run.ended = 1;
	assert_true(facts_of_growing(&f.r).grown > 0);
	f.r.run.ended = 0;
	f.procs[0].gone = 1;
	assert_true(facts_of_growing(&f.r).grown > 0);
	f.procs[0].gone = 0;
	f.r.sampling = (struct report_sampling){ .is_on = 1, .steps_seen = 3 }; /* none of them traced */
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	f.r.sampling.steps_traced = f.r.sampling.windows = f.r.sampling.traced_cnt = 1;
	f.r.sampling.traced = &first;
	assert_int_equal(facts_of_growing(&f.r).grown, 0); /* two seconds of steps */
	first.begin_ns = FIX_T0 + 2 * S;
	assert_true(facts_of_growing(&f.r).grown > 0);
	f.r.sampling = (struct report_sampling){ .is_on = 0 };
	f.r.kernel.kinds[MT_RSS_ANON].cnt = 100;
	f.r.run.end_ts_ns = FIX_T0 + 100 * S;
	assert_true(facts_of_growing(&f.r).grown > 0); /* a service that grows */
	for (size_t i = 50; i < 100; i++) /* … and one that has loaded */
		rss[i].live_end = rss[49].live_end;
	for (size_t s = 61; s <= 100; s++) {
		f.r.kernel.kinds[MT_RSS_ANON].cnt = s;
		f.r.run.end_ts_ns = FIX_T0 + s * S;
		assert_int_equal(facts_of_growing(&f.r).grown, 0);
	}
}

/* Arrays of NumPy beside a small model: how much is in no tensor, and what says whose it is. */
static void memory_beside_tensors(void **state)
{
	struct report_stack stack = { .at_peak = MIB };
	struct report_dev *cpu = &f.devs[1];
	struct point rss[20], live[20], blocks[20];

	(void)state;
	for (size_t i = 0; i < 20; i++) {
		rss[i] = (struct point){ FIX_T0 + i * S, 4200 * MIB, 4200 * MIB };
		live[i] = (struct point){ FIX_T0 + i * S, 50 * MIB, 50 * MIB };
		blocks[i] = (struct point){ FIX_T0 + i * S, 4100 * MIB, 4100 * MIB };
	}
	f.r.marks.steps_cnt = 0;
	f.r.run.end_ts_ns = FIX_T0 + 20 * S;
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 20, S };
	f.devs[0] = *cpu;
	f.r.devs_cnt = 1;
	cpu = &f.devs[0];
	cpu->peak = f.procs[0].peak = 50 * MIB;
	cpu->series = (struct series){ live, 20, S };
	f.procs[0].how = EV_PROC_LAUNCHED;
	f.procs[0].rss_peak = 5 * GIB;
	first_is(VERDICT_RSS, VERDICT_HINT, 4150 * MIB, "4.05 GiB of the 4.10 GiB of memory that the job holds (RSS, without "
		 "files) are in no tensor (tensors have 50.0 MiB at most): arrays of NumPy",
		 "memtrace record --probes kernel,host --stacks=python -o host.mtr -- COMMAND");
	f.procs[0].how = EV_PROC_ATTACHED;
	first_is(VERDICT_RSS, VERDICT_HINT, 4150 * MIB, "in no tensor that was seen since the attach (tensors", "");
	f.r.marks.steps_cnt = STEPS;
	for (size_t i = 0; i < STEPS; i++)
		f.steps[i].at[MARK_STEP].ts_ns = FIX_T0 + 4 * S + i;
	for (size_t i = 5; i < 20; i++) /* it ends, and takes its time */
		rss[i].live_end = 200 * MIB;
	first_is(VERDICT_RSS, VERDICT_HINT, 4150 * MIB, "in no tensor that was seen", "");
	f.r.marks.steps_cnt = 0;
	for (size_t i = 5; i < 20; i++)
		rss[i].live_end = 4200 * MIB;
	for (size_t i = 10; i < 16; i++) /* most of the time, and less than that is what libraries have */
		rss[i].live_end = 500 * MIB;
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	for (size_t i = 10; i < 15; i++)
		rss[i].live_end = 4200 * MIB;
	for (size_t i = 0; i < 20; i++)
		live[i].live_max = live[i].live_end = 2200 * MIB; /* half of it: tensors are worth the first word */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	for (size_t i = 0; i < 20; i++)
		live[i].live_max = live[i].live_end = 50 * MIB;
	f.procs[1].rss_peak = 5 * GIB; /* of two processes not the sum: each has its Python */
	f.r.procs_cnt = 2;
	f.procs[1].pid = 11;
	f.procs[0].use[MT_USE_ANON] = f.procs[1].use[MT_USE_ANON] = 500 * MIB;
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	f.procs[1].use[MT_USE_ANON] = 2050 * MIB;
	first_is(VERDICT_RSS, VERDICT_HINT, 2050 * MIB, "2.00 GiB of the 2.00 GiB of memory that process 11 "
		 "holds", "kernel,host");
	f.r.procs_cnt = 1;
	f.devs[1] = (struct report_dev){ .dev = MT_DEV_HOST, .peak = 4100 * MIB, .series = { blocks, 20, S } };
	f.r.devs_cnt = 2;
	first_is(VERDICT_RSS, VERDICT_HINT, 4150 * MIB, ": 3.96 GiB of it in blocks of malloc",
		 "what made most of them: memtrace report job.mtr --at peak --device host --by op");
	f.r.stacks.rows = &stack;
	f.r.stacks.cnt = 1;
	first_is(VERDICT_RSS, VERDICT_HINT, 4150 * MIB, "malloc", "--device host --by stack");
	for (size_t i = 0; i < 20; i++)
		blocks[i].live_max = blocks[i].live_end = 150 * MIB;
	first_is(VERDICT_RSS, VERDICT_HINT, 4150 * MIB, ": no more than 100 MiB of it in blocks of malloc", "PYTHONMALLOC");
	f.r.devs_cnt = 1;
	f.devs[0].peak = 0; /* no tensor at all: "nothing was seen" says it */
	assert_int_equal(judged().lines[0].kind, VERDICT_NOTHING);
}

/* CUDA's own is no news, and behind a peak that is higher it is a fact. */
static void memory_beside_a_gpu(void **state)
{
	struct point rss[20];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 20; i++)
		rss[i] = (struct point){ FIX_T0 + i * S, 2000 * MIB, 2000 * MIB };
	f.r.marks.steps_cnt = 0;
	f.procs[0].rss_peak = 12 * GIB;
	f.r.run.end_ts_ns = FIX_T0 + 20 * S;
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 20, S };
	v = judged();
	assert_null(line_of(&v, VERDICT_RSS));
	for (size_t i = 0; i < 20; i++)
		rss[i].live_max = rss[i].live_end = 9 * GIB;
	v = judged();
	assert_int_equal(v.lines[0].kind, VERDICT_PEAK);
	assert_int_equal(v.lines[1].kind, VERDICT_RSS);
	assert_int_equal(v.lines[1].severity, VERDICT_FACT);
	for (size_t i = 0; i < 20; i++)
		rss[i].live_max = rss[i].live_end = 12 * GIB;
	first_is(VERDICT_RSS, VERDICT_HINT, 12 * GIB, "12.0 GiB of the 12.0 GiB", "--probes kernel,host");
	f.r.sampling = (struct report_sampling){ .is_on = 1, .steps_seen = 5 }; /* tensors are not known yet */
	v = judged();
	assert_null(line_of(&v, VERDICT_RSS));
}

/* It matters by what all steps made of it, and says what it was counted in. */
static void a_leak_of_some_steps(void **state)
{
	struct verdict v;

	(void)state;
	f.leaks[0] = (struct report_leak){ .op = (char *)"aten::tanh", .region = (char *)"", .dev = MT_DEV_CUDA0, .per_step = 1,
					   .sure = SURE_HIGH, .bytes_slope = 2 * MIB, .blocks_slope = 1, .live = 40 * MIB,
					   .blocks = 20, .grown = 40 * MIB, .grown_blocks = 20, .windows = 5 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = f.r.leaks.total = 1;
	f.r.sampling = (struct report_sampling){ .is_on = 1, .steps_seen = 20, .steps_traced = 15 };
	v = judged();
	assert_int_equal(line_of(&v, VERDICT_LEAK)->severity, VERDICT_HINT); /* 40 MiB of 10 GiB */
	f.r.sampling.steps_seen = 100000;
	v = judged();
	assert_int_equal(line_of(&v, VERDICT_LEAK)->severity, VERDICT_PROBLEM);
	assert_non_null(strstr(line_of(&v, VERDICT_LEAK)->text, "by 2.00 MiB a step, 40.0 MiB by now in 20 blocks of the steps "
								"traced in 5 windows"));
}

static void what_was_not_seen_is_not_complete(void **state)
{
	struct report_cover cover = { .source = "framework", .found = 2 };
	struct verdict v;

	(void)state;
	f.r.devs_cnt = f.r.procs_cnt = 0;
	first_is(VERDICT_NOTHING, VERDICT_HINT, 0, "no probe was set", "memtrace plan");
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_COMPLETE)->text, "nothing could be seen"));
	f.r.probes.covers = &cover;
	f.r.probes.covers_cnt = 1;
	first_is(VERDICT_NOTHING, VERDICT_HINT, 0, "no probe was set", "memtrace plan"); /* all were refused */
	cover.attached = 1;
	first_is(VERDICT_NOTHING, VERDICT_HINT, 0, "no block was allocated", "memtrace plan");
	v = judged();
	assert_null(line_of(&v, VERDICT_GROWTH));
	assert_null(line_of(&v, VERDICT_PEAK));
	assert_non_null(strstr(line_of(&v, VERDICT_COMPLETE)->text, "nothing to lose"));
}

/* Parameters that names have told of are no peak, and nothing is too short yet. */
static void before_the_first_traced_step(void **state)
{
	struct verdict v;

	(void)state;
	f.r.sampling.is_on = f.r.run.is_live = 1;
	f.r.run.ended = 0;
	first_is(VERDICT_NOTHING, VERDICT_FACT, 0, "No step was traced yet, in 100 \xc2\xb5" "s: what memory is used for is "
		 "known with the first one", "--max-overhead none");
	v = judged();
	assert_null(line_of(&v, VERDICT_GROWTH));
	assert_null(line_of(&v, VERDICT_PEAK));
	assert_non_null(strstr(line_of(&v, VERDICT_COMPLETE)->text, "Complete so far: nothing was lost in 100 "));
	f.r.sampling.steps_seen = 52;
	f.r.run.is_live = 0;
	f.r.run.ended = 1;
	first_is(VERDICT_NOTHING, VERDICT_HINT, 0, "No step was traced in 100 \xc2\xb5" "s, of 52 that are over: what "
		 "memory is used for was not seen", "trace for longer");
	f.r.sampling.steps_seen = 0; /* no job of steps: what was traced of it counts */
	f.r.run.events[MT_EV_ALLOC] = 10;
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	f.r.sampling.steps_seen = 52;
	f.r.sampling.steps_traced = 3;
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
}

static void losses_are_said(void **state)
{
	(void)state;
	f.r.run.lost[MT_LOSS_RING] = 12;
	f.r.run.lost[MT_LOSS_ORDER] = 1;
	first_is(VERDICT_INCOMPLETE, VERDICT_HINT, 0, "Incomplete: 13 losses (ring)", "");
}

static void few_steps_are_too_short(void **state)
{
	struct verdict v;

	(void)state;
	f.r.leaks.too_short = 1;
	f.r.leaks.ticks = 3;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_GROWTH)->text, "Too short to say whether anything grows: 3 steps, "));
	f.r.leaks.per_step = 0;
	f.r.leaks.ticks = 1;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_GROWTH)->text, ": 1 half second without a step, "));
}

/* A window of three whole steps has four boundaries: every view says three. */
static void traced_steps_are_counted_in_one_way(void **state)
{
	struct verdict v;

	(void)state;
	f.r.leaks.too_short = f.r.leaks.per_step = 1;
	f.r.leaks.ticks = 4;
	f.r.leaks.ticks_least = 10;
	f.r.sampling = (struct report_sampling){ .is_on = 1, .gaps_cnt = 2, .steps_seen = 201, .steps_traced = 3 };
	v = judged();
	assert_string_equal(line_of(&v, VERDICT_GROWTH)->text,
			    "Too short to say whether anything grows: 3 traced steps, and that takes 10.");
}

/* --- planted ---------------------------------------------------------------------------------------------- */

static void a_leak(void **state)
{
	static struct report_frame frames[] = {
		{ (char *)"empty", (char *)"libc10.so", 0, EV_FRAME_NATIVE }, { (char *)"log", (char *)"train.py", 12,
		    EV_FRAME_PYTHON },
	};
	struct verdict live;

	(void)state;
	f.leaks[0] = (struct report_leak){ .op = (char *)"aten::add", .region = (char *)"", .pid = 10, .dev = MT_DEV_CUDA0,
					   .per_step = 1, .sure = SURE_HIGH, .bytes_slope = 4.0 * MIB, .blocks_slope = 1,
					   .live = 400 * MIB, .grown = 400 * MIB, .blocks = 100, .grown_blocks = 100 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = 1;
	f.r.leaks.total = 2;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "Growing: aten::add, by 4.00 MiB a step, 400 MiB by now in 100 blocks",
		 "a recording with --stacks=python says the line; memtrace report job.mtr --leaks");
	f.r.run.is_live = 1; /* there is no file yet */
	verdict__of(&live, &f.r, NULL);
	assert_non_null(strstr(line_of(&live, VERDICT_LEAK)->next,
			       "memtrace record -p 10 -d 60 -o leak.mtr && memtrace report leak.mtr --leaks"));
	f.r.run.is_live = 0;
	f.leaks[0].blocks = 800; /* half a MiB each: --stacks alone would not look at them */
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "in 800 blocks",
		 "a recording with --stacks=python --stack-size 0 says");
	f.leaks[0].blocks = 100;
	f.leaks[0].frames = frames;
	f.leaks[0].frames_cnt = 2;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "made at train.py:12 in log; 1 more place grows",
		 "report job.mtr --leaks");
	f.leaks[0].held_by = (char *)"losses";
	f.leaks[0].held_kind = (char *)"list";
	f.leaks[0].held_where = (char *)"main (train.py:7)";
	f.leaks[0].held_items = 1204;
	f.leaks[0].held = HELD_ITSELF;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB,
		 "made at train.py:12 in log; held by losses, a list with 1204 of them when it was looked at, a variable of "
		 "main (train.py:7); 1 more place grows", "losses never forgets");
	f.leaks[0].held_by = (char *)"";
	f.leaks[0].held_where = (char *)"";
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB,
		 "held by a list with 1204 of them when it was looked at, and nothing that was seen refers to it; 1 more ",
		 "that container never forgets");
	f.leaks[0].held_by = (char *)"losses";
	f.leaks[0].frames_cnt = 0;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "blocks; held by losses",
		 "; a recording with --stacks=python says the line");
	f.leaks[0].frames_cnt = 2;
	f.leaks[0].held = HELD_GRAPH;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "kept by autograd", "keep x.item() or x.detach() in losses");
	f.leaks[0].held = HELD_UNSEEN;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "autograd or C++ keeps it", "who keeps what train.py:12 makes?");
	f.leaks[0].held = HELD_UNKNOWN;
	f.leaks[0].grown = MIB; /* of 10 GiB: nobody dies of that */
	first_is(VERDICT_LEAK, VERDICT_HINT, 4 * MIB, "Growing", "--leaks");
	f.leaks[0].grown = 400 * MIB;
	f.leaks[0].sure = SURE_LOW;
	first_is(VERDICT_LEAK, VERDICT_HINT, 4 * MIB, "Growing", "--leaks");
}

/* Others are leaks of their own, and no more holders of the first one's blocks. */
static void other_leaks(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++)
		f.leaks[i] = (struct report_leak){ .op = (char *)"aten::add", .region = (char *)"", .pid = 10,
						   .dev = MT_DEV_CUDA0, .per_step = 1, .sure = SURE_HIGH,
						   .bytes_slope = (double)(MIB << (2 - i)), .blocks_slope = 1,
						   .live = 400 * MIB, .grown = 400 * MIB, .blocks = 100 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = f.r.leaks.total = 3;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "in 100 blocks; 2 more places grow, by 3.00 MiB a step", "");
	f.r.leaks.cnt = f.r.leaks.total = 2;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB, "in 100 blocks; 1 more place grows, by 2.00 MiB a step", "");
	f.leaks[1].per_step = 0; /* another process, which makes no steps */
	assert_null(strstr(judged().lines[0].text, "place grows,"));
}

/* A peak that a leak makes: no advice to train with less, beside that to stop the leak. */
static void a_peak_of_a_leak(void **state)
{
	struct verdict v;

	(void)state;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = 9 * GIB;
	f.leaks[0] = (struct report_leak){ .op = (char *)"aten::sort", .region = (char *)"", .pid = 10, .dev = MT_DEV_CUDA0,
					   .per_step = 1, .sure = SURE_HIGH, .bytes_slope = 60.0 * MIB, .blocks_slope = 1,
					   .live = 6 * GIB, .grown = 6 * GIB, .blocks = 100, .grown_blocks = 100 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = f.r.leaks.total = 1;
	v = judged();
	assert_int_equal(v.lines[0].kind, VERDICT_LEAK);
	assert_null(line_of(&v, VERDICT_ACTIVATIONS));
	assert_non_null(strstr(line_of(&v, VERDICT_PEAK)->text, "; most of it is what grows"));
	assert_null(strstr(line_of(&v, VERDICT_PEAK)->text, "steps"));
	assert_string_equal(line_of(&v, VERDICT_PEAK)->next, "");
	f.leaks[0].live = 4 * GIB; /* less than half: then the rest is worth a word */
	v = judged();
	assert_non_null(line_of(&v, VERDICT_ACTIVATIONS));
	f.leaks[0].live = 6 * GIB;
	f.leaks[0].dev = MT_DEV_CPU; /* another device's */
	v = judged();
	assert_non_null(line_of(&v, VERDICT_ACTIVATIONS));
}

static const struct report_frame *line_in(const char *const *files, size_t cnt)
{
	static struct report_frame frames[8];

	for (size_t i = 0; i < cnt; i++)
		frames[i] = (struct report_frame){ (char *)"f", (char *)files[i], (uint32_t)i + 1, EV_FRAME_PYTHON };
	return facts_line(frames, cnt);
}

/* Innermost first: the line that somebody can change. */
static void the_line_of_a_stack(void **state)
{
	static const char *const own[] = { "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py",
					   "/v/lib/python3.11/site-packages/transformers/models/bert.py", "<string>",
					   "/usr/lib/python3.11/runpy.py", "/home/me/train.py", "/home/me/main.py" };
	static const char *const torch[] = { "/src/pytorch/torch/nn/modules/linear.py", "/src/pytorch/torch/_tensor.py" };

	(void)state;
	assert_string_equal(line_in(own, 6)->file, own[4]);
	assert_string_equal(line_in(own, 4)->file, own[1]); /* nothing of the program's own: what uses torch */
	assert_string_equal(line_in(own, 1)->file, own[0]);
	assert_string_equal(line_in(torch, 2)->file, torch[0]);
	assert_null(line_in(own, 0));
	assert_null(facts_line(&(struct report_frame){ (char *)"empty", (char *)"libc10.so", 7, EV_FRAME_NATIVE }, 1));
}

/* Without --stacks: some of its blocks were caught. */
static void a_leak_that_was_caught(void **state)
{
	static struct report_frame frames[] = {
		{ (char *)"forward", (char *)"/v/site-packages/torch/nn/modules/linear.py", 134, EV_FRAME_PYTHON },
		{ (char *)"collect", (char *)"train.py", 42, EV_FRAME_PYTHON },
	};

	(void)state;
	f.leaks[0] = (struct report_leak){ .op = (char *)"aten::add", .region = (char *)"", .pid = 10, .dev = MT_DEV_CUDA0,
					   .per_step = 1, .sure = SURE_HIGH, .bytes_slope = 4.0 * MIB, .blocks_slope = 1,
					   .live = 400 * MIB, .grown = 400 * MIB, .blocks = 100, .grown_blocks = 100,
					   .frames = frames, .frames_cnt = 2, .caught = 31, .caught_here = 31 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = f.r.leaks.total = 1;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB,
		 "made at train.py:42 in collect (so were all 31 blocks that were caught)",
		 "who keeps what train.py:42 makes?");
	f.leaks[0].caught_here = 20;
	first_is(VERDICT_LEAK, VERDICT_PROBLEM, 4 * MIB,
		 "made at train.py:42 in collect (so were 20 of 31 blocks that were caught)",
		 "");
}

static void reserved_and_idle(void **state)
{
	struct report_segments *s = &f.devs[0].segs;

	(void)state;
	s->reserved_peak = s->reserved = 20 * GIB;
	s->inactive = 7 * GIB;
	s->free_cached = GIB;
	s->largest_free = 100 * MIB;
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 10 * GIB, "cuda:0: 10.0 GiB of 20.0 GiB reserved never "
		 "held a tensor; 7.00 GiB are "
		 "free now in segments that hold a block, in pieces of 100 MiB at most; it does not matter",
			 "expandable_segments:True");
	s->largest_free = 16 * MIB; /* less than what expandable segments give back */
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 10 * GIB, "in pieces of 16.0 MiB at most",
		 "allocate what lives long before");
	s->reserved_before = GIB;
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 10 * GIB, "reserved never held a tensor since the attach; 7.00 GiB", "");
	s->counted_allocated_peak = 12 * GIB; /* the allocator's own, of all its life */
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 8 * GIB, "8.00 GiB of 20.0 GiB reserved never held a tensor; 7.00 GiB", "");
	s->counted_allocated_peak = s->reserved_before = 0;
	s->nvml_total = 201 * GIB; /* 5 % */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
	s->nvml_total = 199 * GIB;
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 10 * GIB, "it does not matter", "");
	s->largest_free = 100 * MIB;
	s->nvml_total = 21 * GIB;
	first_is(VERDICT_FRAGMENTED, VERDICT_PROBLEM, 10 * GIB, "90 % of the device", "expandable_segments:True");
	s->backend = BACKEND_EXPANDABLE;
	first_is(VERDICT_FRAGMENTED, VERDICT_PROBLEM, 10 * GIB, "90 % of the device", "empty_cache()");
	s->inactive = 0;
	s->free_cached = 9 * GIB;
	first_is(VERDICT_RESERVED, VERDICT_PROBLEM, 10 * GIB, "90 % of the device", "gives back 9.00 GiB now");
	s->reserved_peak = 12 * GIB; /* 17 % */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
}

static void a_refusal(void **state)
{
	struct report_oom *o = &f.r.ooms.rows[0];

	(void)state;
	*o = (struct report_oom){ .kind = OOM_DEVICE, .dev = MT_DEV_CUDA0, .ts_ns = FIX_T0 + 90000, .pid = 10, .times = 1,
				  .comm = (char *)"python", .op = (char *)"aten::addmm", .region = (char *)"",
					  .api = (char *)"",
				  .asked = 2 * GIB, .live = 10 * GIB, .reserved = 13 * GIB, .unused = 3 * GIB,
					  .largest_free = 200 * MIB };
	f.r.ooms.cnt = f.r.ooms.total = 1;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, "Out of memory after 90.0 \xc2\xb5s: cuda:0 "
		 "refused 2.00 GiB in aten::addmm; "
		 "10.0 GiB were live, 13.0 GiB reserved, of it 3.00 GiB free in pieces of 200 MiB at most",
			 "expandable_segments");
	o->module = (char *)"_orig_mod.block.linear1";
	o->root = (char *)"Model";
	o->phase = PHASE_BACKWARD;
	o->times = 2;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, "refused 2.00 GiB in aten::addmm, in backward of "
		 "Model.block.linear1, 2 times; 10.0 GiB", "");
	o->module = (char *)"";
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, ", in backward of Model, 2 times", "");
	o->module = o->root = NULL;
	o->times = 1;
	o->unused = GIB;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, "1.00 GiB free", "");
	o->private_free = 4 * GIB;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, "4.00 GiB more are free for CUDA graphs alone", "");
	o->private_free = 0;
	o->asked = 200 * GIB; /* giving back all of it would not have helped */
	f.procs[0].how = EV_PROC_LAUNCHED; /* after an attach not all that it had was seen */
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 200 * GIB, "refused 200 GiB in aten::addmm",
		 "that is more than 10 times all that it had: is such a size meant?");
	f.procs[0].how = EV_PROC_ATTACHED;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 200 * GIB, "refused 200 GiB", "what held it, by module: ");
	f.procs[0].how = EV_PROC_LAUNCHED;
	o->rss_total = 20 * GIB;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 200 * GIB, "refused 200 GiB", "what held it, by module: ");
	f.procs[0].how = EV_PROC_ATTACHED;
	f.procs[1] = (struct report_proc){ .pid = 11, .ppid = 10, .comm = (char *)"pt_data_worker",
					   .cmdline = (char *)"python train.py" };
	f.r.procs_cnt = 2; /* of several: whose */
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 200 * GIB, "cuda:0 refused process 10 (train.py) 200 GiB in",
		 "--pid 10");
	o->pid = 11;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 200 * GIB, "process 11 (a DataLoader worker of train.py) ",
		 "--pid 11");
	f.r.procs_cnt = 1;
	*o = (struct report_oom){ .kind = OOM_DEATH, .marked = 1, .killed = 1, .pid = 10, .comm = (char *)"python",
				  .exit_status = 9,
				  .ts_ns = FIX_T0 + 90000, .rss_total = 60 * GIB };
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 60 * GIB, "OOM killer took process 10 (train.py) after", "");
	o->marked = o->killed = 0;
	first_is(VERDICT_DIED, VERDICT_HINT, 0, "Process 10 (train.py) was ended by SIGKILL", "who sent it?");
	o->exit_status = 11;
	first_is(VERDICT_DIED, VERDICT_PROBLEM, 0, "ended by SIGSEGV", "");
	o->exit_status = 15; /* asked to */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
}

static void fails(struct report_proc *p, int code, uint64_t after_ns)
{
	p->gone = 1;
	p->exit_status = (uint32_t)code << 8;
	p->exit_ts_ns = FIX_T0 + after_ns;
}

/* The job's own exit code, and which of its processes failed first; of several jobs whose; not what torch asks as it starts. */
static void an_exit_code(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		f.procs[i] = f.procs[0];
		f.procs[i].pid = (uint32_t)(10 + i);
		f.procs[i].ppid = i ? 10 : 1;
	}
	f.r.procs_cnt = 4;
	f.procs[3].peak = 0;
	fails(&f.procs[3], 127, 1 * S); /* a compiler */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
	fails(&f.procs[0], 1, 9 * S);
	f.procs[1].gone = f.procs[2].gone = 1;
	first_is(VERDICT_DIED, VERDICT_HINT, 0, "The job ended with exit code 1 after 9.00 s", "traceback");
	assert_null(strstr(judged().lines[0].text, "first"));
	fails(&f.procs[1], 1, 5 * S);
	fails(&f.procs[2], 3, 4 * S);
	first_is(VERDICT_DIED, VERDICT_HINT, 0, "The job ended with exit code 1 after 9.00 s; of what it started process 12 "
		 "(train.py) failed first, with exit code 3 after 4.00 s", "what it held: ");
	assert_non_null(strstr(judged().lines[0].next, "--pid 12"));
	f.procs[1].ppid = f.procs[2].ppid = 1; /* jobs of their own */
	for (size_t i = 0; i < 3; i++) {
		f.procs[i].devs = f.on[i];
		f.procs[i].devs_cnt = 1;
		f.on[i][0] = (struct report_proc_dev){ .peak = 10 * GIB, .dev = MT_DEV_CUDA0 };
	}
	first_is(VERDICT_DIED, VERDICT_HINT, 0, "Process 10 (train.py) ended with exit code 1 after 9.00 s; 2 more ended "
		 "with an error", "");
	f.r.run.pid = 0; /* -a: the first one */
	first_is(VERDICT_DIED, VERDICT_HINT, 0, "Process 12 (train.py) ended with exit code 3 after 4.00 s; 2 more", "");
	f.r.ooms.rows[0] = (struct report_oom){ .kind = OOM_DEATH, .exit_status = 11, .pid = 12, .comm = (char *)"python" };
	f.r.ooms.cnt = 1; /* why the job of 12 failed */
	first_is(VERDICT_DIED, VERDICT_PROBLEM, 0, "Process 12 (train.py) was ended by SIGSEGV", "");
	assert_int_equal(judged().lines[1].kind, VERDICT_PEAK);
	f.r.ooms.rows[0].pid = 11; /* of another job */
	assert_int_equal(judged().lines[1].kind, VERDICT_DIED);
	f.r.ooms.cnt = 0;
	f.procs[1].gone = f.procs[2].gone = f.procs[0].gone = 2; /* they go on */
	assert_null(facts_of_failed(&f.r).proc);
}

/* Who asks in the night why it died is not told that nothing grows, where what is live rose until then; and who held it. */
static void a_refusal_after_a_rise(void **state)
{
	struct report_oom *o = &f.r.ooms.rows[0];
	struct point live[20];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 20; i++)
		live[i] = (struct point){ FIX_T0 + i * S, (i + 1) * GIB / 2, (i + 1) * GIB / 2 };
	f.devs[0].series = (struct series){ live, 20, S };
	*o = (struct report_oom){ .kind = OOM_DEVICE, .dev = MT_DEV_CUDA0, .ts_ns = FIX_T0 + 19 * S + 123456789, .pid = 10,
				  .times = 1, .comm = (char *)"python", .op = (char *)"aten::addmm", .region = (char *)"",
				  .api = (char *)"", .asked = 2 * GIB, .live = 10 * GIB };
	f.r.ooms.cnt = f.r.ooms.total = 1;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, "10.0 GiB were live (5.00 GiB 9.56 s before)",
		 "what held it, by module: memtrace report job.mtr --by module --at 19.123s");
	v = judged();
	assert_null(line_of(&v, VERDICT_GROWTH));
	for (size_t i = 0; i < 20; i++) /* it had lived for long */
		live[i].live_end = live[i].live_max = 9 * GIB;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 2 * GIB, "10.0 GiB were live", "--at 19.123s");
	v = judged();
	assert_null(strstr(line_of(&v, VERDICT_OUT_OF_MEMORY)->text, "before"));
	assert_non_null(line_of(&v, VERDICT_GROWTH));
}

/* What held it, where that was in tensors; else how its lines are found. */
static void a_kill(void **state)
{
	struct report_oom *o = &f.r.ooms.rows[0];

	(void)state;
	f.r.ooms.cnt = f.r.ooms.total = 1;
	*o = (struct report_oom){ .kind = OOM_DEATH, .marked = 1, .killed = 1, .pid = 10, .comm = (char *)"python",
				  .exit_status = 9, .ts_ns = FIX_T0 + S, .rss_total = 60 * GIB, .live = 40 * GIB };
	o->rss[MT_RSS_ANON] = 50 * GIB;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 60 * GIB, "took process 10", "");
	assert_string_equal(judged().lines[0].next, ""); /* live may be a GPU's */
	f.devs[0].dev = MT_DEV_CPU;
	f.r.devs_cnt = 1;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 60 * GIB, "took process 10", "--by module --at 1.000s");
	o->live = GIB;
	first_is(VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, 60 * GIB, "took process 10", "1.00 GiB of it was in tensors; ");
}

static void make_rank(size_t i, uint64_t peak)
{
	snprintf(f.texts[i][0], sizeof(f.texts[i][0]), "RANK=%zu", i);
	snprintf(f.texts[i][1], sizeof(f.texts[i][1]), "WORLD_SIZE=8");
	f.labels[i][0] = f.texts[i][0];
	f.labels[i][1] = f.texts[i][1];
	f.procs[i] = f.procs[0];
	f.procs[i].pid = (uint32_t)(10 + i);
	f.procs[i].peak = peak;
	f.procs[i].labels = f.labels[i];
	f.procs[i].labels_cnt = 2;
}

static void a_fat_rank(void **state)
{
	struct report_stack stack = { .at_peak = 9 * GIB };

	(void)state;
	for (size_t i = 0; i < 8; i++)
		make_rank(i, 10 * GIB);
	f.r.procs_cnt = 8;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
	f.procs[3].peak = 15 * GIB;
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 5 * GIB, "Rank 3 stands out: its peak is 15.0 GiB, "
		 "1.5 times the median of 8 ranks (10.0 GiB)",
		 "report job.mtr --rank 3 --by op");
	for (size_t i = 0; i < 8; i++)
		f.modules[i] = (struct report_module){ .pid = f.procs[i].pid, .name = (char *)"", .all.at_peak = 4 * GIB };
	f.r.modules.cnt = 8;
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 5 * GIB, "Rank 3", "--rank 3 --by op"); /* its modules have what all have */
	f.modules[3].kinds[EV_TENSOR_PARAMETER] = 3 * GIB;
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 5 * GIB, "Rank 3", "--rank 3 --by module");
	f.modules[3].parent = 1; /* it is in what another root has */
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 5 * GIB, "Rank 3", "--rank 3 --by op");
	f.r.stacks.rows = &stack;
	f.r.stacks.cnt = 1;
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 5 * GIB, "Rank 3", "--rank 3 --by stack");
	stack.at_peak = GIB; /* most blocks have none */
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 5 * GIB, "Rank 3", "--rank 3 --by op");
	f.procs[3].peak = 11 * GIB; /* as ranks differ */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
}

static void set_proc(size_t i, uint32_t pid, uint32_t ppid, uint64_t peak, const char *cmdline)
{
	f.procs[i] = (struct report_proc){ .pid = pid, .ppid = ppid, .comm = (char *)"python", .cmdline = (char *)cmdline,
					   .peak = peak, .devs = f.on[i], .devs_cnt = 1 };
	f.on[i][0] = (struct report_proc_dev){ peak, MT_DEV_CUDA0 };
	f.r.procs_cnt = f.r.procs_cnt > i ? f.r.procs_cnt : i + 1;
}

static void set_label(size_t i, size_t k, const char *label)
{
	f.labels[i][k] = (char *)label;
	f.procs[i].labels = f.labels[i];
	f.procs[i].labels_cnt = k + 1;
}

/* Their peaks are not one job's: each has its own, and what to do is not said of the sum. */
static void several_jobs(void **state)
{
	struct verdict v;

	(void)state;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = 8 * GIB;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "Peak 10.0 GiB on cuda:0 after", "");
	set_proc(0, 10, 1, 3 * GIB, "python train.py");
	set_proc(1, 11, 10, 4 * GIB, "python train.py"); /* its child */
	set_proc(2, 12, 1, 5 * GIB, "/tmp/.pyenv/venv/bin/python /srv/eval.py --all");
	set_proc(3, 13, 1, GIB, "python -m job");
	set_proc(4, 14, 1, GIB, "");
	first_is(VERDICT_PEAK, VERDICT_FACT, 5 * GIB, "Peaks of 4 jobs: 5.00 GiB in process 12 (eval.py), 4.00 GiB in 11 "
		 "(train.py, the highest of 2), 1.00 GiB in 13 (python), \xe2\x80\xa6; all together at most 10.0 GiB on "
		 "cuda:0, after ", "the first one alone: memtrace report job.mtr --pid 12");
	v = judged();
	assert_string_equal(line_of(&v, VERDICT_GROWTH)->text,
			    "No tensors grow, in 100 steps (of 4 jobs the one that made most).");
	f.r.leaks.too_short = 1;
	v = judged();
	assert_string_equal(line_of(&v, VERDICT_GROWTH)->text, "Too short to say whether anything grows: 100 steps (of "
			    "4 jobs the one that made most), and that takes 10.");
	f.r.leaks.too_short = 0;
	f.r.run.is_live = 1;
	first_is(VERDICT_PEAK, VERDICT_FACT, 5 * GIB, "Peaks of 4 jobs: ", "the first one alone: memtrace -p 12");
	f.r.procs_cnt = 2;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "Peak 10.0 GiB on cuda:0, of several processes together "
		 "(4.00 GiB in one at most), after", "");
	f.leaks[0] = (struct report_leak){ .op = (char *)"aten::add", .region = (char *)"", .pid = 11, .dev = MT_DEV_CUDA0,
					   .per_step = 1, .sure = SURE_HIGH, .bytes_slope = 4.0 * MIB, .blocks_slope = 1,
					   .live = 400 * MIB, .grown = 400 * MIB, .blocks = 100, .grown_blocks = 100 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = f.r.leaks.total = 1;
	v = judged();
	assert_null(strstr(line_of(&v, VERDICT_LEAK)->text, "process")); /* there is one job */
	f.r.procs_cnt = 5;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_LEAK)->text, " in 100 blocks, process 11 (train.py)"));
	f.r.leaks.cnt = f.r.leaks.total = 0;
	f.r.procs_cnt = 2;
	set_proc(2, 12, 1, 100 * MIB, "python eval.py"); /* next to nothing: as if it were alone, but said */
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB,
		 "Peak 10.0 GiB on cuda:0, nearly all of process 11 (train.py), after", "");
}

/* What was chosen is in every command, but for those that choose for themselves. */
static void commands_are_of_what_was_chosen(void **state)
{
	struct verdict v;

	(void)state;
	f.r.run.choice = (char *)"--pid 10";
	f.leaks[0] = (struct report_leak){ .op = (char *)"aten::add", .region = (char *)"", .pid = 10, .dev = MT_DEV_CUDA0,
					   .per_step = 1, .sure = SURE_HIGH, .bytes_slope = 4.0 * MIB, .blocks_slope = 1,
					   .live = 400 * MIB, .grown = 400 * MIB, .blocks = 100, .grown_blocks = 100 };
	f.r.leaks.rows = f.leaks;
	f.r.leaks.cnt = f.r.leaks.total = 1;
	v = judged();
	assert_string_equal(verdict_command(line_of(&v, VERDICT_LEAK)), "memtrace report job.mtr --pid 10 --leaks");
	verdict__of(&v, &f.r, "FILE");
	assert_string_equal(verdict_command(line_of(&v, VERDICT_LEAK)), "memtrace report FILE --pid 10 --leaks");
	f.r.leaks.cnt = f.r.leaks.total = 0;
	f.r.run.choice = (char *)"--pid 10 --pid 11";
	set_proc(0, 10, 1, 3 * GIB, "python train.py");
	set_proc(1, 11, 2, 2 * GIB, "python eval.py");
	first_is(VERDICT_PEAK, VERDICT_FACT, 3 * GIB, "Peaks of 2 jobs: ",
		 "the first one alone: memtrace report job.mtr --pid 10");
}

/* The sentence is of one device: what a job has on another one is no part of it. */
static void jobs_on_two_devices(void **state)
{
	(void)state;
	set_proc(0, 10, 1, 60 * GIB, "python big.py");
	f.on[0][0].dev = MT_DEV_CPU;
	set_proc(1, 11, 2, 2 * GIB, "python gpu.py");
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak 10.0 GiB on cuda:0, nearly all of process 11 (gpu.py), after", "");
	set_proc(2, 12, 3, 7 * GIB, "python both.py");
	f.on[2][0] = (struct report_proc_dev){ 6 * GIB, MT_DEV_CPU };
	f.on[2][1] = (struct report_proc_dev){ GIB, MT_DEV_CUDA0 };
	f.procs[2].devs_cnt = 2;
	first_is(VERDICT_PEAK, VERDICT_FACT, 2 * GIB, "Peaks of 2 jobs: 2.00 GiB in process 11 (gpu.py), 1.00 GiB in 12 "
		 "(both.py); all together at most 10.0 GiB on cuda:0", "");
}

/* The largest processes count, wherever they stand; helpers without memory in between are looked through. */
static void jobs_of_many_processes(void **state)
{
	enum { CNT = 3000 };
	static struct report_proc procs[CNT];
	struct report_proc_dev on[2] = { { MIB, MT_DEV_CUDA0 }, { 4 * GIB, MT_DEV_CUDA0 } };

	(void)state;
	for (uint32_t i = 0; i < CNT; i++)
		procs[i] = (struct report_proc){ .pid = 100 + i, .ppid = i % 3 ? 100 + i - 1 : 1, .peak = MIB,
						 .comm = (char *)"a", .devs = i % 3 == 1 ? NULL : on,
						 .devs_cnt = i % 3 != 1 };
	procs[CNT - 1].devs = procs[CNT - 4].devs = &on[1];
	f.r.procs = procs;
	f.r.procs_cnt = CNT;
	first_is(VERDICT_PEAK, VERDICT_FACT, 4 * GIB, "Peaks of 513 jobs: 4.00 GiB in process 3096 (a), "
		 "4.00 GiB in 3099 (a), 1.00 MiB in 100 (a, the highest of 2), \xe2\x80\xa6; all", "");
}

/* Ranks are one job if they meet at one place, or their run has one name, or, if neither is told, one launcher. */
static void jobs_of_ranks(void **state)
{
	(void)state;
	set_proc(0, 10, 1, 3 * GIB, "python train.py");
	set_proc(1, 11, 2, 3 * GIB + 1, "python train.py");
	set_label(0, 0, "RANK=0");
	set_label(1, 0, "RANK=1");
	first_is(VERDICT_PEAK, VERDICT_FACT, 3 * GIB + 1, "Peaks of 2 jobs: 3.00 GiB in process 11 (train.py), "
		 "3.00 GiB in 10 (train.py); all", "");
	f.procs[1].ppid = 1;
	f.on[1][0].peak = 3 * GIB;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak 10.0 GiB on cuda:0, of several processes together "
		 "(3.00 GiB in one at most), after 5", "");
	set_label(0, 1, "MASTER_PORT=29500");
	set_label(1, 1, "MASTER_PORT=29501");
	first_is(VERDICT_PEAK, VERDICT_FACT, 3 * GIB, "Peaks of 2 jobs: ", "");
	set_label(1, 1, "MASTER_PORT=29500");
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak 10.0 GiB on cuda:0, of several processes together "
		 "(3.00 GiB in one at most), after 5", "");
	set_label(0, 1, "TORCHELASTIC_RUN_ID=a");
	set_label(1, 1, "TORCHELASTIC_RUN_ID=b");
	first_is(VERDICT_PEAK, VERDICT_FACT, 3 * GIB, "Peaks of 2 jobs: ", "");
}

static void rank_of_job(size_t i, uint32_t ppid, uint64_t peak, const char *port)
{
	char *label = f.texts[i][0];

	set_proc(i, (uint32_t)(10 + i), ppid, peak, ppid == 2 ? "python small.py" : "python train.py");
	snprintf(label, sizeof(f.texts[i][0]), "RANK=%zu", i % 4);
	set_label(i, 0, label);
	set_label(i, 1, port);
}

/* Two jobs of four ranks: that one is smaller than the other is no rank that stands out, and of whose it is there are two. */
static void a_fat_rank_of_two_jobs(void **state)
{
	(void)state;
	for (size_t i = 0; i < 8; i++)
		rank_of_job(i, i < 4 ? 1 : 2, i < 4 ? 8 * GIB : GIB, i < 4 ? "MASTER_PORT=29500" : "MASTER_PORT=29501");
	first_is(VERDICT_PEAK, VERDICT_FACT, 8 * GIB, "Peaks of 2 jobs: 8.00 GiB in process 10", "");
	f.procs[6].peak = f.on[6][0].peak = 2 * GIB; /* far below what the other job's ranks have */
	first_is(VERDICT_RANK, VERDICT_PROBLEM, GIB, "Rank 2 of process 16 (small.py) stands out: its peak is 2.00 GiB, "
		 "2 times the median of 4 ranks (1.00 GiB)", "memtrace report job.mtr --pid 16 --by op");
	for (size_t i = 0; i < 8; i++)
		f.modules[i] = (struct report_module){ .pid = f.procs[i].pid, .name = (char *)"",
						       .all.at_peak = i < 4 ? 8 * GIB : GIB };
	f.modules[6].all.at_peak = 2 * GIB;
	f.r.modules.cnt = 8;
	first_is(VERDICT_RANK, VERDICT_PROBLEM, GIB, "Rank 2 of process 16", "--pid 16 --by module");
}

static void reads(size_t i, uint64_t first, uint64_t last, uint32_t rises)
{
	f.procs[i].own = (struct report_own){ .first_ns = FIX_T0, .last_ns = FIX_T0 + 40 * S, .own_first = first,
					      .own_last = last, .reads = 41, .rises = rises };
	f.procs[i].marks_cnt[MARK_STEP] = 50;
	f.procs[i].use[MT_USE_PRIVATE] = last;
}

/* One job grows while another one gives as much back; and one that has more now is not what grows. */
static void growth_of_one_job(void **state)
{
	struct own_point points[41];
	struct point rss[40];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 40; i++) /* all together */
		rss[i] = (struct point){ FIX_T0 + i * S, 4 * GIB, 4 * GIB };
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ rss, 40, S };
	f.r.run.end_ts_ns = FIX_T0 + 40 * S;
	set_proc(0, 10, 1, 10 * GIB, "python train.py");
	set_proc(1, 11, 1, 5 * GIB, "python eval.py");
	reads(0, 3 * GIB, 2 * GIB, 0);
	reads(1, GIB, 2 * GIB, 40);
	v = judged();
	assert_non_null(line_of(&v, VERDICT_RSS));
	assert_non_null(strstr(line_of(&v, VERDICT_RSS)->text, "The memory of process 11 (eval.py) and its job (private to its "
			       "processes) grows by 25.6 MiB a second, to 2.00 GiB by now"));
	assert_non_null(strstr(line_of(&v, VERDICT_RSS)->next, "memtrace record -p 11 "));
	f.procs[1].own.own_last = GIB + 60 * MIB; /* below the threshold, whatever all together do */
	for (size_t i = 0; i < 40; i++)
		rss[i].live_end = rss[i].live_max = (1000 + 100 * i) * MIB;
	v = judged();
	assert_null(line_of(&v, VERDICT_RSS));
	reads(1, GIB, 2 * GIB, 3); /* it was taken at once */
	v = judged();
	assert_null(line_of(&v, VERDICT_RSS));
	reads(1, 100 * MIB, 2 * GIB, 40); /* started, not attached to: it has all of it when its first step is over */
	for (size_t i = 0; i < 41; i++)
		points[i] = (struct own_point){ FIX_T0 + i * S, i < 20 ? (100 + 100 * i) * MIB : 2 * GIB, 0 };
	f.procs[1].how = EV_PROC_LAUNCHED;
	f.procs[1].own.points = points;
	f.procs[1].own.points_cnt = 41;
	for (size_t i = 0; i < STEPS; i++) {
		f.steps[i].pid = 11;
		f.steps[i].at[MARK_STEP].ts_ns = FIX_T0 + 20 * S + i * S / 5;
	}
	f.procs[1].marks_cnt[MARK_STEP] = STEPS;
	assert_int_equal(facts_of_growing(&f.r).grown, 0);
	for (size_t i = 20; i < 41; i++)
		points[i].own = (1500 + 25 * i) * MIB;
	f.procs[1].own.own_last = 2500 * MIB;
	assert_int_equal(facts_of_growing(&f.r).grown, 500 * MIB);
}

/* Workers of one job are held against that job, not against all that runs on the machine. */
static void workers_of_one_job(void **state)
{
	struct verdict v;

	(void)state;
	set_proc(0, 10, 1, 10 * GIB, "python train.py");
	set_proc(1, 11, 1, 5 * GIB, "python eval.py");
	set_proc(2, 12, 11, 0, "python eval.py");
	f.procs[2].comm = (char *)"pt_data_worker0";
	f.procs[0].use[MT_USE_PSS] = f.procs[0].use[MT_USE_PRIVATE] = 20 * GIB;
	f.procs[1].use[MT_USE_PSS] = f.procs[1].use[MT_USE_PRIVATE] = GIB;
	f.procs[2].use[MT_USE_PSS] = f.procs[2].use[MT_USE_PRIVATE] = GIB;
	v = judged();
	assert_non_null(line_of(&v, VERDICT_WORKERS));
	assert_non_null(strstr(line_of(&v, VERDICT_WORKERS)->text, "1 DataLoader worker of process 11 holds 1.00 GiB of "
			       "its own, 1.00 GiB each at most, of 2.00 GiB of all processes of its job"));
}

static void a_rank_that_was_judged(void **state)
{
	struct report_rank rows[2] = { { .rank = 0, .peak = GIB, .median_peak = GIB }, { .rank = 1, .peak = 3 * GIB,
	    .median_peak = GIB } };
	struct report_ranks k = { .rows = rows, .cnt = 2, .outliers = { { .row = 1, .score = 9 } }, .outliers_cnt = 1 };

	(void)state;
	f.r.ranks = &k;
	first_is(VERDICT_RANK, VERDICT_PROBLEM, 2 * GIB, "Rank 1 stands out", "--rank 1 --by op");
	k.outliers_cnt = 0;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
}

static void activations(void **state)
{
	struct report_module *m = f.modules;

	(void)state;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = 8 * GIB;
	f.devs[0].cats[CAT_PARAMETER].at_peak = f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = GIB / 2;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "80 % activations", "--by module");
	m[0] = (struct report_module){ .pid = 10, .name = (char *)"", .root = (char *)"Net", .class = (char *)"Net",
				       .all = { .recomputable = 8 * GIB, .at_peak = 8 * GIB } };
	m[1] = (struct report_module){ .pid = 10, .name = (char *)"head", .parent = 1, .depth = 1, .root = (char *)"Net",
				       .class = (char *)"Linear",
				       .all = { .recomputable = 2 * GIB, .at_peak = 2 * GIB } };
	for (size_t i = 2; i < 8; i++)
		m[i] = (struct report_module){ .pid = 10, .name = f.texts[i][0], .parent = 1, .depth = 1, .root = (char *)"Net",
					       .class = (char *)"Layer", .all = { .recomputable = GIB, .at_peak = GIB } };
	for (size_t i = 2; i < 8; i++)
		snprintf(f.texts[i][0], sizeof(f.texts[i][0]), "layers.%zu", i - 2);
	f.r.modules.cnt = 8;
	f.saved[0] = (struct report_saved_proc){ .pid = 10, .bytes = 8 * GIB };
	f.r.saved.procs = f.saved;
	f.r.saved.procs_cnt = 1;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "6.00 GiB of it from Net.layers.*",
		 "checkpoint layers.*: up to 5.00 GiB less; "
		 "memtrace estimate job.mtr --checkpoint 'layers.*'");
	m[7].pid = 11; /* another rank's: what one saves is said */
	f.saved[1] = (struct report_saved_proc){ .pid = 11, .bytes = 7 * GIB };
	f.r.saved.procs_cnt = 2;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "80 %", "checkpoint layers.*: up to 4.00 GiB less each; ");
	m[7].pid = 10;
	f.r.saved.procs_cnt = 1;
	snprintf(f.texts[2][0], sizeof(f.texts[2][0]), "';reboot;'"); /* no command with a name that a shell would read */
	m[2].all.recomputable = 4 * GIB;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "80 %", "layers.*");
	m[1].all.recomputable = 0;
	f.r.modules.cnt = 3;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "80 %", "which modules keep most: memtrace");
}

/* An LSTM that is its own root; a cache that a model with a layer keeps. No module in it has that: the root is named. */
static void a_root_that_has_it_itself(void **state)
{
	static struct report_op op = { .name = (char *)"aten::empty", .at_peak = 6 * GIB };

	(void)state;
	f.r.ops.rows = &op;
	f.r.ops.cnt = 1;
	f.modules[0] = (struct report_module){ .name = (char *)"", .root = (char *)"Model", .class = (char *)"Model",
					       .own = { .at_peak = 6 * GIB }, .all = { .at_peak = 8 * GIB } };
	f.modules[1] = (struct report_module){ .name = (char *)"q", .parent = 1, .depth = 1, .root = (char *)"Model",
					       .own = { .at_peak = 2 * GIB }, .all = { .at_peak = 2 * GIB } };
	f.modules[2] = (struct report_module){ .pid = 11, .name = (char *)"", .root = (char *)"Model",
					       .class = (char *)"Model", .own = { .at_peak = GIB }, .all = { .at_peak = GIB } };
	f.modules[3] = (struct report_module){ .name = NULL, .root = NULL, .own = { .at_peak = 9 * GIB } }; /* not known */
	f.modules[4] = (struct report_module){ .name = (char *)"", .root = (char *)"", .own = { .at_peak = 9 * GIB } };
	f.r.modules.cnt = 5;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; 7.00 GiB of it from Model itself", "");
	f.modules[0].all.at_peak = 20 * GIB; /* most of what it holds is in others */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; 2.00 GiB of it from Model.q", "");
	f.modules[1].name = (char *)"_orig_mod";
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; 2.00 GiB of it from Model", "");
	f.modules[1].name = (char *)"_orig_mod.q";
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; 2.00 GiB of it from Model.q", "");
	f.r.modules.cnt = 0;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; most from aten::empty, 6.00 GiB", "");
}

/* Nor for kilobytes, or for a crumb of what was refused. */
static void what_would_not_help_is_not_proposed(void **state)
{
	struct report_oom row = { .ts_ns = FIX_T0 + 5, .kind = OOM_DEVICE, .dev = MT_DEV_CUDA0, .asked = 32ull << 40 };
	struct verdict v;

	(void)state;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = GIB;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 5 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 7 * GIB, "50 %", "8-bit state: some 3.75 GiB less");
	f.r.ooms.rows[0] = row;
	f.r.ooms.cnt = 1;
	v = judged();
	assert_string_equal(line_of(&v, VERDICT_STATE)->next, "");
	f.r.ooms.rows[0].asked = 8 * GIB;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_STATE)->next, "8-bit state"));
	f.r.ooms.cnt = 0;
	f.devs[0].peak = f.procs[0].peak = 10 * MIB;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = f.devs[0].cats[CAT_TEMPORARY].at_peak = 0;
	f.devs[0].cats[CAT_PARAMETER].at_peak = MIB;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 8 * MIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 9 * MIB, "80 %", "8-bit state: some 6.00 MiB less");
	f.devs[0].peak = f.procs[0].peak = 2 * MIB;
	f.devs[0].cats[CAT_PARAMETER].at_peak = MIB / 8;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = MIB;
	v = judged();
	assert_string_equal(line_of(&v, VERDICT_STATE) ? line_of(&v, VERDICT_STATE)->next : "", "");
}

/* Nobody changes a model for a thousandth of its peak. */
static void what_saves_little_is_not_proposed(void **state)
{
	static struct report_op op = { .name = (char *)"aten::sort", .at_peak = 8 * GIB };

	(void)state;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = 8 * GIB;
	f.devs[0].cats[CAT_PARAMETER].at_peak = f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = GIB / 2;
	f.modules[0] = (struct report_module){ .pid = 10, .name = (char *)"head", .root = (char *)"Net",
					       .class = (char *)"Linear",
					       .all = { .recomputable = 10 * MIB, .at_peak = 10 * MIB } };
	f.r.modules.cnt = 1;
	f.saved[0] = (struct report_saved_proc){ .pid = 10, .bytes = GIB };
	f.r.saved.procs = f.saved;
	f.r.saved.procs_cnt = 1;
	f.r.ops.rows = &op;
	f.r.ops.cnt = 1;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "; most from aten::sort, 8.00 GiB",
		 "half the batch saves up to 4.50 GiB; which modules keep most: memtrace report job.mtr --by module");
	f.modules[0].all.at_peak = f.modules[0].all.recomputable = GIB / 2;
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 8 * GIB, "; 512 MiB of it from Net.head",
		 "checkpoint head: up to 512 MiB less");
}

/* Where stacks were taken: the program's own line, of several stacks together. */
static void the_peak_has_a_line(void **state)
{
	struct report_frame a[] = {
		{ .kind = EV_FRAME_PYTHON, .function = (char *)"forward", .line = 9,
		  .file = (char *)"/usr/lib/python3/site-packages/torch/nn/linear.py" },
		{ .kind = EV_FRAME_PYTHON, .function = (char *)"forward", .file = (char *)"train.py", .line = 42 },
	}, b[] = { { .kind = EV_FRAME_PYTHON, .function = (char *)"load", .file = (char *)"data.py", .line = 7 } };
	struct report_stack rows[] = {
		{ .frames = b, .frames_cnt = 1, .at_peak = 3 * GIB }, { .frames = a, .frames_cnt = 2, .at_peak = 2 * GIB },
		{ .frames = a, .frames_cnt = 2, .at_peak = 2 * GIB },
	};

	(void)state;
	f.r.stacks.rows = rows;
	f.r.stacks.cnt = 3;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; 4.00 GiB made at train.py:42 in forward", "");
	a[1].file = (char *)"<ipython-input-1-7cdbe49c4c25>"; /* a notebook's cell, which magic of this package runs */
	struct report_frame cell[] = { a[0], a[1], { .kind = EV_FRAME_PYTHON, .function = (char *)"record_cell",
						     .file = (char *)"memtrace/_notebook.py", .line = 138 } };
	rows[1].frames = rows[2].frames = cell;
	rows[1].frames_cnt = rows[2].frames_cnt = 3;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "; 4.00 GiB made at <ipython-input-1-7cdbe49c4c25>:42 in forward", "");
	rows[0].at_peak = GIB / 4;
	rows[1].at_peak = rows[2].at_peak = 0; /* less than is worth a word */
	assert_null(strstr(judged().lines[0].text, "made at"));
}

static void state_of_training(void **state)
{
	(void)state;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = GIB;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 5 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 7 * GIB, "50 % optimizer state, 20 % parameters",
		 "8-bit state: some 3.75 GiB less; memtrace estimate job.mtr --optimizer 8bit");
	f.devs[0].cats[CAT_PARAMETER].at_peak = 4 * GIB; /* half of it made by the optimizer: names say so */
	f.r.names.by_kind[EV_TENSOR_PARAMETER].bytes = 2 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 9 * GIB, "50 % optimizer state, 40 % parameters", "8-bit state");
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 2 * GIB;
	f.devs[0].cats[CAT_PARAMETER].at_peak = 6 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, "60 % parameters", "shared among 2 ranks (fully_shard): "
		 "up to 4.00 GiB less each; memtrace estimate job.mtr --shard 2");
	make_rank(0, 10 * GIB);
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, "60 % parameters", "shared among 8 ranks (fully_shard): "
		 "up to 7.00 GiB less each; of the job in one process: memtrace record -o one.mtr -- COMMAND && memtrace "
		 "estimate one.mtr --shard 8");
	f.devs[0].cats[CAT_UNKNOWN].at_peak = GIB; /* of it the copies of gradients: no more are there with fully_shard */
	f.modules[0] = (struct report_module){ .pid = 10, .name = (char *)"", .class = (char *)"DistributedDataParallel",
					       .own.at_peak = GIB / 2 };
	f.r.modules.cnt = 1;
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, "60 % parameters", "up to 7.50 GiB less each");
	f.modules[0].own.at_peak = 3 * GIB; /* what else it made has a word */
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, "60 % parameters", "up to 8.00 GiB less each");
	f.r.modules.cnt = 0;
	make_rank(1, 10 * GIB);
	f.r.procs_cnt = 2;
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, "60 % parameters", "up to 7.00 GiB less each"); /* a GPU is one rank's */
	f.devs[0].dev = MT_DEV_CPU;
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, "60 % parameters", "up to 3.50 GiB less each"); /* of two on one CPU */
	f.r.flow.has_parts = 1;
	assert_null(strstr(judged().lines[0].next, "shared")); /* it is already */
	f.devs[0].cats[CAT_PARAMETER].at_peak = GIB; /* two ranks' state on one CPU: estimate is about one of them */
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 8 * GIB;
	assert_non_null(strstr(judged().lines[0].next, "8-bit state: some 3.00 GiB less each"));
}

/* Adam's temporaries are PARAMETER and ACTIVATION in torch.profiler's words: 2 GiB of weights, 2 + 1 GiB made in the step. */
static void temporaries_of_the_optimizer(void **state)
{
	struct report_op steps[] = { { .name = (char *)"Optimizer.step#Adam.step", .at_peak = 6 * GIB },
				     { .name = (char *)"MmBackward0", .at_peak = 2 * GIB, .is_node = 1 } };

	(void)state;
	f.devs[0].cats[CAT_TEMPORARY].at_peak = 0;
	f.devs[0].cats[CAT_PARAMETER].at_peak = 4 * GIB;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = GIB;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 3 * GIB;
	f.devs[0].cats[CAT_GRADIENT].at_peak = 2 * GIB;
	f.r.modules.phases[PHASE_OPTIMIZER].peak = 10 * GIB;
	f.r.modules.phases[PHASE_BACKWARD].peak = 9 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 9 * GIB, ": 40 % parameters, 30 % optimizer state", ""); /* nothing says more */
	f.r.names.by_kind[EV_TENSOR_PARAMETER].bytes = 2 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 9 * GIB, ": 30 % optimizer state, 20 % parameters, 20 % gradients", "");
	f.r.regions.rows = steps;
	f.r.regions.cnt = 2;
	first_is(VERDICT_STATE, VERDICT_HINT, 9 * GIB, ": 30 % optimizer state, 30 % temporary results of the optimizer, "
		 "20 % parameters", "");
	f.r.names.by_kind[EV_TENSOR_PARAMETER].bytes = 0; /* the process has ended: as much as has gradients */
	first_is(VERDICT_STATE, VERDICT_HINT, 9 * GIB, ": 30 % optimizer state, 30 % temporary results of the optimizer, "
		 "20 % parameters", "");
	f.devs[0].cats[CAT_GRADIENT].at_peak = 0; /* gone already: nothing says how many parameters there are */
	steps[0].at_peak = 4 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 7 * GIB, ": 40 % parameters, 30 % optimizer state, 10 % temporary results", "");
	f.devs[0].cats[CAT_GRADIENT].at_peak = GIB; /* some are gone: of parameters no more is taken than the step made */
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, ": 30 % parameters, 30 % optimizer state, 10 % ", "");
	f.r.modules.phases[PHASE_OPTIMIZER].peak = 9 * GIB; /* at a peak elsewhere words are as they are */
	f.r.modules.phases[PHASE_BACKWARD].peak = 10 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, ": 40 % parameters, 30 % optimizer state", "");
}

/* After an attach: weights (1 GiB) and Adam's state (4 GiB) are of no operator, and the step made nothing of that. */
static void temporaries_beside_state_from_before(void **state)
{
	struct report_op step = { .name = (char *)"Optimizer.step#Adam.step", .at_peak = 4 * GIB };

	(void)state;
	f.devs[0].cats[CAT_TEMPORARY].at_peak = 0;
	f.devs[0].cats[CAT_PARAMETER].at_peak = 3 * GIB; /* 2 GiB of it made in the step, as of activations */
	f.devs[0].cats[CAT_ACTIVATION].at_peak = 2 * GIB;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 4 * GIB;
	f.devs[0].cats[CAT_GRADIENT].at_peak = GIB;
	f.r.modules.phases[PHASE_OPTIMIZER].peak = 10 * GIB;
	f.r.modules.phases[PHASE_BACKWARD].peak = 9 * GIB;
	f.r.names.by_kind[EV_TENSOR_PARAMETER].bytes = GIB;
	f.r.regions.rows = &step;
	f.r.regions.cnt = 1;
	f.r.ops.none.at_peak = 5 * GIB;
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, ": 40 % optimizer state, 40 % temporary results of the optimizer, "
		 "10 % parameters", "");
	f.devs[0].cats[CAT_FROZEN].at_peak = 4 * GIB; /* made by no operator, too: these may be all that is */
	first_is(VERDICT_STATE, VERDICT_HINT, 12 * GIB, ": 40 % optimizer state, 40 % frozen parameters, "
		 "20 % activations", "");
	f.devs[0].cats[CAT_FROZEN].at_peak = 0;
	f.devs[1].peak = 5 * GIB; /* what no operator made may be there */
	first_is(VERDICT_STATE, VERDICT_HINT, 8 * GIB, ": 40 % optimizer state, 20 % activations, "
		 "20 % temporary results of the optimizer", "");
}

/* estimate refuses recordings of some steps. Steps are counted as windows have them, not as marks cut them. */
static void what_is_not_known_comes_last(void **state)
{
	static const char parts[] = ": 20 % activations, 10 % parameters, 10 % optimizer state, 50 % not known";
	struct report_cat *cats = f.devs[0].cats;
	struct verdict v;

	(void)state;
	cats[CAT_PARAMETER].at_peak = cats[CAT_OPTIMIZER_STATE].at_peak = GIB;
	cats[CAT_ACTIVATION].at_peak = 2 * GIB;
	cats[CAT_UNKNOWN].at_peak = 5 * GIB;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, parts, "");
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "not known, as no use of tensors by operators was seen", "");
	f.r.flow.nodes = 1;
	v = judged();
	assert_string_equal(strstr(v.lines[0].text, ": "), parts);
	f.devs[0].preexisting_bytes = 5 * GIB;
	f.r.ops.none.at_peak = 5 * GIB; /* the parameters and the state, and 3 GiB more */
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "50 % not known, mostly from before the attach", "");
	f.r.ops.none.at_peak = 4 * GIB;
	v = judged();
	assert_string_equal(strstr(v.lines[0].text, ": "), parts);
	f.r.ops.none.at_peak = 5 * GIB;
	f.procs[0].how = EV_PROC_LAUNCHED;
	f.procs[0].module_ts_ns = f.devs[0].peak_ts_ns;
	v = judged();
	assert_string_equal(strstr(v.lines[0].text, ": "), parts);
	f.procs[0].module_ts_ns++;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "50 % not known, as no module had run yet", "");
}

/* What it says of the peak is true, whatever words the table has: of what compiled code made its file is believed. */
static void what_compiled_code_made(void **state)
{
	struct report_cat *cats = f.devs[0].cats;

	(void)state;
	cats[CAT_TEMPORARY].at_peak = cats[CAT_OPTIMIZER_STATE].at_peak = 0;
	cats[CAT_PARAMETER] = (struct report_cat){ .at_peak = 4 * GIB, .plain = -3 * (int64_t)GIB };
	cats[CAT_INPUT] = (struct report_cat){ .at_peak = 5 * GIB, .plain = -5 * (int64_t)GIB };
	cats[CAT_ACTIVATION] = (struct report_cat){ .at_peak = GIB, .plain = 8 * (int64_t)GIB };
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 9 * GIB, ": 90 % activations, 10 % parameters",
		 "half the batch saves up to 4.5");
	f.r.flow.has_compiled = 1; /* no module in it runs: which keeps most is no question */
	first_is(VERDICT_ACTIVATIONS, VERDICT_HINT, 9 * GIB, "", "torch._functorch.config.activation_memory_budget = 0.5");
}

static void of_some_steps_the_command_records_all(void **state)
{
	struct report_step_dev made = { .dev = MT_DEV_CUDA0, .near = 6 };

	(void)state;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 5 * GIB;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = GIB;
	f.r.marks.steps_cnt = 4;
	f.r.sampling = (struct report_sampling){ .is_on = 1, .steps_seen = 50 * STEPS, .steps_traced = 6,
						 .steps = { .steps = 6, .windows = 2, .devs = &made, .devs_cnt = 1 } };
	first_is(VERDICT_STATE, VERDICT_HINT, 7 * GIB, "in each of 6 traced steps: 50 % optimizer state",
		 "memtrace record -p 10 -d 10 --max-overhead none -o all.mtr && memtrace estimate all.mtr --optimizer 8bit");
	made.near = 5;
	f.r.run.end_ts_ns = FIX_T0 + 50 * STEPS * 3000000000ull; /* steps of 3 s */
	first_is(VERDICT_STATE, VERDICT_HINT, 7 * GIB, "in 5 of 6 traced steps: ", "memtrace record -p 10 -d 60 ");
	f.procs[0].gone = 1;
	first_is(VERDICT_STATE, VERDICT_HINT, 7 * GIB, "in 5 of 6 traced steps: ",
		 "memtrace record -o all.mtr -- COMMAND && memtrace estimate all.mtr --optimizer 8bit");
}

static void a_price_that_is_not_known_is_not_said(void **state)
{
	struct verdict v;
	const char *text;

	(void)state;
	f.r.cost.price = (struct report_price){ .pid = 10, .steps_before = 4, .steps = 9, .lost = 0.755, .error = 0.586 };
	v = judged();
	text = line_of(&v, VERDICT_COMPLETE)->text;
	assert_non_null(strstr(text, "tracing cost 3.1 % of the job's CPU time, and 4 untraced and 9 traced steps "
			       "are too few"));
	assert_null(strstr(text, "75.5"));
	f.r.cost.price.error = 0.3;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_COMPLETE)->text, "tracing cost the job 75.5 % of its speed "
			       "(give or take 30.0 %)."));
	f.r.cost.price.error = 0.8; /* nothing that stands out */
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_COMPLETE)->text, "tracing cost 3.1 % of the job's CPU time."));
}

static const char *said_of_price(double lost, double probes, double most)
{
	static struct verdict v;

	f.r.cost.price = (struct report_price){ .pid = 10, .steps_before = 40, .steps = 90, .lost = lost, .error = 0.048 };
	f.r.cost.share = probes;
	f.r.cost.share_most = most;
	v = judged();
	return line_of(&v, VERDICT_COMPLETE)->text;
}

static void other_work_is_not_the_price_of_tracing(void **state)
{
	const char *text = said_of_price(0.901, 0.006, 0.11);

	(void)state;
	assert_non_null(strstr(text, "; traced steps took 10.1 times as long as others, of which the probes explain 0.6 % and "
			       "memtrace itself at most 11.0 % of its time: other work on the machine?"));
	assert_null(strstr(text, "tracing cost"));
	/* as they are measured where nothing else runs: mlp and lstm of docs/cost.md, and others */
	assert_non_null(strstr(said_of_price(0.695, 0.505, 0.619), "tracing cost the job 69.5 % of its speed"));
	assert_non_null(strstr(said_of_price(0.41, 0.253, 0.417), "tracing cost the job 41.0 % of its speed"));
	assert_non_null(strstr(said_of_price(0.4, 0.15, 0.3), "tracing cost the job 40.0 % of its speed"));
	assert_non_null(strstr(said_of_price(0.17, 0.04, 0.06), "tracing cost the job 17.0 % of its speed"));
	assert_non_null(strstr(said_of_price(0.901, 0.006, 0), "tracing cost the job 90.1 % of its speed")); /* not known */
}

static void copies_of_workers(void **state)
{
	(void)state;
	f.procs[0].use[MT_USE_PSS] = 2 * GIB;
	for (size_t i = 1; i < 5; i++)
		f.procs[i] = (struct report_proc){ .pid = (uint32_t)(20 + i), .ppid = 10, .comm = (char *)"pt_data_worker",
						   .cmdline = (char *)"", .how = EV_PROC_FORKED,
						   .use = { [MT_USE_PRIVATE] = 500 * MIB, [MT_USE_PSS] = 600 * MIB } };
	f.r.procs_cnt = 5;
	first_is(VERDICT_WORKERS, VERDICT_HINT, 2000 * MIB, "4 DataLoader workers hold 1.95 GiB of their "
		 "own, 500 MiB each at most",
		 "half the num_workers saves 1000 MiB");
	for (size_t i = 1; i < 5; i++)
		f.procs[i].use[MT_USE_PRIVATE] = 30 * MIB;
	first_is(VERDICT_PEAK, VERDICT_FACT, 10 * GIB, "Peak", "");
}

/* Of large ones PSS is not known: all is what each has alone, and what they share once. */
static void copies_of_large_workers(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		f.procs[i] = (struct report_proc){ .pid = (uint32_t)(20 + i), .ppid = 10, .cmdline = (char *)"",
						   .how = EV_PROC_FORKED, .use_unknown = 1u << MT_USE_PSS };
		f.procs[i].comm = (char *)(i ? "pt_data_worker" : "python");
		f.procs[i].use[MT_USE_PRIVATE] = i ? 1 * GIB : GIB / 2;
		f.procs[i].use[MT_USE_SHARED] = i * GIB;
	}
	f.r.procs_cnt = 3;
	first_is(VERDICT_WORKERS, VERDICT_HINT, 2 * GIB, "2 DataLoader workers hold 2.00 GiB of their own, "
		 "1.00 GiB each at most, of 4.50 GiB of all processes", "half the num_workers saves 1.00 GiB");
}

static void workers_that_grow(void **state)
{
	const struct report_own own = { .first_ns = FIX_T0, .last_ns = FIX_T0 + 10000000000ull, .own_first = 100 * MIB,
					.own_last = 180 * MIB, .shared_first = 300 * MIB, .shared_last = 225 * MIB,
					.reads = 6, .rises = 5 };

	(void)state;
	f.procs[0].use[MT_USE_PSS] = 2 * GIB;
	for (size_t i = 1; i < 3; i++)
		f.procs[i] = (struct report_proc){ .pid = (uint32_t)(20 + i), .ppid = 10, .comm = (char *)"pt_data_worker",
						   .cmdline = (char *)"", .how = EV_PROC_FORKED, .own = own,
						   .use = { [MT_USE_PRIVATE] = 180 * MIB, [MT_USE_PSS] = 200 * MIB } };
	f.r.procs_cnt = 3;
	first_is(VERDICT_WORKERS, VERDICT_HINT, 360 * MIB, "it grows by 16.0 MiB a second (200 MiB to 360 MiB in 10.0 s), by "
		 "copy-on-write: 150 MiB that they shared with their parent is copied now",
		 "half the num_workers saves 180 MiB");
	f.procs[1].own.shared_first = f.procs[2].own.shared_first = 230 * MIB;
	first_is(VERDICT_WORKERS, VERDICT_HINT, 360 * MIB, "by what they allocate themselves: no more than "
		 "10.0 MiB was shared", "");
	f.procs[1].own.rises = f.procs[2].own.rises = 2; /* up and down */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	f.procs[1].own = f.procs[2].own = own;
	f.procs[1].own.reads = f.procs[2].own.reads = 2; /* once, at its begin */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
}

/* Anonymous memory, and tensors in it, in buckets of a second. */
static void set_held(struct point *held, struct point *live, size_t cnt)
{
	f.r.kernel.kinds[MT_RSS_ANON] = (struct series){ held, cnt, 1000000000 };
	f.devs[1].series = (struct series){ live, cnt, 1000000000 };
	for (size_t i = 0; i < cnt; i++)
		held[i].ts_ns = live[i].ts_ns = FIX_T0 + i * 1000000000;
}

static void holes_of_the_allocator(void **state)
{
	struct point held[12] = { 0 }, live[12] = { 0 };

	(void)state;
	set_held(held, live, 12);
	for (size_t i = 0; i < 12; i++) {
		held[i].live_max = held[i].live_end = i ? 900 * MIB : 200 * MIB;
		live[i].live_max = live[i].live_end = i < 2 ? i * 600 * MIB : 40 * MIB;
	}
	held[1].live_end = 200 * MIB + 600 * MIB;
	held[11].live_end = 0; /* it ended */
	f.devs[1].peak = 600 * MIB;
	f.devs[1].peak_ts_ns = FIX_T0 + 1900000000;
	f.procs[0].rss_peak = GIB;
	for (size_t i = 0; i < STEPS; i++)
		f.steps[i].begin_ts_ns = f.steps[i].at[MARK_STEP].ts_ns = FIX_T0 + i * 100000000;
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK); /* 10 GiB on the GPU: this is a fact behind */
	assert_int_equal(judged().lines[1].kind, VERDICT_FRAGMENTED);
	assert_int_equal(judged().lines[1].severity, VERDICT_FACT);
	f.devs[0].peak = 5 * GIB;
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 560 * MIB, "The process keeps 900 MiB of memory, and in the last 4.00 s its "
		 "tensors had 40.0 MiB of that at most: 560 MiB was freed", "malloc_trim(0) behind what needed it gives "
		 "up to 560 MiB back");
	f.devs[0].peak = 10 * GIB;
	live[9].live_max = 600 * MIB; /* it is used, again and again */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	live[9].live_max = 40 * MIB;
	f.devs[1].peak_ts_ns = FIX_T0 + 9500000000; /* a step that has just begun may use it again */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	f.devs[1].peak_ts_ns = FIX_T0 + 1900000000;
	f.devs[1].peak = 200 * MIB; /* what else the process has is no tensors' */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	f.devs[1].dev = MT_DEV_HOST; /* of malloc all is known */
	f.devs[0].peak = 5 * GIB;
	first_is(VERDICT_FRAGMENTED, VERDICT_HINT, 660 * MIB, "its blocks of malloc had 40.0 MiB", "malloc_trim");
	f.devs[0].peak = 10 * GIB;
	f.procs[1] = (struct report_proc){ .pid = 11, .comm = (char *)"", .cmdline = (char *)"", .rss_peak = GIB };
	f.r.procs_cnt = 2; /* what forks share is counted twice */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
}

static void a_spike(void **state)
{
	(void)state;
	set_step(57, 20 * GIB);
	f.devs[0].peak = f.procs[0].peak = 20 * GIB;
	f.procs[0].highest_step = f.steps[57];
	first_is(VERDICT_SPIKE, VERDICT_HINT, 10 * GIB, "Step 58 peaks at 20.0 GiB, 2 times the usual "
		 "10.0 GiB, alone of 100 steps",
		 "(a longer batch, an evaluation?): memtrace report job.mtr --at step:58 --by op");
	set_step(57, 1020 * GIB); /* no 1e+02 */
	f.devs[0].peak = f.procs[0].peak = 1020 * GIB;
	f.procs[0].highest_step = f.steps[57];
	first_is(VERDICT_SPIKE, VERDICT_HINT, 1010 * GIB, "peaks at 1020 GiB, 102 times the usual 10.0 GiB", "");
	set_step(57, 20 * GIB);
	f.devs[0].peak = f.procs[0].peak = 20 * GIB;
	f.procs[0].highest_step = f.steps[57];
	f.modules[0] = (struct report_module){ .name = (char *)"head", .root = (char *)"Net", .all = { .at_peak = GIB } };
	f.r.modules.cnt = 1;
	first_is(VERDICT_SPIKE, VERDICT_HINT, 10 * GIB, "Step 58", "capped it saves 10.0 GiB");
	first_is(VERDICT_SPIKE, VERDICT_HINT, 10 * GIB, "Step 58", "memtrace report job.mtr --at step:58 --by module");
	set_step(58, 19 * GIB);
	first_is(VERDICT_SPIKE, VERDICT_HINT, 10 * GIB, "2 of 100 steps are that high", "step 58");
	for (size_t i = 0; i < 40; i++)
		set_step(i, 20 * GIB); /* how this job is */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
}

/* No recording is kept of what is looked at while it runs: a command that reads one begins with making it. */
static void live_commands_can_be_typed(void **state)
{
	struct verdict v;

	(void)state;
	f.r.run.is_live = 1;
	f.r.run.ended = 0;
	f.r.marks.steps_total = STEPS;
	f.devs[0].cats[CAT_OPTIMIZER_STATE].at_peak = 5 * GIB;
	f.devs[0].cats[CAT_ACTIVATION].at_peak = GIB;
	set_step(57, 20 * GIB);
	f.devs[0].peak = f.procs[0].peak = 20 * GIB;
	f.procs[0].highest_step = f.steps[57];
	verdict__of(&v, &f.r, NULL);
	assert_non_null(strstr(line_of(&v, VERDICT_SPIKE)->next,
			       "memtrace record -p 10 -d 60 -o job.mtr && memtrace report job.mtr --at peak --by op"));
	set_step(57, 10 * GIB);
	f.devs[0].peak = f.procs[0].peak = 10 * GIB;
	f.procs[0].highest_step = f.steps[57];
	verdict__of(&v, &f.r, NULL);
	assert_non_null(strstr(line_of(&v, VERDICT_STATE)->next, "memtrace record -p 10 -d 10 --max-overhead none "
			       "-o all.mtr && memtrace estimate all.mtr --optimizer 8bit"));
	for (size_t i = 0; i < v.cnt; i++)
		assert_null(strstr(v.lines[i].next, "FILE"));
	f.r.run.is_live = 0; /* it has just detached */
	verdict__of(&v, &f.r, NULL);
	assert_null(strstr(line_of(&v, VERDICT_STATE)->next, "FILE"));
	verdict__of(&v, &f.r, "live.mtr"); /* -o */
	assert_non_null(strstr(line_of(&v, VERDICT_STATE)->next, "memtrace estimate live.mtr --optimizer 8bit"));
}

static void a_recompile(void **state)
{
	struct report_recompile row = { .function = (char *)"forward (train.py:36)",
					.reason = (char *)"tensor 'x' size mismatch at index 0. expected 9, actual 10",
					.failed = (char *)"" };
	struct report_recompile_why why = { 4, 3100000000, GIB, &row };

	(void)state;
	f.r.run.end_ts_ns = FIX_T0 + 50000000000ull;
	f.r.compiles = (struct report_compiles){ .cnt = 5, .ns = 9000000000, .again = 4, .again_ns = 3100000000,
						 .whys = &why, .whys_cnt = 1, .rows = &row, .rows_cnt = 1 };
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, 0, "torch.compile compiled again 4 times: 3.10 s of 50.0 s; most often "
		 "forward (train.py:36), because tensor 'x' size mismatch", "mark_dynamic()");
	f.r.compiles.again_ns = 2400000000; /* too little of the time … */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
	f.r.compiles.added = GIB; /* … but a tenth of the peak */
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, GIB, "at most 1.00 GiB more meanwhile", "mark_dynamic()");
	row.reason = (char *)"___check_type_id(L['n'], 94)";
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, GIB, "___check_type_id", "memtrace report job.mtr -v");
	row.failed = (char *)"Dynamo recompile limit exceeded";
	row.step = 25;
	row.reason = (char *)"self.k == 7   # if self.k == 0:  # src/model/train.py:5 in forward (HINT: torch.compile "
			     "considers integer attributes of the nn.Module to be static. If";
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, 0, "torch.compile gave up on forward (train.py:36) at step 25: its limit of "
		 "recompiles is reached, and calls that no compilation fits run uncompiled; "
		 "this one because self.k == 7 (train.py:5 in forward)",
		 "allow_unspec_int_on_nn_module");
	row.failed = (char *)"out of resource: shared memory, Required: 264192, Hardware limit: 232448";
	assert_null(strstr(judged().lines[0].text, "gave up"));
	row.failed = (char *)"";
	f.r.compiles.again = 0; /* all of it before the trace */
	assert_int_equal(judged().lines[0].kind, VERDICT_PEAK);
}

/* Of two jobs that share no process: the one that it took longest in, its own most frequent reason, its own peak. */
static void recompiles_of_several_jobs(void **state)
{
	struct report_recompile rows[4];
	struct report_recompile_why why = { 4, 6 * S, 0, &rows[3] };
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < 4; i++) /* three of 10, the last of 11 */
		rows[i] = (struct report_recompile){ .pid = i < 3 ? 10 : 11, .ns = i < 3 ? S : 4 * S, .id = (char *)"0/1",
						     .function = (char *)"forward (a.py:3)", .reason = (char *)"x == 1",
						     .failed = (char *)"" };
	rows[3].function = (char *)"forward (b.py:5)";
	for (size_t i = 0; i < 2; i++) {
		f.procs[i] = f.procs[0];
		f.procs[i].pid = (uint32_t)(10 + i);
		f.procs[i].ppid = 1;
		f.procs[i].cmdline = (char *)(i ? "python b.py" : "python a.py");
		f.procs[i].devs = f.on[i];
		f.procs[i].devs_cnt = 1;
		f.on[i][0] = (struct report_proc_dev){ .peak = 10 * GIB, .dev = MT_DEV_CUDA0 };
	}
	f.r.procs_cnt = 2;
	f.r.run.end_ts_ns = FIX_T0 + 50 * S;
	f.r.compiles = (struct report_compiles){ .cnt = 9, .again = 4, .again_ns = 7 * S, .whys = &why, .whys_cnt = 1,
						 .rows = rows, .rows_cnt = 4 };
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, 0, "torch.compile of process 11 (b.py) compiled again 1 time: 4.00 s of "
		 "50.0 s; most often forward (b.py:5), because x == 1", "report job.mtr -v");
	rows[2].ns = 3 * S;
	rows[1].reason = (char *)"x == 2";
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, 0, "torch.compile of process 10 (a.py) compiled again 3 times: 5.00 s of "
		 "50.0 s; most often forward (a.py:3), because x == 1, and other numbers the times before", "");
	rows[3].failed = (char *)"Dynamo recompile limit exceeded";
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, 0, "torch.compile of process 11 (b.py) gave up on forward (b.py:5): ", "");
	for (size_t i = 0; i < 3; i++)
		rows[i].ns = S; /* each job's own are too few: 3 s of 50 are enough, 2 are not */
	rows[2].ns = S / 4;
	rows[3].ns = 2 * S;
	rows[3].failed = (char *)"";
	v = judged();
	assert_null(line_of(&v, VERDICT_RECOMPILES));
	rows[2].added = 2 * GIB; /* of 10's own peak */
	first_is(VERDICT_RECOMPILES, VERDICT_HINT, 2 * GIB, "torch.compile of process 10 (a.py) compiled again 3 times", "");
}

static void a_peak_outside_of_steps(void **state)
{
	struct verdict v;

	(void)state;
	f.devs[0].peak = f.procs[0].peak = 12 * GIB;
	v = judged();
	assert_non_null(strstr(line_of(&v, VERDICT_PEAK)->text, "outside of the 100 steps"));
}

/* --- hostile ---------------------------------------------------------------------------------------------- */

static void hostile_reports_are_survived(void **state)
{
	struct report all[] = { fix_report(), fix_empty(), fix_hostile() };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct verdict v;

		verdict__of(&v, &all[i], NULL);
		assert_true(v.cnt >= 1 && v.cnt <= VERDICT_MAX);
		for (size_t k = 0; k < v.cnt; k++)
			for (const char *c = v.lines[k].text; *c; c++)
				assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_wrong_is_no_problem, sound),
		cmocka_unit_test_setup(growth_in_gaps_is_not_said, sound),
		cmocka_unit_test_setup(a_moment_between_windows_is_reported, sound),
		cmocka_unit_test_setup(memory_beside_tensors_that_grows, sound),
		cmocka_unit_test_setup(what_grew_until_the_job_ended, sound),
		cmocka_unit_test_setup(what_others_bring_is_no_growth, sound),
		cmocka_unit_test_setup(what_loads_is_no_growth, sound),
		cmocka_unit_test_setup(memory_beside_tensors, sound),
		cmocka_unit_test_setup(memory_beside_a_gpu, sound),
		cmocka_unit_test_setup(a_leak_of_some_steps, sound),
		cmocka_unit_test_setup(what_was_not_seen_is_not_complete, sound),
		cmocka_unit_test_setup(before_the_first_traced_step, sound),
		cmocka_unit_test_setup(losses_are_said, sound),
		cmocka_unit_test_setup(few_steps_are_too_short, sound),
		cmocka_unit_test_setup(traced_steps_are_counted_in_one_way, sound),
		cmocka_unit_test_setup(a_leak, sound),
		cmocka_unit_test(the_line_of_a_stack),
		cmocka_unit_test_setup(a_leak_that_was_caught, sound),
		cmocka_unit_test_setup(reserved_and_idle, sound),
		cmocka_unit_test_setup(a_refusal, sound),
		cmocka_unit_test_setup(an_exit_code, sound),
		cmocka_unit_test_setup(a_refusal_after_a_rise, sound),
		cmocka_unit_test_setup(a_kill, sound),
		cmocka_unit_test_setup(a_fat_rank, sound),
		cmocka_unit_test_setup(a_fat_rank_of_two_jobs, sound),
		cmocka_unit_test_setup(growth_of_one_job, sound),
		cmocka_unit_test_setup(workers_of_one_job, sound),
		cmocka_unit_test_setup(a_rank_that_was_judged, sound),
		cmocka_unit_test_setup(activations, sound),
		cmocka_unit_test_setup(a_root_that_has_it_itself, sound),
		cmocka_unit_test_setup(other_leaks, sound),
		cmocka_unit_test_setup(a_peak_of_a_leak, sound),
		cmocka_unit_test_setup(what_saves_little_is_not_proposed, sound),
		cmocka_unit_test_setup(what_would_not_help_is_not_proposed, sound),
		cmocka_unit_test_setup(the_peak_has_a_line, sound),
		cmocka_unit_test_setup(state_of_training, sound),
		cmocka_unit_test_setup(temporaries_of_the_optimizer, sound),
		cmocka_unit_test_setup(temporaries_beside_state_from_before, sound),
		cmocka_unit_test_setup(what_compiled_code_made, sound),
		cmocka_unit_test_setup(what_is_not_known_comes_last, sound),
		cmocka_unit_test_setup(of_some_steps_the_command_records_all, sound),
		cmocka_unit_test_setup(a_price_that_is_not_known_is_not_said, sound),
		cmocka_unit_test_setup(other_work_is_not_the_price_of_tracing, sound),
		cmocka_unit_test_setup(copies_of_workers, sound),
		cmocka_unit_test_setup(copies_of_large_workers, sound),
		cmocka_unit_test_setup(workers_that_grow, sound),
		cmocka_unit_test_setup(holes_of_the_allocator, sound),
		cmocka_unit_test_setup(several_jobs, sound),
		cmocka_unit_test_setup(commands_are_of_what_was_chosen, sound),
		cmocka_unit_test_setup(jobs_of_ranks, sound),
		cmocka_unit_test_setup(jobs_on_two_devices, sound),
		cmocka_unit_test_setup(jobs_of_many_processes, sound),
		cmocka_unit_test_setup(a_spike, sound),
		cmocka_unit_test_setup(live_commands_can_be_typed, sound),
		cmocka_unit_test_setup(a_recompile, sound),
		cmocka_unit_test_setup(recompiles_of_several_jobs, sound),
		cmocka_unit_test_setup(a_peak_outside_of_steps, sound),
		cmocka_unit_test_setup(hostile_reports_are_survived, sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
