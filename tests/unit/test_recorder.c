/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What live does with a recording, without a session: begun at once or by a key, on disks that stall or are full. */
#include "recording_help.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "record/recorder.h"
#include "event/recording_disk.h"
#include "model/model.h"

#define S 1000000000ull

static struct names *names;
static struct recorder rec;
static struct model_opts model_opts;
static struct model *model; /* where one is asked */
static uint64_t ts_ns, lost[MT_LOSS_MAX];

static const char *late_path(void *ctx)
{
	return ctx;
}

static void begin(struct recorder_opts o)
{
	struct err err = { 0 };

	unlink(path);
	log_set_level(LOG_QUIET);
	names = names__new();
	o.disk_wait_ns = S;
	model_opts = (struct model_opts){ 0 };
	if (recorder__init(&rec, &o, names, &model_opts, &err) < 0 || recorder__open(&rec, &err) < 0)
		fail_msg("%s", err.msg);
	ts_ns = 5000;
	memset(lost, 0, sizeof(lost));
}

static void end(void)
{
	recorder__done(&rec);
	names__free(names);
}

static void event(struct event ev)
{
	ev.ts_ns = ts_ns++;
	if (model)
		assert_int_equal(model__handle(model, &ev), 0);
	recorder__add(&rec, model, &ev);
}

static void events(unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		event((struct event){ .kind = MT_EV_ALLOC, .pid = 1, .addr = rnd(), .size = i });
	rec.flushed_ns = 0;
	recorder__tick(&rec, NULL, S);
}

static uint64_t blocks_of(const char *name, int is_cut)
{
	struct rec_reader *r = NULL;
	const struct event *evs;
	uint64_t got = 0, cut;
	struct err err = { 0 };
	size_t cnt;

	if (rec_reader__open(&r, name, &err) < 0)
		fail_msg("%s", err.msg);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt; i++)
			got += evs[i].kind == MT_EV_ALLOC;
	assert_int_equal(rec_reader__truncated(r, &cut), is_cut);
	rec_reader__free(r);
	return got;
}

static uint64_t blocks_of_file(int is_cut)
{
	return blocks_of(path, is_cut);
}

static void from_the_start(void **state)
{
	struct err err = { 0 };
	struct stat st;

	(void)state;
	begin((struct recorder_opts){ .path = path });
	event((struct event){ .kind = EV_BEGIN, .pid = 1 });
	assert_int_equal(recorder__begin(&rec, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 0); /* it is there when the trace begins */
	assert_int_equal(st.st_mode & 07777, 0600);
	for (int i = 0; i < 20; i++)
		events(1000);
	assert_int_equal(recorder__lost(&rec, MT_LOSS_RECORDING), 0);
	assert_int_equal(recorder__close(&rec, NULL, "", lost, &err), 0);
	assert_int_equal(blocks_of_file(0), 20000);
	end();
}

static void from_a_key(void **state)
{
	struct err err = { 0 };

	(void)state;
	begin((struct recorder_opts){ .late_path = late_path, .ctx = path });
	model = model__new(names, NULL);
	assert_non_null(model);
	event((struct event){ .kind = EV_BEGIN, .pid = 1 });
	events(1000);
	assert_int_equal(access(path, F_OK), -1);
	assert_false(recorder__is_late(&rec));
	assert_true(recorder__begin_late(&rec, model, "all steps"));
	assert_true(recorder__is_late(&rec));
	events(500);
	recorder__end_late(&rec);
	assert_false(recorder__is_late(&rec));
	assert_int_equal(blocks_of_file(0), 500);
	events(300); /* in no recording */
	assert_false(recorder__begin_late(&rec, model, "all steps")); /* the first one is not overwritten */
	assert_int_equal(unlink(path), 0);
	assert_true(recorder__begin_late(&rec, model, "all steps"));
	events(200);
	assert_int_equal(recorder__close(&rec, NULL, "", NULL, &err), 0);
	assert_int_equal(blocks_of_file(0), 200);
	end();
	model__free(model);
	model = NULL;
}

static void on_a_disk_that_stalls(void **state)
{
	struct err err = { 0 };
	uint64_t before;
	pid_t pid;

	(void)state;
	begin((struct recorder_opts){ .path = path });
	pid = rec_disk__pid(rec.disk);
	events(1000);
	assert_int_equal(recorder__begin(&rec, &err), 0);
	kill(pid, SIGSTOP);
	before = now_ns();
	for (int i = 0; i < 50; i++)
		events(1000);
	assert_true(now_ns() - before < S);
	before = now_ns();
	assert_int_equal(recorder__close(&rec, NULL, "", lost, &err), -ETIMEDOUT);
	assert_in_range(now_ns() - before, S, 8 * S);
	assert_non_null(strstr(err.msg, "takes nothing"));
	assert_true(err.hint[0] != '\0');
	assert_int_equal(blocks_of_file(1), 1000);
	end();
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(blocks_of_file(0), 51000);
}

/* Its room is full, also for the session's last count: that has its place when the disk is back, under its own reason. */
static void on_a_disk_that_stalls_for_long(void **state)
{
	struct err err = { 0 };
	struct rec_reader *r = NULL;
	const struct event *evs;
	uint64_t reported = 0;
	size_t cnt;
	pid_t pid;

	(void)state;
	begin((struct recorder_opts){ .path = path });
	pid = rec_disk__pid(rec.disk);
	kill(pid, SIGSTOP);
	for (int i = 0; i < 10000 && recorder__lost(&rec, MT_LOSS_STALLED) < 50000; i++)
		events(10000);
	assert_int_equal(recorder__lost(&rec, MT_LOSS_STALLED), 50000);
	assert_int_equal(recorder__lost(&rec, MT_LOSS_RECORDING), 0);
	lost[MT_LOSS_STALLED] = 40000; /* as the session had it told */
	kill(pid, SIGCONT);
	assert_int_equal(recorder__close(&rec, NULL, "", lost, &err), 0);
	assert_int_equal(lost[MT_LOSS_STALLED], 50000);
	assert_int_equal(lost[MT_LOSS_RECORDING], 0);
	assert_int_equal(rec_reader__open(&r, path, &err), 0);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt; i++)
			reported += evs[i].kind == EV_LOSS && evs[i].aux == MT_LOSS_STALLED ? evs[i].size : 0;
	assert_int_equal(reported, 50000);
	assert_int_equal(rec_reader__dropped(r), 50000);
	rec_reader__free(r);
	end();
}

/* What fails when all has been counted is counted all the same. */
static void on_a_disk_that_is_full_at_the_end(void **state)
{
	struct rlimit lim = { .rlim_max = RLIM_INFINITY };
	struct err err = { 0 };

	(void)state;
	begin((struct recorder_opts){ .path = path });
	events(1000);
	assert_int_equal(recorder__begin(&rec, &err), 0);
	assert_int_equal(recorder__lost(&rec, MT_LOSS_RECORDING), 0);
	lim.rlim_cur = rec_disk__bytes(rec.disk) + 10;
	assert_int_equal(prlimit(rec_disk__pid(rec.disk), RLIMIT_FSIZE, &lim, NULL), 0);
	for (int i = 0; i < 500; i++)
		event((struct event){ .kind = MT_EV_ALLOC, .pid = 1, .addr = rnd() });
	assert_int_equal(recorder__close(&rec, NULL, "", lost, &err), 0);
	assert_int_equal(lost[MT_LOSS_RECORDING], 500);
	assert_int_equal(lost[MT_LOSS_STALLED], 0);
	assert_int_equal(blocks_of_file(1), 1000); /* not even the end had room */
	end();
}

/* Nothing may be started then. */
static void on_a_full_disk(void **state)
{
	struct rlimit none = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	struct err err = { 0 };

	(void)state;
	begin((struct recorder_opts){ .path = path });
	assert_int_equal(prlimit(rec_disk__pid(rec.disk), RLIMIT_FSIZE, &none, NULL), 0);
	event((struct event){ .kind = EV_BEGIN, .pid = 1 });
	assert_int_equal(recorder__begin(&rec, &err), -EFBIG);
	assert_true(err.msg[0] && err.hint[0]);
	recorder__drop(&rec);
	assert_int_equal(access(path, F_OK), -1);
	end();
}

static void allocs(struct model *m, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		struct event ev = { .ts_ns = ts_ns++, .kind = MT_EV_ALLOC, .pid = 1, .addr = rnd(), .size = i };

		assert_int_equal(model__handle(m, &ev), 0);
		recorder__add(&rec, m, &ev);
	}
}

static void tick_until_written(struct model *m, unsigned files)
{
	uint64_t end_ns = now_ns() + 20 * S;

	while (rec.windows_cnt < files && now_ns() < end_ns) {
		recorder__tick(&rec, m, S);
		usleep(1000);
	}
	assert_int_equal(rec.windows_cnt, files);
}

/* What is asked for while one is on its way is written behind it, with what came meanwhile. A name that is taken is left. */
static void windows_beside_the_loop(void **state)
{
	const char *const names_of[] = { "r-1.mtr", "r-2.mtr", "r-3.mtr" };
	char paths[3][128];
	struct err err = { 0 };
	struct model *m;
	FILE *f;

	(void)state;
	for (int i = 0; i < 3; i++)
		snprintf(paths[i], sizeof(paths[i]), "%.*s/%s", (int)(strrchr(path, '/') - path), path, names_of[i]);
	f = fopen(paths[1], "w");
	assert_true(f && !fclose(f));
	begin((struct recorder_opts){ .path = path, .window_ns = 60 * S, .window_bytes = 8u << 20 });
	m = model__new(names, &model_opts);
	allocs(m, 100);
	recorder__dump(&rec, m, "asked");
	assert_non_null(rec.dump);
	allocs(m, 50);
	recorder__dump(&rec, m, "asked again");
	tick_until_written(m, 2);
	allocs(m, 7);
	recorder__dump(&rec, m, "and once more"); /* is waited for */
	assert_int_equal(recorder__close(&rec, m, "the end", lost, &err), 0);
	assert_int_equal(rec.windows_cnt, 3);
	assert_int_equal(blocks_of(paths[0], 0), 100);
	assert_int_equal(blocks_of(paths[2], 0), 150);
	assert_int_equal(blocks_of_file(0), 157);
	model__free(m);
	end();
	for (int i = 0; i < 3; i++)
		assert_int_equal(unlink(paths[i]), 0);
	snprintf(paths[0], sizeof(paths[0]), "%.*s/r-4.mtr", (int)(strrchr(path, '/') - path), path);
	assert_int_equal(unlink(paths[0]), 0);
}

/* Of the 64 files of a trace new peaks have half: what is asked for after them is written. */
static void new_peaks_leave_files_for_others(void **state)
{
	struct model *m;
	char name[128];

	(void)state;
	begin((struct recorder_opts){ .path = path, .window_ns = 60 * S, .window_bytes = 8u << 20, .new_peak = 0.01 });
	m = model__new(names, &model_opts);
	allocs(m, 10);
	for (unsigned i = 0; i < 40; i++) {
		rec.new_peak.since_ns = rec.new_peak.risen_ns = 1; /* one that is over for long */
		recorder__tick(&rec, m, S);
		if (i < 32)
			tick_until_written(m, i + 1);
	}
	assert_int_equal(rec.windows_cnt, 32);
	assert_null(rec.dump);
	recorder__dump(&rec, m, "asked");
	rec.new_peak.since_ns = rec.new_peak.risen_ns = 1;
	recorder__tick(&rec, m, S);
	recorder__dump(&rec, m, "asked again");
	tick_until_written(m, 34);
	model__free(m);
	end();
	for (unsigned i = 1; i <= 34; i++) {
		snprintf(name, sizeof(name), "%.*s/r-%u.mtr", (int)(strrchr(path, '/') - path), path, i);
		assert_int_equal(unlink(name), 0);
	}
}

static bool looked(struct new_peak *h, uint64_t at_ns, uint64_t cpu, uint64_t gpu)
{
	new_peak__see(h, MT_DEV_CPU, cpu, at_ns);
	new_peak__see(h, MT_DEV_CUDA0, gpu, at_ns);
	return new_peak__is_over(h, at_ns);
}

/* Shown once each, when it is over; while memory rises on and on every ten seconds; never while the trace settles. */
static void new_peaks(void **state)
{
	struct new_peak h = { .share = 0.1 };
	unsigned shown = 0;

	(void)state;
	for (uint64_t t = 1; t <= 10; t++) /* all of it is new, and none of it is news */
		assert_false(looked(&h, t * S, t * 100, 0));
	assert_false(looked(&h, 12 * S, 1000, 0));
	assert_false(looked(&h, 13 * S, 1099, 0)); /* not a tenth */
	assert_false(looked(&h, 15 * S, 1099, 0));
	assert_false(looked(&h, 16 * S, 1100, 0));
	assert_true(looked(&h, 17 * S, 1100, 0));
	assert_false(looked(&h, 30 * S, 1200, 0)); /* a tenth above the first, but not above the last */
	assert_false(looked(&h, 32 * S, 1200, 0));
	assert_false(looked(&h, 33 * S, 1200, 1)); /* another device is another matter */
	assert_true(looked(&h, 34 * S, 1200, 1));
	for (uint64_t t = 40; t < 70; t++)
		shown += looked(&h, t * S, t * 1000, 1);
	assert_int_equal(shown, 2);
	assert_false(looked(&(struct new_peak){ .share = 0.1 }, S, UINT64_MAX, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_start),
		cmocka_unit_test(new_peaks),
		cmocka_unit_test(new_peaks_leave_files_for_others),
		cmocka_unit_test(from_a_key),
		cmocka_unit_test(on_a_disk_that_stalls),
		cmocka_unit_test(on_a_disk_that_stalls_for_long),
		cmocka_unit_test(on_a_full_disk),
		cmocka_unit_test(on_a_disk_that_is_full_at_the_end),
		cmocka_unit_test(windows_beside_the_loop),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
