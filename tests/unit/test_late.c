/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A recording begun in the middle of a trace: what it is told first, and what becomes of events after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cmd/late.h"
#include "event/recording.h"

static void remember(struct late *l, struct event ev)
{
	late__remember(l, &ev);
}

static struct event fixed(struct late *l, struct event ev)
{
	late__fix(l, &ev);
	return ev;
}

/* Begins at 9 s, in a file; returns what was written to it. */
static size_t begin(struct late *l, struct names *names, struct event *ret, size_t max)
{
	char path[] = "/tmp/mt-late-XXXXXX";
	struct rec_writer *w = NULL;
	struct rec_reader *r = NULL;
	const struct event *evs;
	size_t cnt, n = 0;
	struct err err = { 0 };

	close(mkstemp(path));
	assert_int_equal(rec_writer__open(&w, path, &(struct rec_writer_opts){ .names = names, .how.force = 1 }, &err), 0);
	assert_int_equal(late__begin(l, w, names, 9000000000ull, &err), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	assert_int_equal(rec_reader__open(&r, path, &err), 0);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0)
		for (size_t i = 0; i < cnt && n < max; i++)
			ret[n++] = evs[i];
	rec_reader__free(r);
	unlink(path);
	return n;
}

static void test_head_is_told_again_at_the_beginning(void **state)
{
	struct names *names = names__new();
	struct late *l = late__new();
	struct event evs[16];

	(void)state;
	remember(l, (struct event){ .kind = EV_BEGIN, .ts_ns = 1000000000, .pid = 7, .addr = 42 });
	remember(l, (struct event){ .kind = EV_PROC, .ts_ns = 1000000001, .pid = 7, .name = names__add(names, "python") });
	remember(l, (struct event){ .kind = EV_TICK, .ts_ns = 2000000000 });
	remember(l, (struct event){ .kind = EV_COVER, .ts_ns = 2000000001, .pid = 7, .addr = 3, .size = 3 });
	assert_int_equal(begin(l, names, evs, 16), 4); /* and a note that says so */
	assert_int_equal(evs[0].kind, EV_BEGIN);
	assert_int_equal(evs[0].ts_ns, 9000000000ull);
	assert_int_equal(evs[0].addr, 42);
	assert_int_equal(evs[1].kind, EV_PROC);
	assert_int_equal(evs[2].kind, EV_COVER);
	assert_int_equal(evs[3].kind, EV_NOTE);
	assert_int_equal(evs[3].ts_ns, 9000000000ull);
	late__free(l);
	names__free(names);
}

static void test_counters_start_there(void **state)
{
	struct names *names = names__new();
	struct late *l = late__new();
	struct event evs[4];

	(void)state;
	remember(l, (struct event){ .kind = EV_LOSS, .aux = 1, .size = 10 });
	remember(l, (struct event){ .kind = EV_COST, .aux = 2, .addr = 100, .size = 1000 });
	remember(l, (struct event){ .kind = EV_SELF, .addr = 5, .size = 50 });
	remember(l, (struct event){ .kind = EV_FIRED, .name = { 3 }, .size = 7 });
	begin(l, names, evs, 4);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_LOSS, .aux = 1, .size = 10 }).size, 0);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_LOSS, .aux = 1, .size = 12 }).size, 2);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_LOSS, .aux = 4, .size = 3 }).size, 3);
	/* costs begin with the first counters, as CPU time does */
	assert_int_equal(fixed(l, (struct event){ .kind = EV_COST, .aux = 2, .addr = 130, .size = 1300 }).addr, 0);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_COST, .aux = 2, .addr = 150, .size = 1500 }).size, 200);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_COST, .aux = 9, .addr = 5, .size = 6 }).addr, 5);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_SELF, .addr = 5, .size = 80 }).size, 30);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_FIRED, .name = { 3 }, .size = 9 }).size, 2);
	assert_int_equal(fixed(l, (struct event){ .kind = EV_FIRED, .name = { 3000000 }, .size = 9 }).size, 9);
	late__free(l);
	names__free(names);
}

static void test_frames_from_before_are_none(void **state)
{
	struct names *names = names__new();
	struct late *l = late__new();
	struct event evs[4], ev;

	(void)state;
	begin(l, names, evs, 4);
	ev = fixed(l, (struct event){ .kind = MT_EV_ALLOC, .tid = 5, .depth = 2, .seq = 40 });
	assert_int_equal(ev.depth, 0);
	assert_int_equal(ev.seq, 0);
	ev = fixed(l, (struct event){ .kind = MT_EV_OP, .tid = 5, .depth = 2, .seq = 41 }); /* opened under them */
	assert_int_equal(ev.depth, 2);
	assert_int_equal(ev.seq, 41);
	ev = fixed(l, (struct event){ .kind = MT_EV_ALLOC, .tid = 5, .depth = 3, .seq = 41 });
	assert_int_equal(ev.seq, 41);
	ev = fixed(l, (struct event){ .kind = MT_EV_FREE, .tid = 5, .depth = 2, .seq = 40 }); /* back in the old one */
	assert_int_equal(ev.depth, 0);
	ev = fixed(l, (struct event){ .kind = MT_EV_ALLOC, .tid = 6, .depth = 1, .seq = 50 }); /* another thread */
	assert_int_equal(ev.depth, 0);
	/* more threads than there is room for are passed on as they are */
	for (uint32_t tid = 10; tid < 200000; tid++)
		ev = fixed(l, (struct event){ .kind = MT_EV_ALLOC, .tid = tid, .depth = 1, .seq = 9 });
	assert_int_equal(ev.seq, 9);
	late__free(l);
	names__free(names);
}

static void test_head_is_bounded(void **state)
{
	struct names *names = names__new();
	struct late *l = late__new();
	struct event *evs = calloc(LATE_HEAD_MAX + 10, sizeof(*evs));

	(void)state;
	for (unsigned i = 0; i < LATE_HEAD_MAX + 100; i++)
		remember(l, (struct event){ .kind = EV_SITE, .pid = i, .addr = 1, .size = 1 });
	assert_int_equal(begin(l, names, evs, LATE_HEAD_MAX + 10), LATE_HEAD_MAX + 2); /* the second note counts the rest */
	free(evs);
	late__free(l);
	names__free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head_is_told_again_at_the_beginning), cmocka_unit_test(test_counters_start_there),
		cmocka_unit_test(test_frames_from_before_are_none), cmocka_unit_test(test_head_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
