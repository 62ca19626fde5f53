/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What is still there after a gap. Our own malloc's blocks, as another process would read them: used, freed, of all sizes. And
 * through the model: a job of whose steps some are traced, with leaks and without.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "memtrace/shared.h"
#include "model/state.h"
#include "target/heap.h"
#include "unit/model_help.h"

#define PID 100u
#define MS 1000000ull
#define STEP "Optimizer.step#Adam.step"

/* --- blocks of malloc ------------------------------------------------------------------------------------- */

enum { SIZES = 12 };
static const size_t sizes[SIZES] = { 1, 16, 24, 64, 200, 1000, 1040, 5000, 20000, 100000, 1000000, 40000000 };

static void fill(void *ptr, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)ptr)[i] = (uint8_t)(seed + i * 37 + i / 251);
}

/* glibc's own, also where a sanitizer has taken malloc's place. */
static void *from_libc(const char *name)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *fn = libc ? dlsym(libc, name) : NULL;

	assert_non_null(fn);
	dlclose(libc);
	return fn;
}

static void *given(size_t size, size_t align)
{
	void *(*fn)(size_t, size_t) = from_libc("memalign"), *ptr = fn(align, size);

	assert_non_null(ptr);
	return ptr;
}

static void given_back(void *ptr)
{
	void (*fn)(void *) = from_libc("free");

	fn(ptr);
}

static struct heap_block look_at(const void *ptr, size_t size)
{
	struct heap_block b = { .addr = (uint64_t)(uintptr_t)ptr, .size = size, .pid = getpid() };

	heap__read(&b, 1, UINT64_MAX);
	return b;
}

static bool is_same(const struct heap_block *a, const struct heap_block *b)
{
	return a->is_used && b->is_used && heap_print__is(&a->print, &b->print);
}

/* Between blocks that stay, and as the last ones of the heap. */
static void check_sizes(size_t align, bool has_neighbour)
{
	for (size_t i = 0; i < SIZES; i++) {
		void *before = has_neighbour ? given(sizes[i], align) : NULL, *ptr = given(sizes[i], align);
		void *after = has_neighbour ? given(sizes[i], align) : NULL;
		struct heap_block then, now;

		fill(ptr, sizes[i], 1);
		then = look_at(ptr, sizes[i]);
		assert_true(then.is_used);
		now = look_at(ptr, sizes[i]);
		assert_true(is_same(&then, &now));
		((uint8_t *)ptr)[sizes[i] - 1] ^= 0xff;
		now = look_at(ptr, sizes[i]);
		assert_false(is_same(&then, &now));
		((uint8_t *)ptr)[sizes[i] - 1] ^= 0xff;
		given_back(before); /* what lies beside it makes no difference */
		now = look_at(ptr, sizes[i]);
		assert_true(is_same(&then, &now));
		given_back(ptr);
		now = look_at((void *)(uintptr_t)then.addr, sizes[i]);
		assert_false(is_same(&then, &now));
		given_back(after);
	}
}

static void test_heap(void **state)
{
	(void)state;
	check_sizes(16, true);
	check_sizes(64, true);
	check_sizes(4096, true);
	check_sizes(64, false);
}

/* Many at once, of which every third goes: batches with holes in them, in another order than they were given. */
static void test_heap_many(void **state)
{
	enum { CNT = 500 };
	static struct heap_block then[CNT], now[CNT];
	void *v[CNT];

	(void)state;
	for (size_t i = 0; i < CNT; i++) {
		size_t size = sizes[i % (SIZES - 1)];

		v[i] = given(size, 64);
		fill(v[i], size, (unsigned)i);
		then[i] = (struct heap_block){ .addr = (uint64_t)(uintptr_t)v[i], .size = size, .pid = getpid() };
	}
	heap__read(then, CNT, UINT64_MAX);
	for (size_t i = 0; i < CNT; i++)
		assert_true(then[i].is_used);
	for (size_t i = 0; i < CNT; i += 3)
		given_back(v[i]);
	memcpy(now, then, sizeof(now));
	heap__read(now, CNT, UINT64_MAX);
	for (size_t i = 0; i < CNT; i++)
		assert_int_equal(is_same(&then[i], &now[i]), i % 3 != 0);
	for (size_t i = 0; i < CNT; i++)
		if (i % 3)
			given_back(v[i]);
}

/* Addresses that no malloc gave, or that nobody has: not used, and no more. */
static void test_heap_hostile(void **state)
{
	static uint8_t own[4096] __attribute__((aligned(64)));
	struct heap_block v[] = { { .addr = 0, .size = 8 }, { .addr = 16, .size = 8 }, { .addr = UINT64_MAX - 15, .size = 64 },
				  { .addr = 1ull << 46, .size = 64 }, { .addr = (uint64_t)(uintptr_t)own + 64, .size = 64 },
				  { .addr = (uint64_t)(uintptr_t)own + 65, .size = 64 },
				  { .addr = (uint64_t)(uintptr_t)own + 64, .size = UINT64_MAX },
				  { .addr = (uint64_t)(uintptr_t)own + 64, .size = 0 } };
	size_t cnt = sizeof(v) / sizeof(v[0]);

	(void)state;
	for (unsigned fill_with = 0; fill_with < 256; fill_with++) {
		memset(own, (int)fill_with, sizeof(own));
		for (size_t i = 0; i < cnt; i++)
			v[i].pid = getpid();
		heap__read(v, cnt, UINT64_MAX);
		for (size_t i = 0; i < cnt; i++)
			assert_false(v[i].is_used);
	}
	for (size_t i = 0; i < cnt; i++)
		v[i].pid = 0x3fffffff;
	heap__read(v, cnt, UINT64_MAX);
	assert_false(v[4].is_used);
	heap__read(v, 0, UINT64_MAX);
}

/* A process that lets reads wait has no more of our time than it was given. */
static void test_heap_in_time(void **state)
{
	void *ptr = given(100, 64);
	struct heap_block b = { .addr = (uint64_t)(uintptr_t)ptr, .size = 100, .pid = getpid() };

	(void)state;
	heap__read(&b, 1, 0);
	assert_false(b.is_used);
	heap__read(&b, 1, UINT64_MAX);
	assert_true(b.is_used);
	given_back(ptr);
}

static void test_alike(void **state)
{
	uint64_t *ptr = given(4096, 64);
	struct heap_block b;

	(void)state;
	for (size_t i = 0; i < 512; i++)
		ptr[i] = 0x3f8000003f800000; /* ones */
	b = look_at(ptr, 4096);
	assert_true(b.is_used && heap_print__is_alike(&b.print));
	ptr[511]++;
	b = look_at(ptr, 4096);
	assert_true(b.is_used && !heap_print__is_alike(&b.print));
	given_back(ptr);
}

/* --- the model -------------------------------------------------------------------------------------------- */

static uint64_t ts, next_ptr, left[4096];
static size_t left_cnt;
static uint32_t seq, window;

static int setup(void **state)
{
	(void)state;
	ts = 1000 * MS;
	next_ptr = 0x1000;
	seq = window = 0;
	left_cnt = 0;
	return model_begin(NULL);
}

static void send(struct event ev)
{
	ev.pid = ev.tid = PID;
	ev.ts_ns = ts;
	assert_int_equal(model__handle(m, &ev), 0);
}

static void level(uint8_t state, uint8_t depth)
{
	struct event ev = { .ts_ns = ts, .kind = EV_LEVEL, .flags = state, .depth = depth, .aux = PID, .size = 3,
			    .addr = window };

	assert_int_equal(model__handle(m, &ev), 0);
}

static uint64_t allocated(const char *op, uint64_t size)
{
	uint64_t ptr = next_ptr += 0x10000;

	send((struct event){ .kind = MT_EV_OP, .name = names__add(names, op), .seq = ++seq });
	send((struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = MT_DEV_CPU, .depth = 1, .seq = seq });
	return ptr;
}

static void died(uint64_t ptr)
{
	send((struct event){ .kind = MT_EV_FREE, .addr = ptr, .dev = MT_DEV_CPU });
}

static void boundary(void)
{
	send((struct event){ .kind = MT_EV_REGION_BEGIN, .name = names__add(names, STEP) });
	send((struct event){ .kind = MT_EV_REGION_END });
	ts += 10 * MS;
}

struct habit {
	bool leaks;
	unsigned fills; /* so many windows long it leaks, then no more */
	bool stays;	/* what is left is still there after the gap */
	uint8_t flags;	/* of EV_STAYED */
};

static void step(const struct habit *h)
{
	uint64_t act = allocated("aten::addmm", 4096);

	if (h->leaks && (!h->fills || window <= h->fills))
		left[left_cnt++] = allocated("aten::tanh", 20000);
	died(act);
	boundary();
}

/* Some steps, the first, three that count, and some more until probes go; then a gap of fifty. */
static void one_window(const struct habit *h)
{
	window++;
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	left[left_cnt++] = allocated("aten::tanh", 20000); /* while probes come */
	ts += MS;
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL);
	for (size_t i = 0; i < left_cnt && h->stays; i++)
		send((struct event){ .kind = EV_STAYED, .dev = MT_DEV_CPU, .addr = left[i], .size = 20000, .flags = h->flags });
	for (unsigned i = 0; i < 12; i++)
		step(h);
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	ts += MS;
	level(EV_LEVEL_REST, MT_LEVEL_WATCH);
	for (unsigned i = 0; i < 50; i++)
		boundary();
}

static const struct report_leaks *leaks_after(unsigned windows, const struct habit *h)
{
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python") });
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	for (unsigned i = 0; i < 3; i++)
		boundary();
	for (unsigned i = 0; i < windows; i++) {
		one_window(h);
		model__check(m);
	}
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return &rep->leaks;
}

/* Four whole steps of each window, a block each; what came before and behind them is not counted to it. */
static void test_named(void **state)
{
	const struct report_leaks *l = leaks_after(7, &(struct habit){ .leaks = true, .stays = true });

	(void)state;
	assert_int_equal(l->total, 1);
	assert_string_equal(l->rows[0].op, "aten::tanh");
	assert_true(l->rows[0].bytes_slope == 20000 && l->rows[0].blocks_slope == 1 && l->rows[0].per_step);
	assert_int_equal(l->rows[0].windows, 7);
	assert_int_equal(l->rows[0].stayed, 4 * (1 + 2 + 3 + 4 + 5 + 6));
	assert_int_equal(l->rows[0].sure, SURE_HIGH);
	assert_int_equal(l->ticks, 4 * 7);
	assert_int_equal(model__steps_of(m, PID), 3 + 7 * 62);
}

static void test_named_as_early_as_can_be(void **state)
{
	(void)state;
	assert_int_equal(leaks_after(REPORT_GROWTH_WINDOWS, &(struct habit){ .leaks = true, .stays = true })->total, 1);
}

static void test_too_few_windows(void **state)
{
	(void)state;
	assert_int_equal(leaks_after(REPORT_GROWTH_WINDOWS - 1, &(struct habit){ .leaks = true, .stays = true })->total, 0);
}

/* What has the same everywhere could be another block: it is named, and not sure. */
static void test_alike_is_not_sure(void **state)
{
	const struct habit h = { .leaks = true, .stays = true, .flags = EV_STAYED_ALIKE };
	const struct report_leaks *l = leaks_after(12, &h);

	(void)state;
	assert_int_equal(l->total, 1);
	assert_int_equal(l->rows[0].sure, SURE_LOW);
}

/* Freed while nothing was traced: in a window it grows, over windows it does not. */
static void test_not_accused(void **state)
{
	(void)state;
	assert_int_equal(leaks_after(16, &(struct habit){ .leaks = true })->total, 0);
}

/* A cache that is full after some windows. */
static void test_full_cache(void **state)
{
	(void)state;
	assert_int_equal(leaks_after(16, &(struct habit){ .leaks = true, .fills = 5, .stays = true })->total, 0);
}

static void test_clean(void **state)
{
	(void)state;
	assert_int_equal(leaks_after(16, &(struct habit){ .stays = true })->total, 0);
}

/* A word about what is not there, is of another size, or was never out of sight, says nothing. */
static void test_hostile_words(void **state)
{
	const struct report_leaks *l;

	(void)state;
	(void)leaks_after(2, &(struct habit){ .leaks = true });
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL);
	for (size_t i = 0; i < left_cnt; i++) {
		send((struct event){ .kind = EV_STAYED, .dev = MT_DEV_CPU, .addr = left[i], .size = 20001 });
		send((struct event){ .kind = EV_STAYED, .dev = MT_DEV_CPU, .addr = left[i] + 1, .size = 20000 });
		send((struct event){ .kind = EV_STAYED, .dev = 255, .addr = left[i], .size = 20000, .flags = 255 });
	}
	for (unsigned i = 0; i < 6; i++)
		boundary();
	model__check(m);
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	l = &rep->leaks;
	assert_int_equal(l->total, 0);
	assert_int_equal(rep->devs[0].live, 0);
}

/* What is asked for: blocks of whole steps that live; not what came before and behind, nor what is out of sight. */
static void test_stays(void **state)
{
	struct model_stay *v;
	size_t cnt;

	(void)state;
	(void)leaks_after(1, &(struct habit){ .leaks = true });
	assert_int_equal(model__stays(m, &v, &cnt), 0);
	assert_int_equal(cnt, 0);
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL);
	for (unsigned i = 0; i < 12; i++)
		step(&(struct habit){ .leaks = true });
	assert_int_equal(model__stays(m, &v, &cnt), 0);
	assert_int_equal(cnt, 4);
	for (size_t i = 0; i < cnt; i++)
		assert_true(v[i].size == 20000 && v[i].pid == PID && v[i].dev == MT_DEV_CPU);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_heap_many),
		cmocka_unit_test(test_heap_hostile),
		cmocka_unit_test(test_heap_in_time),
		cmocka_unit_test(test_alike),
		cmocka_unit_test_setup_teardown(test_named, setup, teardown),
		cmocka_unit_test_setup_teardown(test_named_as_early_as_can_be, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_few_windows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alike_is_not_sure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_accused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_cache, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clean, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_words, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stays, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
