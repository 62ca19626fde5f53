/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * How small a recording is, and how fast it is written, read and ordered (no model).
 *
 *	bench_replay_io             a generated training job, one process and then eight
 *	bench_replay_io FILE.mtr    the events of a recording, encoded again: bytes by column
 *	bench_replay_io --raw FILE [NAMES]   an array of struct event; names one a line
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/gen_events.h"
#include "event/order.h"
#include "event/recording.h"
#include "event/recording_frame.h"

#define GEN_EVENTS 2000000
#define ROUNDS 3

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "bench_replay_io: %s%s%s\n", what, err ? ": " : "", err ? err->msg : "");
	exit(1);
}

static void *need(void *p)
{
	if (!p)
		die("no memory", NULL);
	return p;
}

/* --- encode alone, by column ----------------------------------------------------------------- */

static const char *const col_names[MTR_COLUMNS] = {
	"names", "threads", "order", "shapes", "shape", "time_lo", "time_hi", "time_big", "seq", "back", "addr", "size",
};

static void bench_encode(const struct event *evs, size_t cnt, const struct names *names, int level)
{
	struct rec_enc *e = need(rec_enc__new(level));
	uint64_t raw[MTR_COLUMNS] = { 0 }, stored[MTR_COLUMNS] = { 0 }, total = 0;
	double best = 1e9;

	for (int round = 0; round < ROUNDS; round++) {
		double t = now_s();

		total = 0;
		for (size_t i = 0; i < cnt; i += MTR_FRAME_EVENTS_MAX) {
			size_t n = cnt - i < MTR_FRAME_EVENTS_MAX ? cnt - i : MTR_FRAME_EVENTS_MAX;
			struct rec_frame_in in = { .events = evs + i, .event_cnt = (uint32_t)n,
						   .names = names, .name_first = 1 };
			const void *data;
			size_t len;

			rec_enc__frame(e, &in, &data, &len);
			total += len;
			for (int c = 0; !round && c < MTR_COLUMNS; c++) {
				struct mtr_column col;

				memcpy(&col, (const char *)data + sizeof(struct mtr_frame) + (size_t)c * sizeof(col),
				       sizeof(col));
				raw[c] += col.raw_bytes;
				stored[c] += col.stored_bytes;
			}
		}
		t = now_s() - t;
		best = t < best ? t : best;
	}
	printf("  encode level %d: %.3f bytes/event, %.0f ns/event\n", level,
	       (double)total / (double)cnt, best * 1e9 / (double)cnt);
	if (level == 0)
		for (int c = 0; c < MTR_COLUMNS; c++)
			if (raw[c])
				printf("    %-9s %7.3f raw  %6.3f stored bytes/event\n",
				       col_names[c], (double)raw[c] / (double)cnt,
				       (double)stored[c] / (double)cnt);
	rec_enc__free(e);
}

/* --- through a file -------------------------------------------------------------------------- */

static void bench_write(const char *path, const struct event *evs, size_t cnt,
			const struct names *names)
{
	struct err err = { 0 };
	struct rec_writer *w;
	double t = now_s();

	if (rec_writer__open(&w, path, &(struct rec_writer_opts){ .names = names, .how.force = 1 }, &err) < 0)
		die("open", &err);
	for (size_t i = 0; i < cnt; i++)
		if (rec_writer__add(w, &evs[i], &err) < 0)
			die("write", &err);
	if (rec_writer__flush(w, &err) < 0)
		die("write", &err);
	t = now_s() - t;
	printf("  write: %.3f bytes/event, %.0f ns/event (fsync not in it)\n",
	       (double)rec_writer__bytes(w) / (double)cnt, t * 1e9 / (double)cnt);
	if (rec_writer__close(w, &err) < 0)
		die("close", &err);
}

static size_t bench_read(const char *path, const struct event *expect, size_t expect_cnt)
{
	double best = 1e9;
	size_t cnt = 0;

	for (int round = 0; round <= ROUNDS; round++) {
		struct err err = { 0 };
		struct rec_reader *r;
		const struct event *evs;
		double t = now_s();
		size_t n;
		int res;

		cnt = 0;
		if (rec_reader__open(&r, path, &err) < 0)
			die("open", &err);
		while ((res = rec_reader__next(r, &evs, &n, &err)) == 1) {
			if (!round && (cnt + n > expect_cnt ||
				       memcmp(evs, expect + cnt, n * sizeof(*evs))))
				die("what was read is not what was written", NULL);
			cnt += n;
		}
		if (res < 0)
			die("read", &err);
		t = now_s() - t;
		if (round && t < best)
			best = t;
		rec_reader__free(r);
	}
	if (cnt != expect_cnt)
		die("events are missing", NULL);
	printf("  read: %.1f M events/s (%.1f ns/event)\n", (double)cnt / best * 1e-6,
	       best * 1e9 / (double)cnt);
	return cnt;
}

static void bench_events(const char *title, const struct event *evs, size_t cnt,
			 const struct names *names)
{
	static const int levels[] = { 0, -1, 1, 3, 6 };
	char path[] = "/tmp/bench_replay_io.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0)
		die("no temporary file", NULL);
	close(fd);
	printf("%s: %zu events\n", title, cnt);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		bench_encode(evs, cnt, names, levels[i]);
	bench_write(path, evs, cnt, names);
	bench_read(path, evs, cnt);
	unlink(path);
}

/* --- order ----------------------------------------------------------------------------------- */

static int count_event(void *ctx, const struct event *ev)
{
	uint64_t *sum = ctx;

	*sum += ev->addr;
	return 0;
}

/* Two rings, drained in turn every 8,192 events; one event in 16 comes up to 8 places late. */
static void bench_order(void)
{
	const size_t cnt = 1 << 22, chunk = 8192;
	struct event *evs = need(malloc(cnt * sizeof(*evs)));
	uint64_t sum = 0, rng = 1;
	double best = 1e9;

	memset(evs, 0, cnt * sizeof(*evs));
	for (size_t i = 0; i < cnt; i++) {
		size_t pair = i / (2 * chunk), ring = i / chunk % 2, k = i % chunk;

		rng = rng * 6364136223846793005u + 1442695040888963407u;
		evs[i].ts_ns = 1000 + (pair * chunk + k) * 2000 + ring * 700 + (rng >> 56);
		if (!((rng >> 40) & 15))
			evs[i].ts_ns -= (rng >> 44 & 7) * 250;
		evs[i].addr = 1;
	}
	for (int round = 0; round < ROUNDS; round++) {
		struct order *o = need(order__new(1 << 17, count_event, &sum));
		double t = now_s();

		for (size_t i = 0; i < cnt; i++) {
			if (i % (2 * chunk) == 0 && i)
				order__flush(o, evs[i].ts_ns - 20000);
			order__push(o, &evs[i]);
		}
		order__flush(o, UINT64_MAX);
		t = now_s() - t;
		best = t < best ? t : best;
		if (order__late_cnt(o))
			die("late events", NULL);
		order__free(o);
	}
	if (sum != ROUNDS * cnt)
		die("order lost events", NULL);
	printf("order, two rings nearly sorted: %.1f M events/s (%.1f ns/event)\n",
	       (double)cnt / best * 1e-6, best * 1e9 / (double)cnt);
	free(evs);
}

/* --- where events come from ------------------------------------------------------------------ */

static void run_generated(uint32_t procs)
{
	struct event *evs = need(malloc(GEN_EVENTS * sizeof(*evs)));
	struct names *names = need(names__new());
	struct gen *g = need(gen__new(1, procs, names));
	char title[64];

	for (size_t i = 0; i < GEN_EVENTS; i++)
		gen__next(g, &evs[i]);
	snprintf(title, sizeof(title), "generated job, %" PRIu32 " process(es)", procs);
	bench_events(title, evs, GEN_EVENTS, names);
	gen__free(g);
	names__free(names);
	free(evs);
}

static void run_recording(const char *path)
{
	struct event *evs = NULL;
	struct err err = { 0 };
	const struct event *got;
	struct rec_reader *r;
	size_t n, cnt = 0;
	uint64_t left;
	int res;

	if (rec_reader__open(&r, path, &err) < 0)
		die("open", &err);
	while ((res = rec_reader__next(r, &got, &n, &err)) == 1) {
		evs = need(realloc(evs, (cnt + n) * sizeof(*evs)));
		memcpy(evs + cnt, got, n * sizeof(*evs));
		cnt += n;
	}
	if (res < 0)
		die("read", &err);
	if (rec_reader__truncated(r, &left))
		printf("%s was cut: %" PRIu64 " bytes not read\n", path, left);
	if (cnt)
		bench_events(path, evs, cnt, rec_reader__names(r));
	rec_reader__free(r);
	free(evs);
}

static void run_raw(const char *path, const char *names_path)
{
	struct names *names = need(names__new());
	FILE *f = fopen(path, "rb"), *nf = names_path ? fopen(names_path, "r") : NULL;
	struct event *evs = NULL;
	size_t cnt = 0, n;
	char line[512];

	if (!f)
		die(path, NULL);
	while (nf && fgets(line, sizeof(line), nf))
		names__add_len(names, line, strcspn(line, "\n"));
	do {
		evs = need(realloc(evs, (cnt + 65536) * sizeof(*evs)));
		n = fread(evs + cnt, sizeof(*evs), 65536, f);
		cnt += n;
	} while (n);
	if (cnt)
		bench_events(path, evs, cnt, names);
	fclose(f);
	if (nf)
		fclose(nf);
	names__free(names);
	free(evs);
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--raw")) {
		run_raw(argv[2], argv[3]);
	} else if (argc > 1) {
		run_recording(argv[1]);
	} else {
		run_generated(1);
		run_generated(8);
		bench_order();
	}
	return 0;
}
