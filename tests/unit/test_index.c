/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* index and map beside plain arrays that are looked through from one end to the other, also where memory ends; heap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

/* Both are compiled here once more, with an allocator that can fail. */
static unsigned allocs_left = UINT32_MAX;

static void *calloc_some(size_t cnt, size_t size)
{
	return allocs_left && allocs_left-- ? calloc(cnt, size) : NULL;
}

static void *reallocarray_some(void *p, size_t cnt, size_t size)
{
	return allocs_left && allocs_left-- ? reallocarray(p, cnt, size) : NULL;
}

#define calloc calloc_some
#define reallocarray reallocarray_some
#include "base/heap.h"
#include "base/map.c"
#include "base/index.c"
#undef calloc
#undef reallocarray

#define KEYS 3000u
#define GOLDEN 0x9e3779b97f4a7c15ull

/* --- indexes ----------------------------------------------------------------------------------------------------- */

struct thing {
	uint64_t a, b;
	int is_there;
};

static uint32_t index_of(const struct index *t, const struct thing *things, uint64_t a, uint64_t b)
{
	return index_find(t, hash_two(a, b), i, things[i].a == a && things[i].b == b);
}

/* Every slot is found from its home: no free one between. */
static void check(const struct index *t)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; t->slots && i <= t->mask; i++) {
		if (!t->slots[i].number)
			continue;
		cnt++;
		for (uint32_t at = t->slots[i].hash & t->mask; at != i; at = (at + 1) & t->mask)
			assert_true(t->slots[at].number);
	}
	assert_int_equal(cnt, t->cnt);
	assert_true(!t->slots || 4 * (uint64_t)cnt <= 3 * ((uint64_t)t->mask + 1));
}

/* Random operations under several seeds; the things are a map by themselves. */
static void test_random(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 5; seed++) {
		static struct thing things[KEYS];
		struct index t = { 0 };
		unsigned random = seed + 1;
		uint32_t there = 0;

		seed_set(seed);
		for (uint32_t i = 0; i < KEYS; i++)
			things[i] = (struct thing){ .a = i % 60, .b = (uint64_t)(i / 60) << 40 };
		for (unsigned turn = 0; turn < 60000; turn++) {
			uint32_t i = (uint32_t)rand_r(&random) % (turn < 30000 ? KEYS : KEYS / 10);
			struct thing *x = &things[i];

			assert_int_equal(index_of(&t, things, x->a, x->b), x->is_there ? i : INDEX_NONE);
			if (x->is_there)
				index__remove(&t, hash_two(x->a, x->b), i);
			else
				assert_int_equal(index__add(&t, hash_two(x->a, x->b), i), 0);
			x->is_there = !x->is_there;
			there += x->is_there ? 1 : UINT32_MAX;
			assert_int_equal(t.cnt, there);
			if (turn % 1000 == 0)
				check(&t);
		}
		for (uint32_t i = 0; i < KEYS; i++)
			assert_int_equal(index_of(&t, things, things[i].a, things[i].b), things[i].is_there ? i : INDEX_NONE);
		check(&t);
		index__clear(&t);
		for (uint32_t i = 0; i < KEYS; i++)
			assert_int_equal(index_of(&t, things, things[i].a, things[i].b), INDEX_NONE);
		index__done(&t);
		assert_int_equal(index_of(&t, things, 0, 0), INDEX_NONE);
	}
}

/* All with one hash, which no seed makes: slow, and right. They wrap around the end of the slots. */
static void test_one_hash(void **state)
{
	struct index t = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 500; i++)
		assert_int_equal(index__add(&t, UINT32_MAX - 2, i), 0);
	check(&t);
	for (uint32_t i = 0; i < 500; i += 3)
		index__remove(&t, UINT32_MAX - 2, i);
	check(&t);
	for (uint32_t i = 0; i < 500; i++)
		assert_int_equal(index_find(&t, UINT32_MAX - 2, n, n == i), i % 3 ? i : INDEX_NONE);
	index__renumber(&t, UINT32_MAX - 2, 1, 9999);
	assert_int_equal(index_find(&t, UINT32_MAX - 2, n, n == 9999), 9999);
	assert_int_equal(index_find(&t, UINT32_MAX - 2, n, n == 1), INDEX_NONE);
	assert_int_equal(index_find(&t, UINT32_MAX - 3, n, 1), INDEX_NONE); /* another hash: not even asked */
	index__done(&t);
}

/* How far the slots of so many keys lie from where they belong. */
static uint64_t displaced(uint64_t (*key)(uint64_t i))
{
	struct index t = { 0 };
	uint64_t sum = 0;

	for (uint32_t i = 0; i < 40000; i++)
		assert_int_equal(index__add(&t, hash_u64(key(i)), i), 0);
	for (uint32_t i = 0; i <= t.mask; i++)
		if (t.slots[i].number)
			sum += (i - t.slots[i].hash) & t.mask;
	index__done(&t);
	return sum;
}

static uint64_t key_random(uint64_t i)
{
	uint64_t z = (i + 1) * GOLDEN;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	return z ^ (z >> 27);
}

static uint64_t key_page(uint64_t i)
{
	return i << 21;
}

static uint64_t key_high(uint64_t i)
{
	return i << 48;
}

/* Multiplied by the golden ratio, all of these have the same bits 32 to 53. */
static uint64_t key_aimed(uint64_t i)
{
	uint64_t inverse = GOLDEN;

	for (int n = 0; n < 6; n++)
		inverse *= 2 - GOLDEN * inverse;
	return ((i & 0x3ff) << 54 | 5ull << 32 | i >> 10) * inverse;
}

/* Keys that somebody chose lie as near to their place as random ones, under every seed. */
static void test_hostile(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 20; seed++) {
		uint64_t random;

		seed_set(seed);
		random = displaced(key_random);
		assert_true(displaced(key_page) < random + random / 4);
		assert_true(displaced(key_high) < random + random / 4);
		assert_true(displaced(key_aimed) < random + random / 4);
	}
}

/* It has no limit but memory: where that ends, it says so, and is as it was. */
static void test_full(void **state)
{
	struct index t = { 0 };
	uint32_t cnt = 0;

	(void)state;
	allocs_left = 0;
	assert_int_equal(index__add(&t, 1, 0), -ENOMEM);
	assert_int_equal(index_find(&t, 1, n, 1), INDEX_NONE);
	allocs_left = 3; /* 64 slots */
	while (!index__add(&t, hash_u64(cnt), cnt))
		cnt++;
	assert_int_equal(cnt, 48);
	assert_int_equal(t.cnt, 48);
	check(&t);
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(index_find(&t, hash_u64(i), n, n == i), i);
	index__remove(&t, hash_u64(7), 7);
	assert_int_equal(index__add(&t, hash_u64(cnt), cnt), 0); /* there is room again */
	assert_int_equal(index__add(&t, hash_u64(7), 7), -ENOMEM);
	allocs_left = UINT32_MAX;
	assert_int_equal(index__add(&t, hash_u64(7), 7), 0);
	check(&t);
	index__done(&t);
}

/* --- maps -------------------------------------------------------------------------------------------------------- */

struct row {
	uint64_t key;
	uint64_t value;
	uint32_t tag;
};

/* Against an array by key; 0 is a key as any other. */
static void test_map(void **state)
{
	static uint64_t want[KEYS];
	struct map m = MAP_OF(struct row);
	unsigned random = 3;
	uint32_t there = 0;

	(void)state;
	for (unsigned turn = 1; turn < 100000; turn++) {
		uint64_t key = (uint64_t)rand_r(&random) % (turn < 50000 ? KEYS : KEYS / 10);
		struct row *row = map__find(&m, key << 20);

		assert_int_equal(row ? row->value : 0, want[key]);
		if (row && turn % 2) {
			map__remove(&m, row);
			want[key] = 0;
			there--;
			assert_null(map__find(&m, key << 20));
		} else {
			there += !row;
			row = map__put(&m, key << 20);
			assert_int_equal(row->key, key << 20);
			assert_int_equal(row->value, want[key]); /* 0 in a new one */
			assert_int_equal(row->tag, (uint32_t)want[key]);
			row->value = want[key] = turn;
			row->tag = turn;
		}
		assert_int_equal(m.cnt, there);
	}
	for (uint32_t i = 0; i < m.cnt; i++) {
		const struct row *row = map__at(&m, i);

		assert_int_equal(row->value, want[row->key >> 20]);
		assert_ptr_equal(map__find(&m, row->key), row);
	}
	check(&m.index);
	map__done(&m);
	assert_null(map__find(&m, 0));
}

/* Rows lie as they came, whatever the seed; the last takes the place of one that goes. */
static void test_map_order(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 4; seed++) {
		struct map m = MAP_OF(struct row);

		seed_set(seed);
		for (uint64_t i = 0; i < 1000; i++)
			assert_non_null(map__put(&m, i * GOLDEN));
		for (uint32_t i = 0; i < 1000; i++)
			assert_int_equal(map__key(&m, i), i * GOLDEN);
		map__remove(&m, map__find(&m, 3 * GOLDEN));
		assert_int_equal(map__key(&m, 3), 999 * GOLDEN);
		map__remove(&m, map__find(&m, 998 * GOLDEN)); /* the last itself */
		assert_int_equal(m.cnt, 998);
		map__done(&m);
	}
}

static void test_map_full(void **state)
{
	struct map m = MAP_OF(struct row);

	(void)state;
	for (unsigned left = 0; left < 8; left++) {
		uint64_t cnt = 0;

		allocs_left = left;
		for (size_t bytes = 0; bytes += map__growth(&m), map__put(&m, cnt); cnt++)
			assert_int_equal(map__bytes(&m), bytes); /* as it was foretold */
		assert_true(!allocs_left);
		assert_int_equal(m.cnt, cnt);
		assert_int_equal(m.index.cnt, cnt);
		for (uint64_t i = 0; i < cnt; i++)
			assert_int_equal(((struct row *)map__find(&m, i))->key, i);
		assert_null(map__find(&m, cnt));
		check(&m.index);
		allocs_left = UINT32_MAX;
		assert_non_null(map__put(&m, cnt));
		map__clear(&m);
		assert_null(map__find(&m, cnt));
		map__done(&m);
		assert_int_equal(map__bytes(&m), 0);
	}
}

/* --- heaps ------------------------------------------------------------------------------------------------------- */

struct waiting {
	uint32_t when, who;
};

static int goes_first(const struct waiting *a, const struct waiting *b, uint32_t *calls)
{
	++*calls;
	return a->when != b->when ? a->when < b->when : a->who < b->who;
}

/* Those that were put one by one, and all at once, come in the same order, also while others are put in between. */
static void test_heap(void **state)
{
	struct waiting one_by_one[KEYS], at_once[KEYS], last = { 0 };
	uint32_t calls = 0;

	(void)state;
	for (uint32_t i = 0; i < KEYS; i++) {
		at_once[i] = one_by_one[i] = (struct waiting){ i * 7919 % 1009, i };
		heap_up(one_by_one, i, goes_first, &calls);
	}
	heap_make(at_once, KEYS, goes_first, &calls);
	for (uint32_t cnt = KEYS; cnt; cnt--) {
		assert_memory_equal(&one_by_one[0], &at_once[0], sizeof(*at_once));
		assert_true(cnt == KEYS || goes_first(&last, &at_once[0], &calls));
		last = at_once[0];
		at_once[0] = at_once[cnt - 1];
		heap_down(at_once, cnt - 1, 0, goes_first, &calls);
		one_by_one[0] = one_by_one[cnt - 1];
		heap_down(one_by_one, cnt - 1, 0, goes_first, &calls);
	}
	assert_in_range(calls, KEYS, 6 * KEYS * 12); /* 2^12 > KEYS */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),	 cmocka_unit_test(test_one_hash),  cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_full),	 cmocka_unit_test(test_map),	   cmocka_unit_test(test_map_order),
		cmocka_unit_test(test_map_full), cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
