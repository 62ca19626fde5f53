/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/core/blocks.h"
#include "model/core/mapset.h"
#include "model/core/threads.h"

static struct block *add(struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr, uint64_t id)
{
	bool live;
	struct block *blk = blocks__put(b, pid, dev, ptr, &live);

	if (blk && !live)
		blk->id = id;
	return blk;
}

static void key_is_pid_device_and_pointer(void **state)
{
	struct blocks *b = blocks__new(0);
	struct block out;
	bool live;

	(void)state;
	add(b, 1, 1, 0x1000, 1);
	add(b, 2, 1, 0x1000, 2);
	add(b, 1, 2, 0x1000, 3);
	assert_int_equal(blocks__count(b), 3);
	assert_int_equal(blocks__find(b, 2, 1, 0x1000)->id, 2);
	assert_int_equal(blocks__put(b, 1, 2, 0x1000, &live)->id, 3);
	assert_true(live);
	assert_null(blocks__find(b, 1, 1, 0x1001));
	assert_true(blocks__take(b, 1, 1, 0x1000, &out));
	assert_int_equal(out.id, 1);
	assert_false(blocks__take(b, 1, 1, 0x1000, &out));
	assert_int_equal(blocks__count(b), 2);
	blocks__check(b);
	blocks__free(b);
}

static void full_table_says_so(void **state)
{
	struct blocks *b = blocks__new(3);
	struct block out;

	(void)state;
	for (uint64_t i = 1; i <= 3; i++)
		assert_non_null(add(b, 1, 1, i, i));
	assert_null(add(b, 1, 1, 4, 4));
	assert_non_null(add(b, 1, 1, 3, 9)); /* it is there already */
	blocks__take(b, 1, 1, 2, &out);
	assert_non_null(add(b, 1, 1, 4, 4));
	blocks__check(b);
	blocks__free(b);
}

/* Grows, shrinks to nothing and grows again: nothing lost, no memory added the second time. */
static void churn_keeps_every_block(void **state)
{
	struct blocks *b = blocks__new(0);
	size_t bytes = 0, pos, seen;
	struct block out;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 1; i <= 50000; i++)
			add(b, (uint32_t)(i % 3), 1, i << 12, i);
		blocks__check(b);
		for (pos = seen = 0; blocks__next(b, &pos); seen++)
			;
		assert_int_equal(seen, 50000);
		if (round)
			assert_int_equal(blocks__bytes(b), bytes);
		bytes = blocks__bytes(b);
		/* in another order than they came: those that came last are at the ends of their chains */
		for (uint64_t k = 50000, i; k; k--) {
			i = 1 + k * 7919 % 50000;
			assert_true(blocks__take(b, (uint32_t)(i % 3), 1, i << 12, &out));
			assert_int_equal(out.id, i);
		}
		assert_int_equal(blocks__count(b), 0);
		blocks__check(b);
	}
	blocks__free(b);
}

static void memory_stays_below_64_bytes_a_block(void **state)
{
	struct blocks *b = blocks__new(0);

	(void)state;
	for (uint64_t i = 1; i <= 400000; i++) {
		add(b, 1, 1, i * 64, i);
		if (i > 100000) /* below, a started chunk weighs */
			assert_true(blocks__bytes(b) < 64 * i);
	}
	blocks__free(b);
}

static uint64_t taken(struct mapset *s, uint64_t start, uint64_t size)
{
	uint64_t gone;

	assert_true(mapset__remove(s, start, size, &gone));
	return gone;
}

static void maps_take_away_what_they_counted(void **state)
{
	uint64_t gone;
	struct mapset s;

	(void)state;
	mapset__init(&s);
	assert_true(mapset__add(&s, 0x1000, 0x4000));
	assert_true(mapset__add(&s, 0x5000, 0x1000)); /* touches */
	assert_int_equal(s.cnt, 1);
	assert_int_equal(taken(&s, 0x2000, 0x1000), 0x1000); /* a hole */
	assert_int_equal(s.cnt, 2);
	assert_int_equal(taken(&s, 0x2000, 0x1000), 0); /* twice is nothing */
	assert_int_equal(taken(&s, 0x100000, 0x1000), 0);
	assert_true(mapset__add(&s, 0x2000, 0x1000)); /* joins both */
	assert_int_equal(s.cnt, 1);
	assert_true(mapset__add(&s, UINT64_MAX - 10, 100)); /* cut at the end */
	assert_int_equal(s.bytes, 0x5000 + 10);
	mapset__check(&s);
	assert_int_equal(taken(&s, 0, UINT64_MAX), 0x5000 + 10);
	assert_int_equal(s.cnt, 0);
	for (uint64_t i = 0; i < MAPSET_MAX; i++)
		assert_true(mapset__add(&s, i * 0x2000, 0x1000));
	assert_false(mapset__add(&s, MAPSET_MAX * 0x2000ull, 0x1000));
	assert_false(mapset__remove(&s, 0x10, 0x10, &gone)); /* no room for the tail: it goes too, and is a loss */
	assert_int_equal(gone, 0x1000 - 0x10);
	mapset__check(&s);
	assert_int_equal(s.bytes, (MAPSET_MAX - 1) * 0x1000ull + 0x10);
	mapset__done(&s);
}

static struct event at(uint8_t kind, uint32_t depth, uint32_t seq)
{
	return (struct event){ .kind = kind, .depth = (uint8_t)depth, .seq = seq };
}

static void silent_threads_make_room(void **state)
{
	struct threads *ths = threads__new(4);
	struct event ev = at(MT_EV_OP, 0, 1);
	bool lost = false;

	(void)state;
	for (uint32_t tid = 1; tid <= 4; tid++)
		threads__get(ths, 1, tid, &lost);
	thread__enter(threads__get(ths, 1, 1, &lost), &ev, 7);
	threads__get(ths, 1, 5, &lost); /* a round of the hand: all are recent, then the first goes */
	assert_true(lost);
	assert_int_equal(threads__count(ths), 4);
	lost = false;
	threads__get(ths, 1, 6, &lost);
	assert_false(lost); /* that one had nothing open */
	threads__check(ths);
	threads__drop_pid(ths, 1);
	assert_int_equal(threads__count(ths), 0);
	threads__check(ths);
	threads__free(ths);
}

static void a_tid_that_changed_hands_starts_empty(void **state)
{
	struct threads *ths = threads__new(0);
	struct event op = at(MT_EV_OP, 0, 1), alloc = at(MT_EV_ALLOC, 1, 1);

	(void)state;
	thread__enter(threads__get(ths, 1, 9, NULL), &op, 7);
	assert_int_equal(thread__attribute(threads__get(ths, 1, 9, NULL), &alloc).op, 7);
	assert_int_equal(thread__attribute(threads__get(ths, 2, 9, NULL), &alloc).op, 0);
	assert_int_equal(threads__count(ths), 1);
	threads__free(ths);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_is_pid_device_and_pointer),
		cmocka_unit_test(full_table_says_so),
		cmocka_unit_test(churn_keeps_every_block),
		cmocka_unit_test(memory_stays_below_64_bytes_a_block),
		cmocka_unit_test(maps_take_away_what_they_counted),
		cmocka_unit_test(silent_threads_make_room),
		cmocka_unit_test(a_tid_that_changed_hands_starts_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
