/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Recordings: what goes in comes out; foreign files stay; a full disk costs only frames. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "event/decode.h"
#include "unit/recording_help.h"

/* --- round trips ----------------------------------------------------------------------------- */

static void round_trip(uint64_t seed, size_t cnt, uint32_t threads)
{
	struct event *evs = malloc(cnt * sizeof(*evs));
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	uint64_t ts_ns = below(2) ? 0 : number() >> 8;
	struct err err = { 0 };

	assert_non_null(evs);
	rng = seed;
	for (size_t i = 0; i < cnt; i++) {
		if (!below(1000)) {
			uint64_t text = rnd();

			names__add_len(names, (char *)&text, 1 + below(8));
		}
		ts_ns = later(ts_ns);
		evs[i] = random_event(ts_ns, names__last(names), threads);
		assert_int_equal(rec_writer__add(w, &evs[i], &err), 0);
		if (!below(20000))
			assert_int_equal(rec_writer__flush(w, &err), 0);
	}
	names__add(names, "a name that no event uses");
	assert_int_equal(rec_writer__dropped(w), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file(evs, cnt, names);
	names__free(names);
	free(evs);
}

static void test_random_events(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++)
		round_trip(seed, 1 + seed * seed * 7, 1 + (uint32_t)seed % 4);
	round_trip(100, 2 * FRAME + 17, 3);
	round_trip(101, FRAME, 256);
	round_trip(102, FRAME, 257);
	round_trip(103, FRAME + 1, 1u << 20); /* nearly every event another thread */
}

/* All of one kind, all fields the same or all at the top: each column at its limit. */
static void test_extremes(void **state)
{
	struct names *names = names__new();
	struct event *evs = calloc(FRAME, sizeof(*evs));
	struct err err = { 0 };

	(void)state;
	assert_non_null(evs);
	for (int round = 0; round < 6; round++) {
		struct rec_writer *w = open_writer(names);

		for (uint32_t i = 0; i < FRAME; i++) {
			memset(&evs[i], round & 1 ? 0xff : 0, sizeof(*evs));
			evs[i].name = NAME_NONE;
			evs[i].kind = round < 2 ? MT_EV_OP : round < 4 ? MT_EV_FREE : EV_TICK;
			if (round >= 2 && i & 1)
				evs[i].addr = evs[i].size = round & 1 ? i : UINT64_MAX - i;
			if (round >= 4)
				evs[i].seq = i * 0x90000001u;
			evs[i].ts_ns = i == FRAME - 1 ? UINT64_MAX : round & 1 ? UINT64_MAX : 0;
			assert_int_equal(rec_writer__add(w, &evs[i], &err), 0);
		}
		assert_int_equal(rec_writer__close(w, &err), 0);
		check_file(evs, FRAME, names);
	}
	free(evs);
	names__free(names);
}

static void test_a_training_job(void **state)
{
	const size_t cnt = 300000;
	struct event *evs = malloc(cnt * sizeof(*evs));

	(void)state;
	assert_non_null(evs);
	for (uint32_t procs = 1; procs <= 8; procs *= 8) {
		struct names *names = names__new();
		struct gen *g = gen__new(procs, procs, names);
		struct rec_writer *w = open_writer(names);
		struct err err = { 0 };

		assert_non_null(g);
		for (size_t i = 0; i < cnt; i++) {
			gen__next(g, &evs[i]);
			assert_int_equal(rec_writer__add(w, &evs[i], &err), 0);
		}
		assert_int_equal(rec_writer__flush(w, &err), 0);
		assert_true(rec_writer__bytes(w) < cnt * 3); /* promised: 5 */
		assert_int_equal(rec_writer__close(w, &err), 0);
		check_file(evs, cnt, names);
		gen__free(g);
		names__free(names);
	}
	free(evs);
}

/* Device, class, flags and place of tensor arguments, from the ring's record to the recording and back. */
static void test_tensor_arguments(void **state)
{
	static const uint8_t devs[] = { MT_DEV_NONE, MT_DEV_CPU, MT_DEV_CUDA0, MT_DEV_CUDA0 + MT_DEV_CUDA_MAX - 1 };
	struct {
		struct mt_rec_flow rec;
		struct mt_flow_arg args[28];
	} in = { .rec = { .hdr = { .ts_ns = 5, .pid = 7, .tid = 8, .kind = MT_EV_ACC, .depth = 2, .seq = 9 },
			  .args_cnt = 28 } };
	struct names *names = names__new();
	struct decode *d = decode__new(names);
	struct rec_writer *w = open_writer(names);
	struct err err = { 0 };
	struct event evs[29];

	(void)state;
	for (unsigned i = 0; i < 28; i++)
		in.args[i] = (struct mt_flow_arg){ .ptr = 64 * i, .size = 1000 + i, .index = (uint8_t)(200 + i),
						   .flags = (uint8_t)(i * 9), .item = (uint16_t)(65535 - i),
						   .dev = devs[i % 4], .class = (uint8_t)(i % MT_CLASS_MAX) };
	assert_int_equal(decode__record(d, &in, sizeof(in), &evs[0]), 1);
	assert_int_equal(decode__args_cnt(&in, sizeof(in)), 28);
	for (unsigned i = 0; i < 28; i++) {
		const struct event *e = &evs[i + 1];

		decode__arg(&in, i, &evs[0], &evs[i + 1]);
		assert_true(e->kind == EV_ARG && e->seq == 9 && e->depth == 3 && e->pid == 7 && e->tid == 8);
		assert_true(e->addr == 64 * i && e->size == 1000 + i && e->dev == devs[i % 4]);
		assert_true(e->flags == i % MT_CLASS_MAX);
		assert_int_equal(e->aux, (200 + i) | (i * 9) << 8 | (65535 - i) << 16);
	}
	for (unsigned i = 0; i < 29; i++)
		assert_int_equal(rec_writer__add(w, &evs[i], &err), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file(evs, 29, names);
	/* one argument fewer than said, one byte too few: not taken */
	assert_true(decode__record(d, &in, sizeof(in) - sizeof(in.args[0]), &evs[0]) < 0);
	assert_true(decode__record(d, &in, sizeof(in) - 1, &evs[0]) < 0);
	decode__free(d);
	names__free(names);
}

static void test_many_names(void **state)
{
	char *text = malloc(NAME_BYTES_MAX);
	struct names *names = names__new();
	struct event ev = { .ts_ns = 5, .kind = EV_NOTE };
	struct rec_writer *w = open_writer(names);
	struct err err = { 0 };

	(void)state;
	assert_non_null(text);
	for (uint32_t i = 0; i < 1200; i++) { /* 4.9 MB: several frames of names alone */
		memset(text, 'a', NAME_BYTES_MAX);
		memcpy(text, &i, sizeof(i));
		ev.name = names__add_len(names, text, NAME_BYTES_MAX);
	}
	assert_int_equal(rec_writer__add(w, &ev, &err), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file(&ev, 1, names);
	names__free(names);
	free(text);
}

/* Command lines of 4 KiB, more than a recording has room for: not an event of another process is lost. */
static void test_names_of_one_process_without_end(void **state)
{
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	struct err err = { 0 };
	char text[NAME_BYTES_MAX];

	(void)state;
	names__limit(names, MTR_NAMES_BYTES_MAX - (1u << 20));
	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 66000; i++) {
		struct event ev = { .ts_ns = i + 1, .pid = 7, .kind = EV_COMM };

		text[snprintf(text, sizeof(text), "%08x", i)] = 'x';
		ev.name = names__add_of(names, 7, text, sizeof(text));
		assert_int_equal(rec_writer__add(w, &ev, &err), 0);
	}
	for (unsigned i = 0; i < 100000; i++) {
		struct event ev = { .ts_ns = 100000 + i, .pid = 8, .kind = MT_EV_REGION_BEGIN };

		ev.name = names__add_of(names, 8, text, (size_t)snprintf(text, sizeof(text), "layer%u", i % 100));
		assert_int_equal(rec_writer__add(w, &ev, &err), 0);
	}
	assert_int_equal(rec_writer__dropped(w), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	assert_true(names__find(names, "layer99").v && names__overflow_cnt(names) > 0);
	names__free(names);
}

static void test_nothing_recorded(void **state)
{
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	struct err err = { 0 };

	(void)state;
	assert_int_equal(rec_writer__flush(w, &err), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file(NULL, 0, names);
	assert_int_equal(rec_writer__close(NULL, NULL), 0);
	rec_reader__free(NULL);
	names__free(names);
}

static void test_promises_of_the_writer(void **state)
{
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	struct event ev = { .ts_ns = 100, .kind = EV_TICK }, got[2];
	struct err err = { 0 };

	(void)state;
	assert_int_equal(rec_writer__add(w, &ev, &err), 0);
	ev.ts_ns = 50; /* time does not go back */
	assert_int_equal(rec_writer__add(w, &ev, &err), 0);
	ev.name.v = 1; /* a name that nobody gave out would make the frame unreadable */
	assert_int_equal(rec_writer__add(w, &ev, &err), -EINVAL);
	assert_int_equal(rec_writer__dropped(w), 1);
	assert_int_equal(rec_writer__close(w, &err), 0);
	ev.name.v = 0;
	ev.ts_ns = 100;
	got[0] = got[1] = ev;
	{
		struct rec_reader *r = NULL;

		assert_int_equal(rec_reader__open(&r, path, &err), 0);
		assert_int_equal(read_back(r, got, 2), 2);
		assert_int_equal(rec_reader__dropped(r), 1);
		rec_reader__free(r);
	}
	names__free(names);
}

/* --- files that are not ours ----------------------------------------------------------------- */

static void check_open(const char *file, int code, const char *words)
{
	struct rec_reader *r = NULL;
	struct err err = { 0 };

	assert_int_equal(rec_reader__open(&r, file, &err), code);
	assert_null(r);
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.msg, words));
	assert_non_null(strstr(err.msg, file));
	if (code == -EINVAL || code == -ENOTSUP || code == -ENODATA)
		assert_true(err.hint[0] != '\0');
}

static void test_foreign_files_read(void **state)
{
	size_t len;
	uint8_t *data = small_file(&len);
	uint16_t version = MTR_VERSION + 1;

	(void)state;
	check_open("/nonexistent/x.mtr", -ENOENT, "No such file");
	check_open(dir, -EISDIR, "a directory, not a recording");
	check_open("/dev/zero", -EINVAL, "not a memtrace recording");
	spill("", 0);
	check_open(path, -ENODATA, "empty");
	spill("PK\3\4 something else entirely, longer than a header", 50);
	check_open(path, -EINVAL, "not a memtrace recording");
	spill("x", 1);
	check_open(path, -EINVAL, "not a memtrace recording");
	spill(data, sizeof(struct mtr_file));
	check_open(path, -ENODATA, "no whole frame");
	memcpy(data + offsetof(struct mtr_file, version), &version, sizeof(version));
	spill(data, len);
	check_open(path, -ENOTSUP, "version 2");
	free(data);
}

static void test_foreign_files_are_not_overwritten(void **state)
{
	static const char text[] = "import torch\n";
	struct names *names = names__new();
	const struct rec_writer_opts plain = { .names = names }, force = { .names = names, .how.force = 1 };
	struct rec_writer *w = NULL, *w2 = NULL;
	struct err err = { 0 };
	uint8_t *data;
	size_t len;

	(void)state;
	spill(text, sizeof(text));
	assert_int_equal(rec_writer__open(&w, path, &plain, &err), -EEXIST);
	assert_true(err.hint[0] != '\0');
	data = slurp(&len);
	assert_int_equal(len, sizeof(text));
	assert_memory_equal(data, text, len);
	free(data);
	assert_int_equal(rec_writer__open(&w, dir, &force, &err), -EISDIR);
	assert_int_equal(rec_writer__open(&w, "/dev/full", &force, &err), -EINVAL);
	assert_int_equal(rec_writer__open(&w, "/nonexistent/x.mtr", &force, &err), -ENOENT);
	assert_null(w);
	/* Nor are empty ones and recordings, unless that is asked for; and then not one that is being written. */
	spill("", 0);
	assert_int_equal(rec_writer__open(&w, path, &plain, &err), -EEXIST);
	free(small_file(&len));
	assert_int_equal(rec_writer__open(&w, path, &plain, &err), -EEXIST);
	unlink(path);
	w = open_writer(names);
	assert_int_equal(rec_writer__open(&w2, path, &force, &err), -EBUSY);
	assert_null(w2);
	assert_int_equal(rec_writer__close(w, &err), 0);
	free(small_file(&len));
	w = open_writer(names);
	assert_int_equal(rec_writer__close(w, &err), 0);
	check_file(NULL, 0, names);
	names__free(names);
}

/* --- full disks ------------------------------------------------------------------------------ */

/*
 * Writes frames until one fails, goes on through `more` failing ones, makes room, goes on. What is
 * read back must be the events of the frames that did not fail, and the count of the others.
 * Runs in a child, where limits and mounts can be changed: returns its exit code.
 */
static int fill_up(const char *file, int code, int (*make_room)(void))
{
	enum { FRAMES = 60, EVENTS = 400 };
	struct event *kept = malloc(FRAMES * EVENTS * sizeof(*kept)), batch[EVENTS];
	size_t kept_cnt = 0, failed = 0, done = 0, n;
	struct names *names = names__new();
	struct rec_writer *w = NULL;
	struct rec_reader *r = NULL;
	const struct event *got;
	struct err err = { 0 };
	struct stat st;
	uint64_t ts_ns = 0, left;
	int res;

	if (!kept || rec_writer__open(&w, file, &(struct rec_writer_opts){ .names = names }, &err) < 0)
		return 10;
	rng = 77;
	for (int f = 0; f < FRAMES; f++) {
		uint64_t text = rnd();

		names__add_len(names, (char *)&text, 8); /* must not get lost with a frame */
		for (int i = 0; i < EVENTS; i++) {
			ts_ns += below(1000);
			batch[i] = random_event(ts_ns, names__last(names), 3);
			if (rec_writer__add(w, &batch[i], &err) < 0)
				return 11;
		}
		res = rec_writer__flush(w, &err);
		if (res == 0) {
			memcpy(kept + kept_cnt, batch, sizeof(batch));
			kept_cnt += EVENTS;
			continue;
		}
		if (res != code || !err.hint[0])
			return 12;
		/* Cut back to whole frames at once: a crash now would leave a good file. */
		if (stat(file, &st) < 0 || (uint64_t)st.st_size != rec_writer__bytes(w))
			return 13;
		if (++failed == 3 && make_room() < 0)
			return 14;
	}
	if (failed != 3 || rec_writer__dropped(w) != failed * EVENTS)
		return 15;
	if (rec_writer__close(w, &err) < 0 || rec_reader__open(&r, file, &err) < 0)
		return 16;
	while ((res = rec_reader__next(r, &got, &n, &err)) == 1) {
		if (done + n > kept_cnt || memcmp(got, kept + done, n * sizeof(*got)))
			return 17;
		done += n;
	}
	if (res || done != kept_cnt || rec_reader__truncated(r, &left))
		return 18;
	if (rec_reader__dropped(r) != failed * EVENTS ||
	    names__last(rec_reader__names(r)) != names__last(names))
		return 19;
	rec_reader__free(r);
	names__free(names);
	free(kept);
	return 0;
}

static int limit_file_size(rlim_t bytes)
{
	struct rlimit lim = { .rlim_cur = bytes, .rlim_max = RLIM_INFINITY };

	if (getrlimit(RLIMIT_FSIZE, &lim) < 0)
		return -1;
	lim.rlim_cur = bytes < lim.rlim_max ? bytes : lim.rlim_max;
	return setrlimit(RLIMIT_FSIZE, &lim);
}

static int lift_limit(void)
{
	return limit_file_size(RLIM_INFINITY);
}

static int wait_for(pid_t pid)
{
	int status = -1;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_file_size_limit(void **state)
{
	pid_t pid;

	(void)state;
	unlink(path);
	pid = fork();
	if (!pid) {
		signal(SIGXFSZ, SIG_IGN);
		_exit(limit_file_size(50000) < 0 ? 9 : fill_up(path, -EFBIG, lift_limit));
	}
	assert_int_equal(wait_for(pid), 0);
}

static int grow_disk(void)
{
	return mount("none", dir, "tmpfs", MS_REMOUNT, "size=16m");
}

static void test_full_disk(void **state)
{
	pid_t pid;

	(void)state;
	if (geteuid())
		skip(); /* mounts need root */
	unlink(path);
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", dir, "tmpfs", 0, "size=64k") < 0)
			_exit(77); /* root of a container without the right */
		_exit(fill_up(path, -ENOSPC, grow_disk));
	}
	switch (wait_for(pid)) {
	case 0:
		return;
	case 77:
		skip();
	default:
		fail();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_events),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_a_training_job),
		cmocka_unit_test(test_tensor_arguments),
		cmocka_unit_test(test_many_names),
		cmocka_unit_test(test_names_of_one_process_without_end),
		cmocka_unit_test(test_nothing_recorded),
		cmocka_unit_test(test_promises_of_the_writer),
		cmocka_unit_test(test_foreign_files_read),
		cmocka_unit_test(test_foreign_files_are_not_overwritten),
		cmocka_unit_test(test_file_size_limit),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
