/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Ranks: labels, who belongs to whom, who stands out, steps brought together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "event/rank_label.h"
#include "model/model.h"
#include "model/ranks.h"
#include "timeline/ranks.h"

/* --- labels ------------------------------------------------------------------------------------------- */

static struct rank_label label_of(const char *const *texts)
{
	struct rank_label l = { 0 };

	while (*texts)
		rank_label__add(&l, *texts++);
	return l;
}

static void test_labels(void **state)
{
	struct rank_label l;
	uint32_t rank = 99;

	(void)state;
	l = label_of((const char *const[]){ "SLURM_PROCID=0", "RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "GROUP_RANK=1",
					    "TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID=77", "SLURMD_NODENAME=n1", NULL });
	assert_int_equal(rank_label__rank(&l, &rank), RANK_TORCH);
	assert_int_equal(rank, 3);
	assert_int_equal(rank_label__num(&l, RANK_WORLD), 8);
	assert_int_equal(rank_label__num(&l, RANK_OF_NODE), 1);
	assert_int_equal(rank_label__num(&l, RANK_NODE), 1);
	assert_int_equal(rank_label__num(&l, RANK_NODES), -1);
	assert_string_equal(l.job, "77");
	assert_string_equal(l.node, "n1");
	l = label_of((const char *const[]){ "RANK=3", "SLURM_PROCID=0", NULL }); /* in whatever order */
	assert_int_equal(rank_label__rank(&l, &rank), RANK_TORCH);
	l = label_of((const char *const[]){ "LOCAL_RANK=2", "MASTER_ADDR=x", NULL });
	assert_int_equal(rank_label__rank(&l, &rank), RANK_LOCAL);
	assert_int_equal(rank, 2);
	l = label_of((const char *const[]){ "TORCHELASTIC_RUN_ID=run", "SLURM_JOB_ID=77", NULL });
	assert_int_equal(rank_label__rank(&l, &rank), RANK_NONE);
	assert_string_equal(l.job, "run");
}

static void test_odd_labels(void **state)
{
	static const char *const odd[] = { "RANK=", "RANK=-1", "RANK=3x", "RANK= 3", "RANK=99999999999", "RANK=4294967295",
					   "RANKS=3", "RANK", "", "=3", NULL };
	char longer[4000];
	struct rank_label l = label_of(odd);
	uint32_t rank;

	(void)state;
	assert_int_equal(rank_label__rank(&l, &rank), RANK_NONE);
	memset(longer, 'x', sizeof(longer));
	memcpy(longer, "SLURM_JOB_ID=", 13);
	longer[sizeof(longer) - 1] = '\0';
	rank_label__add(&l, longer);
	assert_int_equal(strlen(l.job), RANK_TEXT_BYTES - 1);
}

/* --- judging -------------------------------------------------------------------------------------------- */

static struct report_ranks *ranks_of(const uint64_t *peaks, size_t cnt)
{
	struct report_ranks *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->rows = calloc(cnt + 1, sizeof(*r->rows));
	assert_non_null(r->rows);
	for (size_t i = 0; i < cnt; i++)
		r->rows[i] = (struct report_rank){ .rank = (uint32_t)i, .source = RANK_TORCH, .peak = peaks[i], .live = 100 };
	r->cnt = cnt;
	return r;
}

static void test_outliers(void **state)
{
	static const uint64_t peaks[] = { 1000, 1000, 5000, 1000, 1001, 200 };
	struct report_ranks *r = ranks_of(peaks, 6);

	(void)state;
	r->rows[2].cats[CAT_ACTIVATION].at_peak = 4100;
	r->rows[2].cats[CAT_GRADIENT].at_peak = 200;
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->max_row, 2);
	assert_int_equal(r->min_row, 5);
	assert_int_equal(r->rows[r->median_row].peak, 1000);
	assert_int_equal(r->outliers_cnt, 2);
	assert_int_equal(r->outliers[0].row, 2);
	assert_int_equal(r->outliers[0].cat, CAT_ACTIVATION);
	assert_int_equal(r->outliers[0].more, 4000);
	assert_int_equal(r->outliers[1].row, 5);
	assert_true(r->outliers[1].score < 0);
	report_ranks__free(r);
}

static void test_equal_ranks(void **state)
{
	static const uint64_t same[] = { 1000, 1000, 1010, 1000 }, two[] = { 1000, 1240 }, far[] = { 1000, 1250 };
	static const uint64_t one[] = { 7 };
	struct report_ranks *r = ranks_of(same, 4);

	(void)state;
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->outliers_cnt, 0); /* one percent is nothing */
	report_ranks__free(r);
	r = ranks_of(two, 2);
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->outliers_cnt, 0); /* as the verdict, which says nothing of it */
	report_ranks__free(r);
	r = ranks_of(far, 2);
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->outliers_cnt, 1);
	assert_int_equal(r->outliers[0].row, 1);
	report_ranks__free(r);
	r = ranks_of(one, 1);
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->outliers_cnt, 0);
	report_ranks__free(r);
	r = ranks_of(one, 0);
	assert_int_equal(report_ranks__judge(r), 0);
	report_ranks__free(r);
}

/* The recording ended in the middle of a step of one of them, or another has given all back. */
static void test_end_in_mid_step(void **state)
{
	static const uint64_t peaks[] = { 1000, 1000, 1000 };

	(void)state;
	for (size_t cnt = 2; cnt <= 3; cnt++) {
		struct report_ranks *r = ranks_of(peaks, cnt);

		r->rows[0].live = 0;
		r->rows[1].live = 900;
		assert_int_equal(report_ranks__judge(r), 0);
		assert_int_equal(r->outliers_cnt, 0);
		report_ranks__free(r);
	}
}

static void test_two_jobs(void **state)
{
	static const uint64_t peaks[] = { 1000, 1000, 70, 70, 70, 90 };
	struct report_ranks *r = ranks_of(peaks, 6);

	(void)state;
	for (int i = 2; i < 6; i++)
		strcpy(r->rows[i].label.job, "small");
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->outliers_cnt, 1);
	assert_int_equal(r->rows[r->outliers[0].row].peak, 90);
	assert_int_equal(r->outliers[0].more, 20);
	report_ranks__free(r);
}

static void test_missing(void **state)
{
	static const uint64_t peaks[] = { 1, 1, 1 };
	struct report_ranks *r = ranks_of(peaks, 3);

	(void)state;
	r->rows[0].rank = 6;
	r->rows[1].rank = 1;
	r->rows[2].rank = 3;
	rank_label__add(&r->rows[1].label, "WORLD_SIZE=8");
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->missing_total, 5);
	assert_int_equal(r->missing[0], 0);
	assert_int_equal(r->missing[1], 2);
	assert_int_equal(r->missing[4], 7);
	report_ranks__free(r);
	r = ranks_of(peaks, 3);
	rank_label__add(&r->rows[2].label, "WORLD_SIZE=2147483647"); /* a lie is quick */
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->missing_cnt, RANK_MISSING_MAX);
	assert_int_equal(r->missing_total, 2147483647u - 3);
	report_ranks__free(r);
}

static void give_steps(struct report_rank *row, uint64_t t0, size_t cnt, int marked, uint64_t first)
{
	row->steps = calloc(cnt, sizeof(*row->steps));
	assert_non_null(row->steps);
	for (size_t i = 0; i < cnt; i++)
		row->steps[i] = (struct report_step){ .number = first + i, .ts_ns = t0 + i * 100, .peak = 10 * (i + 1) };
	row->steps_cnt = cnt;
	row->steps_marked = (uint8_t)marked;
}

/* The second rank was attached three steps later: its first step is the fourth of the first. */
static void test_counted_steps(void **state)
{
	static const uint64_t peaks[] = { 1, 1, 1 };
	struct report_ranks *r = ranks_of(peaks, 3);

	(void)state;
	give_steps(&r->rows[0], 1000, 10, 0, 0);
	give_steps(&r->rows[1], 1304, 6, 0, 0);
	assert_int_equal(report_ranks__judge(r), 0); /* the third has no steps: it is left out */
	assert_int_equal(r->steps_cnt, 6);
	assert_int_equal(r->steps[0].ts_ns, 1300);
	assert_int_equal(r->steps[0].late_ns, 4);
	assert_int_equal(r->steps[0].number, 1);
	assert_int_equal(r->steps[0].max, 40); /* the first one's fourth */
	assert_int_equal(r->steps[0].min, 10);
	report_ranks__free(r);
}

/* As above, but its first step began as late as a step is long: nearer to the fifth; the others say which one it was. */
static void test_late_first_step(void **state)
{
	static const uint64_t peaks[] = { 1, 1 };
	struct report_ranks *r = ranks_of(peaks, 2);

	(void)state;
	give_steps(&r->rows[0], 1000, 10, 0, 0);
	give_steps(&r->rows[1], 1304, 6, 0, 0);
	r->rows[1].steps[0].ts_ns = 1380;
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->steps_cnt, 6);
	assert_int_equal(r->steps[0].ts_ns, 1300);
	assert_int_equal(r->steps[0].late_ns, 80);
	assert_int_equal(r->steps[5].late_ns, 4);
	report_ranks__free(r);
}

static void test_marked_steps(void **state)
{
	static const uint64_t peaks[] = { 1, 1 };
	struct report_ranks *r = ranks_of(peaks, 2);

	(void)state;
	give_steps(&r->rows[0], 1000, 5, 1, 100);
	give_steps(&r->rows[1], 999000, 5, 1, 102); /* their numbers count, not the clock */
	assert_int_equal(report_ranks__judge(r), 0);
	assert_int_equal(r->steps_cnt, 3);
	assert_int_equal(r->steps[0].number, 102);
	report_ranks__free(r);
}

/* --- events -------------------------------------------------------------------------------------------- */

static struct names *names;
static struct ranks *ranks;
static struct model *whole;
static struct report_ranks *r; /* the last one told */
static uint64_t clock_ns;

static int begin(void **state)
{
	(void)state;
	names = names__new();
	ranks = ranks__new(names, CLASSES_COMPAT);
	whole = model__new(names, NULL);
	clock_ns = 1000;
	r = NULL;
	return names && ranks && whole ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	model__check(whole);
	model__free(whole);
	ranks__free(ranks);
	report_ranks__free(r);
	names__free(names);
	return 0;
}

static void send(struct event ev)
{
	ev.ts_ns = clock_ns += 10;
	if (!ev.tid)
		ev.tid = ev.pid;
	assert_int_equal(model__handle(whole, &ev), 0);
	assert_int_equal(ranks__handle(ranks, &ev), 0);
}

static void proc(uint32_t pid, uint32_t ppid, enum ev_proc_how how, const char *label)
{
	send((struct event){ .kind = EV_PROC, .pid = pid, .aux = ppid, .flags = (uint8_t)how, .size = 5 });
	if (label)
		send((struct event){ .kind = EV_LABEL, .pid = pid, .name = names__add(names, label) });
	send((struct event){ .kind = EV_CPU, .pid = pid, .size = 1 });
}

static void alloc(uint32_t pid, uint64_t addr, uint64_t size)
{
	send((struct event){ .kind = MT_EV_ALLOC, .pid = pid, .dev = MT_DEV_CPU, .addr = addr, .size = size });
}

static void tell(int cnt)
{
	report_ranks__free(r);
	r = NULL;
	assert_int_equal(ranks__report(ranks, 5, &r), 0);
	assert_int_equal(r->cnt, cnt);
}

static void expect(int row, uint32_t pid, int procs_cnt, uint64_t live)
{
	assert_int_equal(r->rows[row].pid, pid);
	assert_int_equal(r->rows[row].procs_cnt, procs_cnt);
	assert_int_equal(r->rows[row].live, live);
}

static void gone(uint32_t pid)
{
	send((struct event){ .kind = EV_GONE, .pid = pid });
}

/* What a rank has in a gap is neither a peak nor a point; steps that begin in one have none. */
static void test_gaps_of_ranks(void **state)
{
	uint64_t max, median, min;

	(void)state;
	send((struct event){ .kind = EV_BEGIN, .pid = 10, .addr = 5 });
	proc(11, 10, EV_PROC_ATTACHED, "RANK=0");
	proc(12, 10, EV_PROC_ATTACHED, "RANK=1");
	send((struct event){ .kind = MT_EV_STEP, .pid = 11, .addr = 1 });
	alloc(11, 0x1000, 100);
	alloc(12, 0x1000, 200);
	send((struct event){ .kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH, .aux = 11 });
	alloc(11, 0x2000, 1000);
	send((struct event){ .kind = MT_EV_STEP, .pid = 11, .addr = 2 });
	clock_ns += 10000000000ull;
	send((struct event){ .kind = EV_TICK });
	tell(2);
	assert_int_equal(r->rows[0].peak, 100);
	assert_int_equal(r->rows[1].peak, 200);
	assert_int_equal(r->rows[0].steps_cnt, 1);
	assert_int_equal(r->rows[0].steps_total, 2);
	assert_true(report_ranks__bucket(r, 0, &max, &median, &min));
	assert_int_equal(max, 200);
	assert_true(report_ranks__bucket(r, r->rows[0].series.cnt - 1, &max, &median, &min));
	assert_int_equal(max, POINT_UNKNOWN);
}

/* Launcher, two ranks (as forks that exec), a worker of one; the pid of the other comes back as its late child. */
static void test_whose(void **state)
{
	struct model_live live;

	(void)state;
	send((struct event){ .kind = EV_BEGIN, .pid = 10, .addr = 5 });
	proc(10, 1, EV_PROC_LAUNCHED, NULL);
	proc(11, 10, EV_PROC_FORKED, NULL);
	proc(12, 10, EV_PROC_FORKED, NULL);
	alloc(11, 0x1000, 7); /* of the launcher's image: gone with the exec */
	proc(11, 10, EV_PROC_EXECED, "RANK=0");
	proc(12, 10, EV_PROC_EXECED, "RANK=1");
	alloc(10, 0x1000, 1);
	alloc(11, 0x1000, 100);
	alloc(12, 0x1000, 200);
	proc(13, 11, EV_PROC_FORKED, "RANK=0");
	alloc(13, 0x2000, 1000);
	gone(13);
	proc(13, 12, EV_PROC_FORKED, "RANK=1");
	alloc(13, 0x3000, 40);
	tell(2);
	expect(0, 11, 2, 100);
	assert_int_equal(r->rows[0].peak, 1100);
	assert_int_equal(r->rows[1].live, 240);
	assert_int_equal(r->rows[1].procs_cnt, 2);
	assert_int_equal(r->others_live, 1);
	live = model__live(whole);
	assert_int_equal(live.cpu, r->rows[0].live + r->rows[1].live + r->others_live);
	assert_non_null(r->worst);
	assert_int_equal(r->worst->devs[0].peak, 1100);
}

/* A rank's compiler: forked and looked at before its exec, when its environment cannot be read. What it starts names the
 * rank again, before it does so itself. */
static void test_helpers(void **state)
{
	(void)state;
	proc(10, 1, EV_PROC_LAUNCHED, NULL);
	proc(11, 10, EV_PROC_EXECED, "RANK=0");
	proc(12, 10, EV_PROC_EXECED, "RANK=1");
	alloc(11, 0x1000, 100);
	alloc(12, 0x1000, 200);
	proc(21, 11, EV_PROC_FORKED, NULL);
	alloc(21, 0x2000, 1);
	proc(22, 21, EV_PROC_FORKED, "RANK=0");
	alloc(22, 0x2000, 2);
	proc(21, 11, EV_PROC_EXECED, "RANK=0");
	proc(22, 21, EV_PROC_EXECED, "RANK=0");
	alloc(22, 0x3000, 4);
	proc(23, 12, EV_PROC_FORKED, "RANK=1"); /* its environment is emptied */
	proc(23, 12, EV_PROC_EXECED, NULL);
	alloc(23, 0x2000, 8);
	proc(12, 10, EV_PROC_EXECED, NULL); /* read too early */
	proc(12, 10, EV_PROC_EXECED, "RANK=1");
	alloc(12, 0x4000, 16);
	tell(2);
	assert_int_equal(r->jobs_cnt, 1);
	expect(0, 11, 3, 104);
	expect(1, 12, 2, 24);
	assert_int_equal(r->others_live, 0);
}

/* In a merged recording two processes are told at once. */
static void test_reported_at_once(void **state)
{
	(void)state;
	for (uint32_t pid = 11; pid < 13; pid++)
		send((struct event){ .kind = EV_PROC, .pid = pid, .flags = EV_PROC_EXECED });
	send((struct event){ .kind = EV_LABEL, .pid = 11, .name = names__add(names, "RANK=0") });
	send((struct event){ .kind = EV_LABEL, .pid = 12, .name = names__add(names, "RANK=1") });
	alloc(12, 0x1000, 7);
	alloc(11, 0x1000, 5);
	tell(2);
	assert_int_equal(r->rows[0].live, 5);
	assert_int_equal(r->rows[1].live, 7);
}

/* After a failure the launcher starts the rank again: another process, the same rank. */
static void test_restarted(void **state)
{
	(void)state;
	proc(11, 10, EV_PROC_EXECED, "RANK=0");
	send((struct event){ .kind = EV_GONE, .pid = 11, .aux = 9 });
	proc(14, 10, EV_PROC_EXECED, "RANK=0");
	alloc(14, 0x1000, 100);
	send((struct event){ .kind = MT_EV_REGION_BEGIN, .pid = 14, .name = names__add(names, "Optimizer.step#SGD.step") });
	tell(1);
	assert_int_equal(r->rows[0].pid, 14);
	assert_int_equal(r->rows[0].gone, 0);
	assert_int_equal(r->rows[0].steps_cnt, 1);
}

/* torchrun under SLURM: the launcher has a number of SLURM's, and is no rank. */
static void test_launcher_of_slurm(void **state)
{
	(void)state;
	proc(10, 1, EV_PROC_LAUNCHED, "SLURM_PROCID=0");
	proc(11, 10, EV_PROC_EXECED, "RANK=0");
	alloc(10, 0x1000, 3);
	alloc(11, 0x1000, 100);
	tell(1);
	assert_int_equal(r->rows[0].pid, 11);
	assert_int_equal(r->others_live, 3);
}

static void reported_proc(uint32_t pid, uint32_t ppid, const char *const *labels)
{
	send((struct event){ .kind = EV_PROC, .pid = pid, .aux = ppid, .flags = EV_PROC_ATTACHED });
	for (; *labels; labels++)
		send((struct event){ .kind = EV_LABEL, .pid = pid, .name = names__add(names, *labels) });
	send((struct event){ .kind = EV_CPU, .pid = pid, .size = 1 });
}

/* Two jobs on one machine, neither of which has a name: their ranks 0 are two, each with what is its own. */
static void test_two_jobs_at_once(void **state)
{
	static const char *const ports[] = { "MASTER_PORT=29500", "MASTER_PORT=29600" };
	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const char *labels[] = { i % 2 ? "RANK=1" : "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=localhost", ports[i / 2],
					 NULL };

		reported_proc(11 + i, 1, labels);
		alloc(11 + i, 0x1000, i < 2 ? 1000 : i == 2 ? 10 : 70);
	}
	tell(4);
	assert_int_equal(r->jobs_cnt, 2);
	assert_int_equal(r->claimed, 2);
	assert_string_equal(r->rows[0].label.job, "localhost:29500");
	assert_string_equal(r->rows[3].label.job, "localhost:29600");
	assert_int_equal(r->rows[3].peak, 70);
	assert_int_equal(r->rows[3].median_peak, 10);
	assert_int_equal(r->rows[r->median_row].peak, 1000);
	assert_int_equal(r->outliers_cnt, 1); /* not of the other job's 1000 */
	assert_int_equal(r->outliers[0].row, 3);
}

/* Without a port their launchers tell them apart. */
static void test_two_launchers_at_once(void **state)
{
	(void)state;
	proc(11, 9, EV_PROC_ATTACHED, "RANK=0");
	proc(12, 10, EV_PROC_ATTACHED, "RANK=0");
	proc(13, 12, EV_PROC_FORKED, "RANK=0");
	alloc(13, 0x1000, 8);
	tell(2);
	assert_string_equal(r->rows[0].label.job, "launcher 10");
	assert_string_equal(r->rows[1].label.job, "launcher 9");
	assert_int_equal(r->rows[0].peak, 8);
	assert_int_equal(r->rows[0].procs_cnt, 2);
}

/* One job after the other is one rank, if the recording tells that the first one ended. */
static void test_one_after_the_other(void **state)
{
	(void)state;
	proc(11, 9, EV_PROC_ATTACHED, "RANK=0");
	send((struct event){ .kind = EV_GONE, .pid = 11, .flags = 1 });
	proc(12, 10, EV_PROC_ATTACHED, "RANK=0");
	tell(1);
	assert_int_equal(r->claimed, 0);
}

/* The kernel's word of an end comes in time, memtrace's own when it looks. */
static void test_ended_by_the_kernels_word(void **state)
{
	(void)state;
	proc(11, 10, EV_PROC_EXECED, "RANK=0");
	send((struct event){ .kind = MT_EV_EXIT, .pid = 11, .addr = 9 });
	proc(12, 10, EV_PROC_EXECED, "RANK=0");
	send((struct event){ .kind = EV_GONE, .pid = 11, .aux = 9 });
	tell(1);
	assert_int_equal(r->rows[0].pid, 12);
	assert_int_equal(r->rows[0].gone, 0);
}

/* Without the kernel's word: a launcher has each rank of its job once. */
static void test_ended_late(void **state)
{
	static const char *const labels[] = { "RANK=0", "TORCHELASTIC_RUN_ID=a", NULL };
	(void)state;
	reported_proc(11, 10, labels);
	reported_proc(12, 10, labels);
	send((struct event){ .kind = EV_GONE, .pid = 11, .aux = 9 });
	tell(1);
	assert_int_equal(r->rows[0].pid, 12);
	assert_int_equal(r->rows[0].gone, 0);
}

/* "torchrun --no-python run.sh": the shell is the rank's first process, its child makes the steps. Workers come first here. */
static void test_shell_of_a_rank(void **state)
{
	name_id step = names__add(names, "Optimizer.step#SGD.step");
	(void)state;
	proc(13, 12, EV_PROC_FORKED, "RANK=0");
	proc(12, 11, EV_PROC_FORKED, "RANK=0");
	proc(11, 10, EV_PROC_EXECED, "RANK=0");
	for (int i = 0; i < 3; i++)
		send((struct event){ .kind = MT_EV_REGION_BEGIN, .pid = 12, .name = step });
	send((struct event){ .kind = MT_EV_REGION_BEGIN, .pid = 13, .name = step }); /* would be counted twice */
	gone(12);
	proc(14, 11, EV_PROC_FORKED, "RANK=0"); /* the shell tries again */
	send((struct event){ .kind = MT_EV_REGION_BEGIN, .pid = 14, .name = step });
	tell(1);
	assert_int_equal(r->rows[0].pid, 11);
	assert_int_equal(r->rows[0].procs_cnt, 4);
	assert_int_equal(r->rows[0].steps_total, 4);
}

/* An operator of Kubernetes numbers the machines: torchrun there is "rank 0 of 2", and has ranks of its own. */
static void test_numbered_launcher(void **state)
{
	static const char *const mine[] = { "RANK=0", "WORLD_SIZE=2", NULL };
	static const char *const zero[] = { "RANK=0", "WORLD_SIZE=4", NULL };
	static const char *const one[] = { "RANK=1", "WORLD_SIZE=4", NULL };
	(void)state;
	reported_proc(10, 1, mine);
	reported_proc(11, 10, zero);
	reported_proc(12, 10, one);
	alloc(11, 0x1000, 100);
	alloc(12, 0x1000, 200);
	tell(2);
	assert_int_equal(r->rows[0].pid, 11);
	assert_int_equal(r->claimed, 0);
	assert_int_equal(r->world, 4);
	assert_int_equal(r->missing_total, 2);
}

/* The same pid and rank on two machines. */
static void test_machines(void **state)
{
	uint32_t other = 11 | 1u << EV_MACHINE_SHIFT;
	(void)state;
	send((struct event){ .kind = EV_MACHINE, .name = names__add(names, "a") });
	send((struct event){ .kind = EV_MACHINE, .aux = 1, .name = names__add(names, "b") });
	proc(11, 1, EV_PROC_EXECED, "LOCAL_RANK=0");
	proc(other, 1, EV_PROC_EXECED, "LOCAL_RANK=0");
	alloc(11, 0x1000, 3);
	alloc(other, 0x1000, 4);
	tell(2);
	assert_string_equal(r->rows[0].host, "a");
	assert_string_equal(r->rows[1].host, "b");
	assert_int_equal(r->rows[1].live, 4);
}

static void test_too_many(void **state)
{
	char label[32];

	(void)state;
	for (uint32_t i = 0; i < RANKS_MAX + 3; i++) {
		snprintf(label, sizeof(label), "RANK=%u", i);
		proc(100 + i, 1, EV_PROC_ATTACHED, label);
		alloc(100 + i, 0x1000, 2);
	}
	tell(RANKS_MAX);
	assert_int_equal(r->not_listed, 3);
	assert_int_equal(r->others_live, 6);
}

static void test_nothing(void **state)
{
	(void)state;
	tell(0);
	send((struct event){ .kind = EV_PROC, .pid = 0 });
	send((struct event){ .kind = EV_LABEL, .pid = 0, .name = names__add(names, "RANK=1") });
	proc(4, 1, EV_PROC_ATTACHED, NULL);
	tell(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_odd_labels),
		cmocka_unit_test(test_outliers),
		cmocka_unit_test(test_equal_ranks),
		cmocka_unit_test(test_end_in_mid_step),
		cmocka_unit_test(test_two_jobs),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_counted_steps),
		cmocka_unit_test(test_late_first_step),
		cmocka_unit_test(test_marked_steps),
		cmocka_unit_test_setup_teardown(test_gaps_of_ranks, begin, end),
		cmocka_unit_test_setup_teardown(test_whose, begin, end),
		cmocka_unit_test_setup_teardown(test_helpers, begin, end),
		cmocka_unit_test_setup_teardown(test_reported_at_once, begin, end),
		cmocka_unit_test_setup_teardown(test_restarted, begin, end),
		cmocka_unit_test_setup_teardown(test_launcher_of_slurm, begin, end),
		cmocka_unit_test_setup_teardown(test_two_jobs_at_once, begin, end),
		cmocka_unit_test_setup_teardown(test_two_launchers_at_once, begin, end),
		cmocka_unit_test_setup_teardown(test_one_after_the_other, begin, end),
		cmocka_unit_test_setup_teardown(test_ended_by_the_kernels_word, begin, end),
		cmocka_unit_test_setup_teardown(test_ended_late, begin, end),
		cmocka_unit_test_setup_teardown(test_shell_of_a_rank, begin, end),
		cmocka_unit_test_setup_teardown(test_numbered_launcher, begin, end),
		cmocka_unit_test_setup_teardown(test_machines, begin, end),
		cmocka_unit_test_setup_teardown(test_too_many, begin, end),
		cmocka_unit_test_setup_teardown(test_nothing, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
