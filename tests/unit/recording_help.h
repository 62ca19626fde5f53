/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What the tests of recordings share: a scratch file, random events, and reading back. */
#ifndef MT_TESTS_RECORDING_HELP_H
#define MT_TESTS_RECORDING_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/gen_events.h"
#include "event/recording.h"
#include "event/recording_frame.h"

#define FRAME MTR_FRAME_EVENTS_MAX

static char dir[] = "/tmp/memtrace_test.XXXXXX";
static char path[64];

static inline int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/r.mtr", dir);
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

/* --- helpers --------------------------------------------------------------------------------- */

static uint64_t rng;

static inline uint64_t rnd(void)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t below(uint64_t n)
{
	return rnd() % n;
}

/* Small, at an edge, or anything. */
static inline uint64_t number(void)
{
	static const uint64_t edges[] = { 0, 1, 127, 128, 65535, 65536, UINT32_MAX,
					  1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX };

	switch (below(3)) {
	case 0:
		return below(300);
	case 1:
		return edges[below(sizeof(edges) / sizeof(edges[0]))];
	default:
		return rnd() >> below(64);
	}
}

static inline struct event random_event(uint64_t ts_ns, uint32_t name_last, uint32_t threads)
{
	uint32_t thread = (uint32_t)below(threads);
	struct event ev = {
		.ts_ns = ts_ns, .addr = number(), .size = number(),
		.pid = thread % 5 ? thread / 3 : UINT32_MAX - thread, .tid = thread * 2654435761u,
		.seq = (uint32_t)number(), .name = { (uint32_t)below((uint64_t)name_last + 1) },
		.kind = (uint8_t)below(below(2) ? 256 : EV_MAX), .dev = (uint8_t)number(),
		.depth = (uint8_t)(below(3) ? below(4) : number()), .flags = (uint8_t)number(),
		.aux = (uint32_t)number(),
	};

	return ev;
}

/* Times that stand still, creep and leap, up to UINT64_MAX at the end. */
static inline uint64_t later(uint64_t ts_ns)
{
	uint64_t d = below(4) ? below(3000) : below(50) ? below(70000) : rnd() >> (10 + below(50));

	return ts_ns + d < ts_ns ? UINT64_MAX : ts_ns + d;
}

static inline uint8_t *slurp(size_t *ret_len)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *data;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	*ret_len = fread(data, 1, (size_t)st.st_size, f);
	assert_int_equal(*ret_len, st.st_size);
	fclose(f);
	return data;
}

static inline void spill(const void *data, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static inline struct rec_writer *open_writer(const struct names *names)
{
	struct rec_writer *w = NULL;
	struct err err = { 0 };

	assert_int_equal(rec_writer__open(&w, path, &(struct rec_writer_opts){ .names = names, .how.force = 1 }, &err), 0);
	assert_non_null(w);
	return w;
}

/* Reads all; every event must be the next of `evs`, or the next one behind a damaged part. Returns how many. */
static inline size_t read_back(struct rec_reader *r, const struct event *evs, size_t cnt)
{
	const struct event *got;
	struct err err = { 0 };
	struct rec_damage damage;
	size_t n, done = 0;
	int res;

	while ((res = rec_reader__next(r, &got, &n, &err)) == 1) {
		rec_reader__damage(r, &damage);
		assert_true(n > 0 && n <= FRAME && done + damage.events + n <= cnt);
		assert_memory_equal(got, evs + done + damage.events, n * sizeof(*evs));
		done += n;
	}
	assert_int_equal(res, 0);
	assert_int_equal(rec_reader__next(r, &got, &n, &err), 0);
	return done;
}

static inline void check_file(const struct event *evs, size_t cnt, const struct names *names)
{
	struct rec_reader *r = NULL;
	struct err err = { 0 };
	uint64_t left = 1;

	assert_int_equal(rec_reader__open(&r, path, &err), 0);
	assert_int_equal(read_back(r, evs, cnt), cnt);
	assert_int_equal(rec_reader__truncated(r, &left), 0);
	assert_int_equal(left, 0);
	assert_int_equal(rec_reader__dropped(r), 0);
	assert_true(rec_reader__progress(r) == 1.0);
	assert_int_equal(names__last(rec_reader__names(r)), names__last(names));
	for (uint32_t id = 1; id <= names__last(names); id++) {
		size_t len = names__len(names, (name_id){ id });

		assert_int_equal(names__len(rec_reader__names(r), (name_id){ id }), len);
		assert_memory_equal(names__get(rec_reader__names(r), (name_id){ id }),
				    names__get(names, (name_id){ id }), len);
	}
	rec_reader__free(r);
}

/* --- a small file to damage ------------------------------------------------------------------ */

#define SMALL 90
#define SMALL_FRAMES 3

static struct event small_evs[SMALL];

/* Three frames of 30 events with names, and the end mark. */
static inline uint8_t *small_file(size_t *ret_len)
{
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	struct err err = { 0 };
	struct gen *g = gen__new(3, 2, names);

	assert_non_null(g);
	for (int i = 0; i < SMALL; i++) {
		gen__next(g, &small_evs[i]);
		if (i % 8 == 7) {
			uint64_t ts_ns = small_evs[i].ts_ns;

			small_evs[i] = random_event(ts_ns, names__last(names), 1);
		}
		assert_int_equal(rec_writer__add(w, &small_evs[i], &err), 0);
		if (i % (SMALL / SMALL_FRAMES) == SMALL / SMALL_FRAMES - 1)
			assert_int_equal(rec_writer__flush(w, &err), 0);
	}
	assert_int_equal(rec_writer__close(w, &err), 0);
	gen__free(g);
	names__free(names);
	return slurp(ret_len);
}

#endif
