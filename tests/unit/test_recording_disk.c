/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Recordings written by a process of their own: what is read back is what was added, less what was counted as dropped, on
 * disks that fail, stall, and come back; and when we are killed. A disk that stalls is that process stopped by a signal.
 */
#include "recording_help.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "event/recording_disk.h"

#define EVENTS 400
#define S 1000000000ull

static struct names *names;
static struct rec_disk *disk;
static uint64_t added, ts_ns;

static struct rec_writer *start(size_t ring_bytes)
{
	struct rec_writer *w = NULL;
	struct err err = { 0 };

	names = names__new();
	added = 0;
	ts_ns = 5000;
	unlink(path);
	if (rec_disk__new(&disk, ring_bytes, NULL, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	if (rec_writer__open(&w, path, &(struct rec_writer_opts){ .names = names, .disk = disk }, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static void end(void)
{
	rec_disk__free(disk);
	names__free(names);
}

/* A frame of events, of which each has its number, and a name that must not be lost with a frame. */
static int add_frame(struct rec_writer *w, struct err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "name %llu", (unsigned long long)added);
	names__add(names, text);
	for (int i = 0; i < EVENTS; i++) {
		struct event ev = { .ts_ns = ts_ns++, .kind = MT_EV_ALLOC, .addr = rnd(), .size = added++,
				    .name = { names__last(names) } };

		assert_true(rec_writer__add(w, &ev, NULL) >= 0);
	}
	return rec_writer__flush(w, err);
}

/* All that is in the file comes in order, with its name; with what the file says was dropped it is all there was. */
static uint64_t check_file_whole(uint64_t want_dropped)
{
	struct rec_reader *r = NULL;
	const struct event *evs;
	uint64_t got = 0, last = 0, cut;
	struct err err = { 0 };
	size_t cnt;

	if (rec_reader__open(&r, path, &err) < 0)
		fail_msg("%s", err.msg);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt; i++) {
			char want[32];

			assert_true(!got++ || evs[i].size > last);
			last = evs[i].size;
			snprintf(want, sizeof(want), "name %llu", (unsigned long long)(last / EVENTS * EVENTS));
			assert_string_equal(names__get(rec_reader__names(r), evs[i].name), want);
		}
	assert_int_equal(rec_reader__truncated(r, &cut), 0);
	assert_int_equal(rec_reader__dropped(r), want_dropped);
	assert_int_equal(got + want_dropped, added);
	rec_reader__free(r);
	return got;
}

static void test_all_arrives(void **state)
{
	struct rec_writer *w = start(1u << 20);
	struct err err = { 0 };

	(void)state;
	for (int i = 0; i < 300; i++) {
		assert_int_equal(add_frame(w, &err), 0);
		if (i % 50 == 0) {
			assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
			struct stat st;

			assert_int_equal(stat(path, &st), 0);
			assert_int_equal(st.st_size, rec_writer__bytes(w));
		}
	}
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file_whole(0);
	assert_true(rec_disk__cpu_ns(disk) > 0 && rec_disk__cpu_ns(NULL) == 0);
	end();
}

static void test_stalled_disk(void **state)
{
	struct rec_writer *w = start(64u << 10);
	struct err err = { 0 };
	uint64_t begin, longest = 0;
	int full = 0;

	(void)state;
	assert_int_equal(add_frame(w, &err), 0);
	assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
	kill(rec_disk__pid(disk), SIGSTOP);
	for (int i = 0; i < 200; i++) {
		int r;

		begin = now_ns();
		r = add_frame(w, &err);
		longest = now_ns() - begin > longest ? now_ns() - begin : longest;
		assert_true(r == 0 || r == -EAGAIN);
		full += r == -EAGAIN;
	}
	assert_true(full > 100);
	assert_true(longest < S / 2); /* nobody waits */
	assert_non_null(strstr(err.msg, "takes nothing"));
	assert_int_equal(rec_writer__dropped(w), (uint64_t)full * EVENTS);
	assert_int_equal(rec_writer__stalled(w), rec_writer__dropped(w));
	begin = now_ns();
	assert_int_equal(rec_writer__wait(w, S / 5, &err), -ETIMEDOUT);
	assert_true(now_ns() - begin < S);
	kill(rec_disk__pid(disk), SIGCONT);
	assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
	assert_int_equal(add_frame(w, &err), 0); /* it goes on */
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file_whole((uint64_t)full * EVENTS);
	end();
}

/* The C library's, for the process that writes too: as slow as the disk of the test is. */
static volatile int *sync_s;

int fdatasync(int fd)
{
	if (sync_s && *sync_s)
		sleep((unsigned)*sync_s);
	return (int)syscall(SYS_fdatasync, fd);
}

/* Room first, where there is none: a sync that takes long must not keep a disk that is back from taking what waits. */
static void test_slow_sync_behind_a_stall(void **state)
{
	struct rec_writer *w;
	struct err err = { 0 };
	uint64_t begin, before;
	int r;

	(void)state;
	sync_s = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(sync_s != MAP_FAILED);
	w = start(64u << 10);
	assert_int_equal(add_frame(w, &err), 0);
	assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
	*sync_s = 4;
	before = rec_writer__bytes(w);
	assert_int_equal(add_frame(w, &err), 0);
	while (rec_writer__bytes(w) == before) /* written, not synced: it comes to that in a second */
		usleep(1000);
	kill(rec_disk__pid(disk), SIGSTOP);
	while ((r = add_frame(w, &err)) == 0)
		;
	assert_int_equal(r, -EAGAIN);
	usleep(1100000);
	before = rec_writer__bytes(w);
	begin = now_ns();
	kill(rec_disk__pid(disk), SIGCONT);
	while (rec_writer__bytes(w) < before + (32u << 10))
		usleep(1000);
	assert_true(now_ns() - begin < 3 * S); /* the sync takes 4 s */
	*sync_s = 0;
	assert_int_equal(rec_writer__wait(w, 10 * S, &err), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file_whole(EVENTS);
	end();
	munmap((void *)(uintptr_t)sync_s, sizeof(int));
	sync_s = NULL;
}

/* We give up; what it was given is written all the same when the disk comes back. */
static void test_disk_that_comes_back_late(void **state)
{
	struct rec_writer *w = start(1u << 20);
	struct err err = { 0 };
	uint64_t begin;
	pid_t pid = rec_disk__pid(disk);

	(void)state;
	assert_int_equal(add_frame(w, &err), 0);
	kill(pid, SIGSTOP);
	assert_int_equal(add_frame(w, &err), 0);
	begin = now_ns();
	assert_int_equal(rec_writer__close(w, &err), -ETIMEDOUT);
	assert_true(now_ns() - begin < MTR_CLOSE_NS + S);
	assert_true(err.hint[0] != '\0');
	rec_disk__free(disk);
	assert_true(now_ns() - begin < MTR_CLOSE_NS + 2 * S);
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	check_file_whole(0);
	names__free(names);
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit lim;

	assert_int_equal(prlimit(rec_disk__pid(disk), RLIMIT_FSIZE, NULL, &lim), 0);
	lim.rlim_cur = bytes;
	assert_int_equal(prlimit(rec_disk__pid(disk), RLIMIT_FSIZE, &lim, NULL), 0);
}

/* Each failure takes with it what was on its way, and no more; names come again. */
static void test_full_disk(void **state)
{
	struct rec_writer *w = start(1u << 20);
	uint64_t dropped;
	struct err err = { 0 };
	int failed = 0;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(add_frame(w, &err), 0);
	assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
	limit_file_size(rec_writer__bytes(w) + 10);
	for (int i = 0; i < 20; i++) {
		int r = add_frame(w, &err);

		assert_true(r == 0 || r == -EFBIG);
		failed += r == -EFBIG;
		if (i % 3 == 0) {
			r = rec_writer__wait(w, 5 * S, &err);
			assert_true(r == 0 || r == -EFBIG);
			failed += r == -EFBIG;
		}
	}
	assert_true(failed >= 5);
	assert_true(err.hint[0] != '\0');
	(void)rec_writer__wait(w, 5 * S, &err);
	limit_file_size(RLIM_INFINITY);
	for (int i = 0; i < 5; i++)
		assert_int_equal(add_frame(w, &err), 0);
	assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
	dropped = rec_writer__dropped(w);
	assert_true(dropped >= (uint64_t)failed * EVENTS);
	assert_int_equal(rec_writer__stalled(w), 0); /* it answered */
	assert_int_equal(rec_writer__close(w, &err), 0);
	assert_true(check_file_whole(dropped) >= 10 * EVENTS);
	end();
}

/* The tracer is killed with frames in the ring that nobody has written yet. */
static void test_killed(void **state)
{
	int fds[2], status;
	pid_t pid, worker;
	uint64_t cut;
	struct rec_reader *r = NULL;
	const struct event *evs;
	size_t cnt, got = 0;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		struct rec_writer *w = start(1u << 20);

		worker = rec_disk__pid(disk);
		kill(worker, SIGSTOP);
		for (int i = 0; i < 10; i++)
			(void)add_frame(w, NULL);
		(void)!write(fds[1], &worker, sizeof(worker));
		raise(SIGKILL);
	}
	assert_int_equal(read(fds[0], &worker, sizeof(worker)), sizeof(worker));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	kill(worker, SIGCONT);
	for (int i = 0; i < 500 && !kill(worker, 0); i++)
		usleep(10000);
	assert_int_equal(rec_reader__open(&r, path, NULL), 0);
	while (rec_reader__next(r, &evs, &cnt, NULL) > 0)
		got += cnt;
	assert_int_equal(got, 10 * EVENTS);
	assert_int_equal(rec_reader__truncated(r, &cut), 1); /* no end mark */
	rec_reader__free(r);
	close(fds[0]);
	close(fds[1]);
}

/* It must not keep anything of ours alive, and can do nothing but write. */
static void test_it_has_nothing(void **state)
{
	struct rec_writer *w = start(1u << 20);
	char at[64], line[256];
	struct err err = { 0 };
	int fds = 0, seen = 0;
	struct dirent *e;
	FILE *f;
	DIR *d;

	(void)state;
	assert_int_equal(add_frame(w, &err), 0);
	assert_int_equal(rec_writer__wait(w, 5 * S, &err), 0);
	snprintf(at, sizeof(at), "/proc/%d/fd", (int)rec_disk__pid(disk));
	d = opendir(at);
	assert_non_null(d);
	while ((e = readdir(d)))
		fds += e->d_name[0] != '.';
	closedir(d);
	assert_int_equal(fds, 2); /* the socket and the file; the directory is synced */
	snprintf(at, sizeof(at), "/proc/%d/status", (int)rec_disk__pid(disk));
	f = fopen(at, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "CapPrm:", 7) || !strncmp(line, "CapEff:", 7)) {
			assert_int_equal(strtoull(line + 7, NULL, 16), 0);
			seen++;
		}
		seen += !strcmp(line, "NoNewPrivs:\t1\n");
	}
	fclose(f);
	assert_int_equal(seen, 3);
	assert_int_equal(rec_writer__close(w, &err), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_arrives),  cmocka_unit_test(test_stalled_disk),
		cmocka_unit_test(test_slow_sync_behind_a_stall),
		cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_disk_that_comes_back_late),
		cmocka_unit_test(test_killed),	     cmocka_unit_test(test_it_has_nothing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
