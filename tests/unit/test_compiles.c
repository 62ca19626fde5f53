/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Recompiles in the model: told late, and what lived meanwhile all the same. */
#include <stdio.h>

#include "model_help.h"

#include "event/kinds.h"
#include "model/core/compiles.h"
#include "model/core/lately.h"

#define PID 100
#define MS 1000000ull
#define S (1000 * MS)
#define T0 (1000 * S)
#define MIB (1ull << 20)

static struct tl_event tl[8];
static size_t tl_cnt;

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	if (ev->kind == TL_COMPILED && tl_cnt < 8)
		tl[tl_cnt++] = *ev;
	return 0;
}

static void send(uint64_t ts_ns, struct event ev)
{
	ev.ts_ns = ts_ns;
	ev.pid = ev.pid ? ev.pid : PID;
	assert_int_equal(model__handle(m, &ev), 0);
}

static int setup(void **state)
{
	(void)state;
	tl_cnt = 0;
	if (model_begin(&(struct model_opts){ .timeline = keep }))
		return -1;
	send(T0, (struct event){ .kind = EV_BEGIN });
	return 0;
}

static void alloc(uint64_t ts_ns, uint64_t ptr, uint64_t size)
{
	send(ts_ns, (struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = MT_DEV_CPU, .tid = PID });
}

static void release(uint64_t ts_ns, uint64_t ptr)
{
	send(ts_ns, (struct event){ .kind = MT_EV_FREE, .addr = ptr, .dev = MT_DEV_CPU, .tid = PID });
}

static name_id name(const char *text)
{
	return text ? names__add(names, text) : NAME_NONE;
}

/* It began at begin_ns, took ns, and is told at ts_ns. */
static void compiled(uint64_t ts_ns, uint64_t begin_ns, uint64_t ns, const char *id, const char *function, const char *why,
		     unsigned flags)
{
	send(ts_ns, (struct event){ .kind = EV_COMPILED, .addr = ts_ns - begin_ns, .size = ns, .root = name(id),
				    .key = name(function), .name = name(why), .flags = (uint8_t)flags });
}

static const struct report_compiles *report(void)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return &rep->compiles;
}

/* 10 MiB live, a compilation takes 64 more for a while, 32 stay; something larger is allocated when it is over. */
static void test_bytes(void **state)
{
	const struct report_compiles *c;

	(void)state;
	alloc(T0 + S, 0x1000, 10 * MIB);
	alloc(T0 + 3 * S, 0x2000, 64 * MIB);
	release(T0 + 3 * S + 100 * MS, 0x2000);
	alloc(T0 + 4 * S, 0x3000, 32 * MIB);
	alloc(T0 + 5 * S, 0x4000, 500 * MIB);
	release(T0 + 5 * S + 1, 0x4000);
	compiled(T0 + 6 * S, T0 + 2 * S, 2500 * MS, "0/1", "forward (a.py:1)", "size 8, not 9", EV_COMPILED_AGAIN);
	c = report();
	assert_int_equal(c->cnt, 1);
	assert_int_equal(c->again, 1);
	assert_int_equal(c->again_ns, 2500 * MS);
	assert_int_equal(c->added, 64 * MIB);
	assert_int_equal(c->rows_cnt, 1);
	assert_int_equal(c->rows[0].ts_ns, T0 + 2 * S);
	assert_int_equal(c->rows[0].live, 10 * MIB);
	assert_int_equal(c->rows[0].added, 64 * MIB);
	assert_true(c->rows[0].knows_bytes && !c->rows[0].before);
	assert_string_equal(c->rows[0].function, "forward (a.py:1)");
	assert_int_equal(tl_cnt, 1);
	assert_int_equal(tl[0].ptr, T0 + 2 * S);
	assert_int_equal(tl[0].size, 2500 * MS);
	assert_int_equal(tl[0].id, 64 * MIB);
	assert_string_equal(names__get(names, tl[0].region), "size 8, not 9");
}

static void test_backward_and_reasons(void **state)
{
	const struct report_compiles *c;

	(void)state;
	alloc(T0, 0x1000, MIB);
	compiled(T0 + 10 * S, T0 + 1 * S, 100 * MS, "0/0", "forward (a.py:1)", NULL, 0);
	compiled(T0 + 10 * S, T0 + 2 * S, 200 * MS, "0/1", "forward (a.py:1)", "expected 8, actual 9", EV_COMPILED_AGAIN);
	compiled(T0 + 10 * S, T0 + 3 * S, 50 * MS, "0/1", NULL, NULL, EV_COMPILED_BACKWARD | EV_COMPILED_AGAIN);
	compiled(T0 + 10 * S, T0 + 4 * S, 10 * MS, "1/3", "other (a.py:9)", "a type", EV_COMPILED_AGAIN);
	compiled(T0 + 10 * S, T0 + 5 * S, 2 * MS, "0/2", NULL, "expected 9, actual 10", EV_COMPILED_AGAIN);
	send(T0 + 10 * S, (struct event){ .kind = EV_COMPILED, .size = 7, .flags = EV_COMPILED_MISSED });
	c = report();
	assert_int_equal(c->cnt, 4);
	assert_int_equal(c->ns, 362 * MS);
	assert_int_equal(c->again, 3);
	assert_int_equal(c->again_ns, 262 * MS);
	assert_int_equal(c->missed, 7);
	assert_int_equal(c->rows_cnt, 3);
	assert_int_equal(c->rows[0].ns, 250 * MS); /* with its backward */
	assert_string_equal(c->rows[2].function, "forward (a.py:1)"); /* by its frame */
	assert_int_equal(c->whys_cnt, 2); /* numbers apart they are the same */
	assert_int_equal(c->whys[0].cnt, 2);
	assert_true(c->whys[0].varies);
	assert_false(c->whys[1].varies);
	assert_int_equal(c->whys[0].ns, 252 * MS);
	assert_string_equal(c->whys[0].last->reason, "expected 9, actual 10");
	assert_string_equal(c->whys[1].last->function, "other (a.py:9)");
}

/* What was before the trace is told, and counts for nothing; nor are its bytes known. */
static void test_before(void **state)
{
	const struct report_compiles *c;

	(void)state;
	alloc(T0 + S, 0x1000, MIB);
	compiled(T0 + 2 * S, T0 - S, 300 * MS, "0/1", "f", "why", EV_COMPILED_AGAIN);
	send(T0 + 2 * S, (struct event){ .kind = EV_COMPILED, .addr = UINT64_MAX, .size = UINT64_MAX, .root = name("0/2"),
					 .flags = EV_COMPILED_AGAIN });
	c = report();
	assert_int_equal(c->again, 0);
	assert_int_equal(c->again_before, 2);
	assert_int_equal(c->ns, 0);
	assert_int_equal(c->rows_cnt, 2);
	assert_true(c->rows[0].before && !c->rows[0].knows_bytes);
}

/* A ring: sums are of all, rows of the last. */
static void test_many(void **state)
{
	const struct report_compiles *c;
	char id[24];

	(void)state;
	alloc(T0, 0x1000, MIB);
	for (unsigned i = 0; i < COMPILES_MAX + 100; i++) {
		snprintf(id, sizeof(id), "0/%u", i + 1);
		compiled(T0 + S + i * MS, T0 + S + i * MS - 1000, 1000, id, "f", "why", EV_COMPILED_AGAIN);
	}
	c = report();
	assert_int_equal(c->again, COMPILES_MAX + 100);
	assert_int_equal(c->rows_cnt, COMPILES_MAX);
	assert_string_equal(c->rows[0].id, "0/101");
	assert_int_equal(c->whys[0].cnt, COMPILES_MAX);
}

/* Against a list of all changes: what lived when something began, and the most meanwhile, to the pieces' length. */
static void test_lately(void **state)
{
	struct lately *l = lately__new(T0, 0);
	struct lately_at at;
	uint64_t live = 0;

	(void)state;
	for (uint64_t i = 0; i < 40000; i++) { /* 400 s: live is the time in ms, and a spike of a GiB each 10 s */
		uint64_t ts = T0 + i * 10 * MS;

		if (ts >= l->end_ns)
			lately__turn(l, ts, live, i);
		live = i * 10 + (i % 1000 == 500 ? 1 << 30 : 0);
		lately__now(l, live);
	}
	for (uint64_t ago = S; ago < 390 * S; ago += 3700 * MS) {
		uint64_t now = T0 + 400 * S - 10 * MS, begin = now - ago, want = (begin - T0) / MS;
		uint64_t error = ago / 25 / MS + 20;

		if (want % 10000 > 4000 && want % 10000 < 6000)
			continue;
		assert_true(lately__at(l, begin, begin + 1, &at));
		assert_in_range(at.live, want > error ? want - error : 0, want + error);
		assert_in_range(at.step, (want > error ? want - error : 0) / 10, (want + error) / 10 + 1);
		assert_true(lately__at(l, begin, now, &at));
		assert_true(ago < 12 * S || at.peak >= 1 << 30);
	}
	assert_false(lately__at(l, T0 - 1, T0, &at));
	assert_false(lately__at(l, T0 + 500 * S, T0 + 501 * S, &at));
	assert_false(lately__at(l, T0 + 300 * S, T0 + 200 * S, &at));
	lately__turn(l, UINT64_MAX, 5, 0);
	assert_false(lately__at(l, T0 + 300 * S, T0 + 301 * S, &at));
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_backward_and_reasons, setup, teardown),
		cmocka_unit_test_setup_teardown(test_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test(test_lately),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
