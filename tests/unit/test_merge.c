/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Recordings merged: clocks, pids, names, stacks, counters; files that lack something. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "event/merge.h"
#include "event/recording.h"
#include "memtrace/recording.h"
#include "model/model.h"
#include "model/ranks.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "unit/recording_help.h"

#define S 1000000000ull
#define WALL 1800000000000000000ull

#define FILES 64

/* --- what is merged --------------------------------------------------------------------------------------- */

static char file[FILES][80];
static uint64_t clock_ns; /* of the file that is being written */
static struct names *names;
static struct rec_writer *out;

static void begin_file(int n)
{
	struct err err = { 0 };

	snprintf(file[n], sizeof(file[n]), "%s/%d.mtr", dir, n);
	unlink(file[n]);
	names = names__new();
	assert_int_equal(rec_writer__open(&out, file[n], &(struct rec_writer_opts){ .names = names, .how.force = 1 }, &err), 0);
}

static void put(struct event ev)
{
	struct err err = { 0 };

	ev.ts_ns = clock_ns;
	if (!ev.tid)
		ev.tid = ev.pid;
	assert_int_equal(rec_writer__add(out, &ev, &err), 0);
}

static name_id name(const char *text)
{
	return names__add(names, text);
}

static void end_file(int ended)
{
	struct err err = { 0 };

	if (ended)
		put((struct event){ .kind = EV_END });
	assert_int_equal(rec_writer__close(out, &err), 0);
	names__free(names);
}

/* A machine whose monotonic clock is at mono_ns when it is WALL, and whose wall clock is wrong by skew_ns. */
static void machine(uint64_t boot, const char *host, uint64_t mono_ns, int64_t skew_ns)
{
	clock_ns = mono_ns;
	put((struct event){ .kind = EV_BEGIN, .pid = 11, .addr = WALL + (uint64_t)skew_ns - mono_ns, .size = 2,
			    .name = name("v") });
	put((struct event){ .kind = EV_MACHINE, .addr = boot, .name = name(host) });
}

static void process(uint32_t pid, int how, const char *rank, const char *world)
{
	put((struct event){ .kind = EV_PROC, .pid = pid, .aux = 10, .flags = (uint8_t)how, .name = name("python"),
			    .addr = name("python train.py").v });
	put((struct event){ .kind = EV_LABEL, .pid = pid, .name = name(rank) });
	put((struct event){ .kind = EV_LABEL, .pid = pid, .name = name(world) });
}

/* A step each 100 ms, with a block of `size` that lives to the next one. */
static void steps(uint32_t pid, int cnt, uint64_t size, uint64_t jitter_ns)
{
	for (int i = 0; i < cnt; i++) {
		put((struct event){ .kind = MT_EV_REGION_BEGIN, .pid = pid, .name = name("Optimizer.step#Adam.step") });
		put((struct event){ .kind = MT_EV_ALLOC, .pid = pid, .dev = MT_DEV_CPU, .addr = 0x1000, .size = size });
		put((struct event){ .kind = MT_EV_REGION_END, .pid = pid });
		clock_ns += 50000000;
		put((struct event){ .kind = MT_EV_FREE, .pid = pid, .dev = MT_DEV_CPU, .addr = 0x1000 });
		clock_ns += 50000000 + (i % 2 ? jitter_ns : -jitter_ns);
	}
}

static void rank_file(int n, uint64_t boot, uint64_t mono_ns, int64_t skew_ns, const char *rank, uint64_t size)
{
	char host[16];

	snprintf(host, sizeof(host), "node%d", (int)boot);
	begin_file(n);
	machine(boot, host, mono_ns, skew_ns);
	process(11, EV_PROC_EXECED, rank, "WORLD_SIZE=4");
	steps(11, 10, size, (uint64_t)n * 1000000);
	put((struct event){ .kind = EV_GONE, .pid = 11, .flags = 1 });
	end_file(1);
}

/* --- what comes of it ---------------------------------------------------------------------------------------- */

static struct merge_info info;
static char merged[80];
static struct err failed; /* why it did, the last time */

static int merge(int cnt, enum merge_align align)
{
	const char *paths[FILES];
	int r;

	failed = (struct err){ 0 };
	snprintf(merged, sizeof(merged), "%s/merged.mtr", dir);
	for (int i = 0; i < cnt; i++)
		paths[i] = file[i];
	merge_info__done(&info);
	r = merge_files(paths, (size_t)cnt, merged, &(struct outfile_how){ .force = 1 }, align, 0, &info, &failed);
	if (r < 0)
		assert_true(failed.msg[0]);
	return r;
}

/* Replays a file: its ranks, and the model's live bytes. */
static struct report_ranks *replay(const char *from, struct model_live *ret_live, uint64_t counts[256])
{
	struct report_ranks *rep = NULL;
	struct rec_reader *r;
	const struct event *evs;
	struct err err = { 0 };
	struct ranks *ranks;
	struct model *m;
	uint64_t last = 0;
	size_t cnt;

	assert_int_equal(rec_reader__open(&r, from, &err), 0);
	m = model__new(rec_reader__names(r), NULL);
	ranks = ranks__new(rec_reader__names(r), CLASSES_COMPAT);
	memset(counts, 0, 256 * sizeof(*counts));
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt; i++) {
			assert_true(evs[i].ts_ns >= last);
			last = evs[i].ts_ns;
			counts[evs[i].kind]++;
			assert_int_equal(model__handle(m, &evs[i]), 0);
			assert_int_equal(ranks__handle(ranks, &evs[i]), 0);
		}
	model__check(m);
	*ret_live = model__live(m);
	assert_int_equal(ranks__report(ranks, 5, &rep), 0);
	ranks__free(ranks);
	model__free(m);
	rec_reader__free(r);
	return rep;
}

static uint64_t latest_step(const struct report_ranks *r)
{
	uint64_t late = 0;

	for (size_t i = 0; i < r->steps_cnt; i++)
		late = r->steps[i].late_ns > late ? r->steps[i].late_ns : late;
	return late;
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

/* Two machines with the same pid; the second one's wall clock is 5 s ahead, its monotonic one began much earlier. */
static void test_skewed_clocks(void **state)
{
	struct model_live live;
	struct report_ranks *r;
	uint64_t counts[256];

	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	rank_file(1, 2, 90000 * S, 5 * (int64_t)S, "RANK=1", 5000);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.machines_cnt, 2);
	assert_int_equal(info.files[1].how, MERGE_BY_STEPS);
	assert_in_range(info.files[1].clock_ns, 5 * S - 2000000, 5 * S + 2000000);
	assert_int_equal(info.files[1].steps_common, 10);
	assert_int_equal(info.missing_total, 2);
	assert_int_equal(info.missing[0], 2);
	r = replay(merged, &live, counts);
	assert_int_equal(r->cnt, 2);
	assert_int_equal(r->rows[1].pid, 11 | 1u << EV_MACHINE_SHIFT);
	assert_string_equal(r->rows[1].host, "node2");
	assert_int_equal(r->steps_cnt, 10);
	assert_in_range(latest_step(r), 0, 3000000);
	assert_int_equal(r->outliers_cnt, 1);
	assert_int_equal(r->rows[r->outliers[0].row].rank, 1);
	assert_int_equal(r->missing_total, 2);
	assert_int_equal(counts[EV_BEGIN], 1);
	assert_int_equal(counts[EV_MACHINE], 2);
	assert_int_equal(counts[EV_END], 1);
	assert_int_equal(counts[MT_EV_ALLOC], 20);
	report_ranks__free(r);

	assert_int_equal(merge(2, MERGE_ALIGN_CLOCK), 0); /* the wall clocks are taken at their word */
	assert_int_equal(info.files[1].how, MERGE_BY_CLOCK);
	assert_int_equal(info.files[1].clock_ns, 0);
}

static char said[FILES * 200];

static int say(void *ctx, const char *line)
{
	(void)ctx;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", line);
	return 0;
}

static size_t lines_said(int each)
{
	size_t cnt = 0;

	said[0] = '\0';
	assert_int_equal(merge_info__words(&info, each, say, NULL), 0);
	for (const char *at = said; *at; at++)
		cnt += *at == '\n';
	return cnt;
}

/*
 * Eight machines with eight ranks each, a file a rank: clocks that are wrong by hours and drift by up to 100 ppm, three hours
 * of steps, of which each rank's mark comes up to 4 ms late.
 */
static void test_drift(void **state)
{
	static const int ppm[] = { 0, 100, -100, 20, 0, -3, 57, 1 };
	struct model_live live;
	struct report_ranks *r;
	uint64_t counts[256];
	char rank[24], host[16];

	(void)state;
	rng = 5;
	for (int n = 0; n < FILES; n++) {
		int on = n / 8;
		uint64_t mono = (uint64_t)(1 + on) * 1000 * S;

		begin_file(n);
		snprintf(host, sizeof(host), "n%d", on);
		machine(1 + (uint64_t)on, host, mono, (on - 3) * 3600 * (int64_t)S);
		snprintf(rank, sizeof(rank), "RANK=%d", n);
		process(11 + (uint32_t)n % 8, EV_PROC_EXECED, rank, "WORLD_SIZE=64");
		for (uint64_t i = 0; i < 10800; i += n % 8 ? 60 : 1) { /* a file may have every step or few */
			uint64_t at = i * S + below(4000000);

			clock_ns = mono + at + (uint64_t)((int64_t)(at / 1000000) * ppm[on]);
			put((struct event){ .kind = MT_EV_STEP, .pid = 11 + (uint32_t)n % 8, .addr = i });
			if (!i)
				put((struct event){ .kind = MT_EV_ALLOC, .pid = 11 + (uint32_t)n % 8, .dev = MT_DEV_CPU,
						    .addr = 0x1000, .size = n == 41 ? 9000 : 1000 });
		}
		end_file(1);
	}
	assert_int_equal(merge(FILES, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.machines_cnt, 8);
	for (int n = 0; n < FILES; n++) {
		int64_t error = info.files[n].drift_ppt - (int64_t)ppm[n / 8] * 1000000;

		assert_int_equal(info.files[n].how, n % 8 ? MERGE_SAME_BOOT : n ? MERGE_BY_STEPS : MERGE_FIRST);
		assert_in_range(error + 1000000, 700000, 1300000); /* 0.3 ppm: 3 ms in three hours */
	}
	r = replay(merged, &live, counts);
	assert_int_equal(r->cnt, FILES);
	assert_int_equal(r->steps_cnt, RANK_STEPS_MAX / 60); /* the last ones of those that have all */
	assert_in_range(latest_step(r), 0, 10000000); /* without drift it would be a second */
	assert_int_equal(r->outliers_cnt, 1);
	assert_int_equal(r->rows[r->outliers[0].row].rank, 41);
	assert_int_equal(r->missing_total, 0);
	assert_int_equal(counts[EV_NOTE], 3); /* the first one, those of a boot with another, those by steps */
	assert_int_equal(lines_said(0), 3);
	assert_non_null(strstr(said, "56 files of the same boot"));
	assert_non_null(strstr(said, "7 files by 2700 steps or more: clocks up to 25200."));
	assert_non_null(strstr(said, "ppm too slow (16.mtr)"));
	assert_int_equal(lines_said(1), FILES);
	report_ranks__free(r);
}

/* Few steps, or steps that scatter, say nothing of drift: it is not made up. */
static void test_no_drift(void **state)
{
	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	rank_file(1, 2, 100 * S, 5 * (int64_t)S, "RANK=1", 1000);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.files[1].how, MERGE_BY_STEPS);
	assert_int_equal(info.files[1].drift_ppt, 0);
}

/* One process in two files: at the same time it is refused; one after the other, the second one's beginning ends the first. */
static void test_same_process(void **state)
{
	struct model_live live;
	struct report_ranks *r;
	uint64_t counts[256];

	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	rank_file(1, 1, 100 * S + S / 2, 0, "RANK=0", 1000);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -EINVAL);
	rank_file(1, 2, 100 * S + S / 2, 0, "RANK=1", 1000); /* another machine's */
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	for (int n = 0; n < 2; n++) {
		begin_file(n);
		machine(1, "a", (uint64_t)(100 + 50 * n) * S, n);
		process(11, EV_PROC_ATTACHED, "RANK=0", "WORLD_SIZE=1");
		put((struct event){ .kind = MT_EV_ALLOC, .pid = 11, .dev = MT_DEV_CPU, .addr = 0x1000, .size = n ? 50 : 7000 });
		clock_ns += S;
		end_file(1);
	}
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	r = replay(merged, &live, counts);
	assert_int_equal(r->cnt, 1);
	assert_int_equal(r->rows[0].live, 50);
	assert_int_equal(live.cpu, 50);
	report_ranks__free(r);
}

static void sampled_file(int n, uint64_t boot, uint64_t mono_ns, int has_levels)
{
	char host[16];

	snprintf(host, sizeof(host), "node%d", (int)boot);
	begin_file(n);
	machine(boot, host, mono_ns, 0);
	process(11 + (uint32_t)n, EV_PROC_ATTACHED, n ? "RANK=1" : "RANK=0", "WORLD_SIZE=2");
	if (has_levels)
		put((struct event){ .kind = EV_LEVEL, .flags = EV_LEVEL_GAP, .depth = MT_LEVEL_WATCH,
				    .aux = 11 + (uint32_t)n });
	steps(11 + (uint32_t)n, 10, 1000, 0);
	end_file(1);
}

/* Windows are a machine's: of two recordings of one machine nobody could say what was traced of both. */
static void test_windows_of_one_machine(void **state)
{
	(void)state;
	sampled_file(0, 1, 100 * S, 1);
	sampled_file(1, 1, 100 * S + S / 2, 1);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -EINVAL);
	assert_non_null(strstr(failed.msg, "both trace some steps only"));
	sampled_file(1, 1, 100 * S + S / 2, 0);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -EINVAL);
	assert_non_null(strstr(failed.msg, "the first traces"));
	sampled_file(1, 1, 500 * S, 1); /* one after the other */
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	sampled_file(1, 2, 100 * S + S / 2, 1); /* another machine's */
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	sampled_file(1, 2, 100 * S + S / 2, 0);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
}

/* An older memtrace told of no machine; one that is newer than this may write what this cannot read. */
static void test_other_versions(void **state)
{
	uint16_t version = MTR_VERSION + 1;
	FILE *f;

	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	begin_file(1);
	clock_ns = 50 * S;
	put((struct event){ .kind = EV_BEGIN, .pid = 11, .addr = WALL - 50 * S, .name = name("memtrace 0.0.1 on old") });
	process(11, EV_PROC_EXECED, "RANK=1", "WORLD_SIZE=2");
	steps(11, 10, 2000, 0);
	end_file(1);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.machines_cnt, 2);
	assert_int_equal(info.files[1].how, MERGE_BY_STEPS);
	assert_int_equal(info.ranks_cnt, 2);
	f = fopen(file[1], "r+");
	assert_int_equal(fseek(f, offsetof(struct mtr_file, version), SEEK_SET), 0);
	assert_int_equal(fwrite(&version, sizeof(version), 1, f), 1);
	fclose(f);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -ENOTSUP);
}

/* Steps that do not lie together are no common steps: the clocks stand. */
static void test_other_jobs(void **state)
{
	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	begin_file(1);
	machine(2, "b", 50 * S, 0);
	process(11, EV_PROC_EXECED, "RANK=1", "WORLD_SIZE=2");
	for (int i = 0; i < 6; i++) {
		clock_ns += (i * i + 1) * S;
		steps(11, 1, 10, 0);
	}
	end_file(1);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.files[1].how, MERGE_BY_CLOCK);
}

/* Attached in mid-run: which step is which cannot be told by counting. With marks it can. */
static void test_attached(void **state)
{
	(void)state;
	for (int marks = 0; marks < 2; marks++) {
		for (int n = 0; n < 2; n++) {
			begin_file(n);
			machine(1 + (uint64_t)n, "x", 100 * S, n ? -3 * (int64_t)S : 0);
			process(11, EV_PROC_ATTACHED, n ? "RANK=1" : "RANK=0", "WORLD_SIZE=2");
			for (uint64_t i = (uint64_t)n * 4; i < 10 && marks; i++) {
				clock_ns = 101 * S + i * S / 10;
				put((struct event){ .kind = MT_EV_STEP, .pid = 11, .addr = 1000 + i });
			}
			clock_ns = 103 * S;
			if (!marks)
				steps(11, 5, 10, 0);
			end_file(1);
		}
		assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
		assert_int_equal(info.files[1].how, marks ? MERGE_BY_STEPS : MERGE_BY_CLOCK);
		assert_int_equal(info.files[1].clock_ns, marks ? -3 * (int64_t)S : 0);
		assert_int_equal(info.files[1].steps_common, marks ? 6 : 0);
	}
}

/* Two processes of one machine, recorded apart: one clock, whatever each thinks that the wall clock is, and one pid space. */
static void test_same_boot(void **state)
{
	struct model_live live;
	struct report_ranks *r;
	uint64_t counts[256];

	(void)state;
	rank_file(0, 7, 100 * S, 0, "RANK=0", 1000);
	begin_file(1);
	machine(7, "node7", 100 * S, 123456789);
	process(12, EV_PROC_EXECED, "RANK=1", "WORLD_SIZE=2");
	steps(12, 10, 1000, 0);
	end_file(1);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.machines_cnt, 1);
	assert_int_equal(info.files[1].how, MERGE_SAME_BOOT);
	r = replay(merged, &live, counts);
	assert_int_equal(r->rows[1].pid, 12);
	assert_int_equal(latest_step(r), 0);
	report_ranks__free(r);
}

/* When it was paused, and what of it is live at the end: two steps of each file, and no block of the first one. */
struct pauses {
	uint64_t ts_ns[8];
	uint8_t flags[8];
	size_t cnt;
};

static struct report *report_of(const char *from, struct pauses *ret)
{
	struct report *report = NULL;
	struct rec_reader *r = NULL;
	const struct event *evs;
	struct err err = { 0 };
	struct model *m;
	size_t cnt;

	*ret = (struct pauses){ .cnt = 0 };
	assert_int_equal(rec_reader__open(&r, from, &err), 0);
	m = model__new(rec_reader__names(r), NULL);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt; i++) {
			assert_int_equal(model__handle(m, &evs[i]), 0);
			if (evs[i].kind != EV_PAUSE)
				continue;
			assert_true(ret->cnt < 8);
			ret->ts_ns[ret->cnt] = evs[i].ts_ns;
			ret->flags[ret->cnt++] = evs[i].flags;
		}
	model__check(m);
	assert_int_equal(model__report(m, 10, &report), 0);
	model__free(m);
	rec_reader__free(r);
	return report;
}

/* A process that holds a block all the time, attached to from from_ns to to_ns; its probes are set 100 ms later. */
static void held_file(int n, uint32_t pid, uint64_t from_ns, uint64_t to_ns, uint64_t size)
{
	begin_file(n);
	machine(7, "node7", from_ns, (int64_t)(from_ns - 100 * S)); /* one wall clock for all */
	process(pid, EV_PROC_ATTACHED, "RANK=0", "WORLD_SIZE=1");
	put((struct event){ .kind = EV_ATTACH, .pid = pid, .flags = EV_ATTACH_BEGINS });
	clock_ns += S / 10;
	put((struct event){ .kind = EV_ATTACH, .pid = pid, .addr = 5 });
	put((struct event){ .kind = MT_EV_ALLOC, .pid = pid, .dev = MT_DEV_CPU, .addr = 0x1000 * pid, .size = size });
	put((struct event){ .kind = MT_EV_RSS, .pid = pid, .addr = MT_RSS_ANON, .size = size });
	clock_ns = to_ns;
	put((struct event){ .kind = EV_GONE, .pid = pid, .flags = 1 });
	end_file(1);
}

/* Time between recordings is not traced: of that are no means, and nothing that lived before it lives after it. */
static void test_time_between(void **state)
{
	struct pauses p;
	struct report *r;

	(void)state;
	held_file(0, 11, 100 * S, 104 * S, 1000);
	held_file(1, 11, 110 * S, 114 * S, 3000);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	r = report_of(merged, &p);
	assert_int_equal(p.cnt, 2);
	assert_true(p.flags[0] == EV_PAUSE_BEGINS && p.ts_ns[0] == 104 * S && !p.flags[1] && p.ts_ns[1] == 110 * S + S / 10);
	assert_int_equal(r->sampling.is_on, 0);
	assert_int_equal(r->sampling.pauses, 1);
	assert_true(r->sampling.paused_ns == 6 * S + S / 10 && report_seen_ns(r) == 14 * S - r->sampling.paused_ns);
	assert_true(report_traced_ns(r) == 2 * (4 * S - S / 10));
	assert_int_equal(r->sampling.gaps_cnt, 1);
	assert_int_equal(r->devs_cnt, 1);
	assert_true(r->devs[0].live == 3000 && r->devs[0].peak == 3000);
	assert_true(r->devs[0].byte_ns == (1000ull + 3000) * (4 * S - S / 10));
	for (size_t i = 0; i < r->kernel.rss.cnt; i++)
		assert_true(r->kernel.rss.points[i].ts_ns <= 104 * S || r->kernel.rss.points[i].ts_ns >= 110 * S);
	report__free(r);
}

/* One that was recorded meanwhile fills it: times of all are joined. A merge that is merged keeps its own pause to itself. */
static void test_times_are_joined(void **state)
{
	struct pauses p;
	struct report *r;

	(void)state;
	held_file(0, 11, 100 * S, 104 * S, 1000);
	held_file(1, 12, 110 * S, 114 * S, 3000);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	snprintf(file[3], sizeof(file[3]), "%s/once.mtr", dir);
	assert_int_equal(rename(merged, file[3]), 0);
	held_file(1, 13, 103 * S, 108 * S, 5000); /* set after 103.1 s, so never is nobody there before 108 s */
	snprintf(file[0], sizeof(file[0]), "%s", file[3]);
	assert_int_equal(merge(2, MERGE_ALIGN_CLOCK), 0);
	r = report_of(merged, &p);
	assert_int_equal(p.cnt, 2);
	assert_true(p.ts_ns[0] >= 108 * S && p.ts_ns[0] < 108 * S + S / 10 && p.ts_ns[1] > 110 * S);
	assert_int_equal(r->sampling.pauses, 1);
	report__free(r);
	held_file(1, 13, 103 * S, 111 * S, 5000);
	assert_int_equal(merge(2, MERGE_ALIGN_CLOCK), 0);
	r = report_of(merged, &p);
	assert_int_equal(p.cnt, 0);
	assert_int_equal(r->sampling.gaps_cnt, 0);
	report__free(r);
}

static void test_merged_again(void **state)
{
	struct model_live live;
	struct report_ranks *r;
	uint64_t counts[256];

	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	rank_file(1, 2, 9 * S, -7 * (int64_t)S, "RANK=1", 1000);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	snprintf(file[3], sizeof(file[3]), "%s/once.mtr", dir);
	assert_int_equal(rename(merged, file[3]), 0);
	rank_file(0, 3, 500 * S, 2 * (int64_t)S, "RANK=2", 1000);
	snprintf(file[1], sizeof(file[1]), "%s", file[3]);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(info.machines_cnt, 3);
	r = replay(merged, &live, counts);
	assert_int_equal(r->cnt, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(r->rows[i].rank, i);
	assert_int_not_equal(r->rows[0].pid, r->rows[1].pid);
	assert_int_not_equal(r->rows[0].pid, r->rows[2].pid);
	assert_string_equal(r->rows[1].host, "node2");
	assert_in_range(latest_step(r), 0, 5000000);
	report_ranks__free(r);
}

static void counters(uint64_t cost, uint64_t fired, uint64_t lost, const char *first_name)
{
	(void)name(first_name); /* ids differ between the files */
	put((struct event){ .kind = EV_COST, .aux = 3, .addr = 1000, .size = 5000, .flags = EV_F_BASE });
	put((struct event){ .kind = EV_COST, .aux = 3, .addr = 1000 + cost, .size = 5000 + cost });
	put((struct event){ .kind = EV_FIRED, .name = name("malloc"), .size = 50, .flags = EV_F_BASE });
	put((struct event){ .kind = EV_FIRED, .name = name("malloc"), .size = 50 + fired });
	put((struct event){ .kind = EV_FIRED, .name = name("malloc"), .size = 51 + fired });
	put((struct event){ .kind = EV_LOSS, .aux = MT_LOSS_RING, .size = lost });
	put((struct event){ .kind = EV_SELF, .addr = 10 * cost, .size = cost });
	put((struct event){ .kind = EV_OOM_KILL, .size = 40 });
}

/* Counters add up; names and stacks are those of their file. */
static void test_counters_and_names(void **state)
{
	const struct event *evs;
	struct rec_reader *r;
	struct err err = { 0 };
	struct event last[256] = { 0 };
	uint64_t stack_no = 0;
	size_t cnt;

	(void)state;
	for (int n = 0; n < 2; n++) {
		begin_file(n);
		machine(1 + (uint64_t)n, "x", 100 * S, 0);
		counters(n ? 7 : 30, n ? 100 : 5, n ? 2 : 1, n ? "one" : "two");
		put((struct event){ .kind = EV_STACK, .seq = 1, .name = name("main"), .addr = name("a.py").v, .flags = 1 });
		put((struct event){ .kind = EV_STACK, .seq = 2, .size = 1, .name = name(n ? "f" : "g"), .addr = name("a.py").v,
				    .aux = 4, .flags = 1 });
		put((struct event){ .kind = EV_STACK_AT, .pid = 11, .addr = 0x10, .size = 2 });
		put((struct event){ .kind = EV_CAUGHT, .pid = 11, .addr = 0x18, .size = 2 });
		put((struct event){ .kind = EV_TENSOR_OF, .pid = 11, .addr = 0x10, .name = name("Net") });
		put((struct event){ .kind = EV_TENSOR, .pid = 11, .addr = 0x10, .tid = name("Net").v, .name = name("w"),
				    .aux = name("exp_avg").v, .seq = name("float32[2]").v });
		put((struct event){ .kind = EV_MODULE, .pid = 11, .addr = 0x30, .name = name("layers.0"),
				    .tid = name("model").v, .seq = name("Linear").v });
		put((struct event){ .kind = EV_WAS, .pid = 11, .addr = 0x20, .size = 8, .aux = name("region").v | 2u << 20,
				    .name = name("op") });
		put((struct event){ .kind = EV_PLACE, .pid = 11, .name = name(n ? "place 8" : "place 7"),
				    .addr = name("inductor: a").v });
		put((struct event){ .kind = EV_NVML, .dev = MT_DEV_CUDA0, .size = 5 });
		end_file(n == 0);
	}
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_int_equal(rec_reader__open(&r, merged, &err), 0);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt; i++) {
			const struct names *nm = rec_reader__names(r);

			last[evs[i].kind] = evs[i];
			assert_true(evs[i].kind != EV_FIRED || !evs[i].flags); /* what it has is a sum of several */
			if (evs[i].kind == EV_STACK)
				assert_int_equal(evs[i].seq, ++stack_no);
			if (evs[i].kind == EV_TENSOR) {
				assert_string_equal(names__get(nm, (name_id){ evs[i].tid }), "Net");
				assert_string_equal(names__get(nm, (name_id){ evs[i].aux }), "exp_avg");
				assert_string_equal(names__get(nm, (name_id){ evs[i].seq }), "float32[2]");
			}
			if (evs[i].kind == EV_TENSOR_OF)
				assert_string_equal(names__get(nm, evs[i].name), "Net");
			if (evs[i].kind == EV_MODULE) {
				assert_string_equal(names__get(nm, evs[i].name), "layers.0");
				assert_string_equal(names__get(nm, (name_id){ evs[i].tid }), "model");
				assert_string_equal(names__get(nm, (name_id){ evs[i].seq }), "Linear");
			}
			if (evs[i].kind == EV_PLACE) {
				assert_int_equal(strncmp(names__get(nm, evs[i].name), "place ", 6), 0);
				assert_string_equal(names__get(nm, (name_id){ (uint32_t)evs[i].addr }), "inductor: a");
			}
			if (evs[i].kind == EV_WAS) {
				assert_string_equal(names__get(nm, (name_id){ evs[i].aux & 0xfffff }), "region");
				assert_int_equal(evs[i].aux >> 20, 2);
			}
		}
	rec_reader__free(r);
	assert_int_equal(stack_no, 3); /* main is one */
	assert_int_equal(last[EV_STACK_AT].size, 3);
	assert_int_equal(last[EV_CAUGHT].size, 3);
	assert_int_equal(last[EV_PLACE].kind, EV_PLACE);
	assert_int_equal(last[EV_COST].addr, 37);
	assert_int_equal(last[EV_FIRED].size, 107);
	assert_int_equal(last[EV_LOSS].size, 3);
	assert_int_equal(last[EV_SELF].addr, 370);
	assert_int_equal(last[EV_SELF].size, 37);
	assert_int_equal(last[EV_OOM_KILL].size, 0);
	assert_int_equal(last[EV_NVML].kind, 0); /* two machines' cuda:0 would take turns */
	assert_int_equal(last[EV_END].kind, 0); /* the second file has none */
	assert_false(info.files[1].ended);
}

static void test_cut_file(void **state)
{
	struct model_live live;
	struct report_ranks *r;
	uint64_t counts[256];
	struct stat st;

	(void)state;
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	rank_file(1, 2, 100 * S, 0, "RANK=1", 1000);
	assert_int_equal(stat(file[1], &st), 0);
	assert_int_equal(truncate(file[1], st.st_size - 1), 0);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0);
	assert_true(info.files[1].cut_bytes > 0);
	assert_int_equal(truncate(file[1], st.st_size - 1 - (off_t)info.files[1].cut_bytes), 0);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), 0); /* the last frame is missing, all others are whole */
	assert_int_equal(info.files[1].cut_bytes, 0);
	assert_true(info.files[0].ended && !info.files[1].ended);
	r = replay(merged, &live, counts);
	assert_int_equal(r->cnt, 2);
	assert_int_equal(counts[EV_END], 0);
	report_ranks__free(r);
}

static void test_refused(void **state)
{
	struct stat st;
	FILE *f;

	(void)state;
	unlink(merged);
	rank_file(0, 1, 100 * S, 0, "RANK=0", 1000);
	snprintf(file[1], sizeof(file[1]), "%s/none.mtr", dir);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -ENOENT);
	snprintf(file[1], sizeof(file[1]), "%s/text.mtr", dir);
	f = fopen(file[1], "w");
	fputs("no recording, this\n", f);
	fclose(f);
	assert_true(merge(2, MERGE_ALIGN_STEPS) < 0);
	assert_int_equal(stat(merged, &st), -1); /* nothing is left */
	snprintf(file[1], sizeof(file[1]), "%s", file[0]);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -EINVAL); /* twice the same */
	snprintf(file[1], sizeof(file[1]), "%s/merged.mtr", dir);
	assert_int_equal(link(file[0], file[1]), 0);
	assert_int_equal(merge(1, MERGE_ALIGN_STEPS), -EINVAL); /* into what is read */
	assert_int_equal(unlink(file[1]), 0);
	begin_file(1); /* a clock out of this world */
	put((struct event){ .kind = EV_BEGIN, .addr = 5ull << 60 });
	end_file(1);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -ERANGE);
	begin_file(1);
	put((struct event){ .kind = EV_TICK });
	end_file(1);
	assert_int_equal(merge(2, MERGE_ALIGN_STEPS), -EINVAL); /* no beginning */
}

/* --- a file that shrinks between one read and the next ---------------------------------------------------------- */

static const char *shrinks; /* this one */
static off_t shrinks_to;
static int shrinks_in; /* so many reads from now on */

/* The C library's, for all that is linked here. */
ssize_t pread(int fd, void *buf, size_t len, off_t off)
{
	if (shrinks && !shrinks_in--)
		assert_int_equal(truncate(shrinks, shrinks_to), 0);
	return syscall(SYS_pread64, fd, buf, len, off);
}

/* Its first frame has names alone: more than one frame has room for. The second one has its beginning. */
static void file_of_names_first(int n)
{
	char text[MTR_NAME_BYTES_MAX];

	begin_file(n);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 300; i++) {
		memcpy(text, (char[]){ (char)('a' + i / 26), (char)('a' + i % 26) }, 2);
		(void)name(text);
	}
	machine(2, "node2", 100 * S, 0);
	process(11, EV_PROC_EXECED, "RANK=1", "WORLD_SIZE=4");
	steps(11, 10, 1000, 0);
	end_file(1);
}

static off_t first_frame_end(const char *from)
{
	struct mtr_frame h;
	FILE *f = fopen(from, "r");

	assert_non_null(f);
	assert_int_equal(fseek(f, sizeof(struct mtr_file), SEEK_SET), 0);
	assert_int_equal(fread(&h, sizeof(h), 1, f), 1);
	fclose(f);
	assert_int_equal(h.events, 0);
	return (off_t)(sizeof(struct mtr_file) + sizeof(h) + h.body_bytes);
}

/* Each file is read twice, and may shrink at any read: to nothing, amid a frame, or to whole ones without an event. */
static void test_shrinks_while_read(void **state)
{
	int cnt = 0, no_event = 0, r;

	(void)state;
	for (int k = 0; k < 6; k++) {
		int n = k % 2; /* the first one's beginning becomes that of the whole */

		for (int at = 0, is_over = 0; !is_over; at++, cnt++) {
			rank_file(1 - n, 1, 100 * S, 0, "RANK=0", 1000);
			file_of_names_first(n);
			shrinks = file[n];
			shrinks_to = (off_t[]){ 0, first_frame_end(file[n]) - 1, first_frame_end(file[n]) }[k / 2];
			shrinks_in = at;
			r = merge(2, MERGE_ALIGN_CLOCK);
			is_over = shrinks_in >= 0; /* it has no such read */
			shrinks = NULL;
			no_event += r < 0 && strstr(failed.msg, "became shorter") != NULL;
			assert_true(r < 0 || access(merged, R_OK) == 0);
			assert_true(!is_over || r == 0);
		}
	}
	assert_true(no_event > 0 && cnt > 50);
}

/* Whatever is in the files, what comes out can be replayed. */
static void test_anything(void **state)
{
	struct model_live live;
	uint64_t counts[256];
	int merged_cnt = 0, r;

	(void)state;
	for (int round = 0; round < 30; round++) {
		rng = 77 + (uint64_t)round;
		for (int n = 0; n < 3; n++) {
			begin_file(n);
			machine(below(8) ? (uint64_t)n + 1 : below(3), "x", below(1000) * S, (int64_t)below(100) * (int64_t)S);
			for (int i = 0; i < 20; i++)
				(void)name((char[]){ (char)('a' + i), (char)('a' + n), '\0' });
			for (int i = 0; i < 400; i++) {
				struct event ev = random_event(0, names__last(names), 40);

				if (ev.kind == EV_BEGIN)
					continue;
				clock_ns = later(clock_ns);
				if (clock_ns > 1ull << 62)
					clock_ns = 1ull << 62;
				put(ev);
			}
			end_file((int)below(2));
		}
		r = merge(3, MERGE_ALIGN_STEPS);
		if (r == -EINVAL) /* two of one machine, with the same processes */
			continue;
		assert_int_equal(r, 0);
		merged_cnt++;
		report_ranks__free(replay(merged, &live, counts));
	}
	assert_in_range(merged_cnt, 15, 30);
}

static int done(void **state)
{
	DIR *all = opendir(dir);

	merge_info__done(&info);
	for (const struct dirent *d; all && (d = readdir(all));)
		(void)unlinkat(dirfd(all), d->d_name, 0);
	if (all)
		closedir(all);
	return tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shrinks_while_read), cmocka_unit_test(test_skewed_clocks), cmocka_unit_test(test_drift),
		cmocka_unit_test(test_no_drift), cmocka_unit_test(test_same_process),
		cmocka_unit_test(test_windows_of_one_machine),
		cmocka_unit_test(test_other_versions), cmocka_unit_test(test_other_jobs),
		cmocka_unit_test(test_attached), cmocka_unit_test(test_same_boot),
		cmocka_unit_test(test_time_between),
		cmocka_unit_test(test_times_are_joined),
		cmocka_unit_test(test_merged_again), cmocka_unit_test(test_counters_and_names),
		cmocka_unit_test(test_cut_file), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_anything),
	};

	return cmocka_run_group_tests(tests, set_up, done);
}
