/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Seeded hashes: keys that somebody chose cost what random ones cost, and no order of a hash reaches an output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/seed.h"
#include "estimate/recorded.h"
#include "model/segments/segments_state.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "view/export.h"

#define KEYS 32768u
#define SEEDS 50u
#define GOLDEN 0x9e3779b97f4a7c15ull

static uint64_t rng;

static uint64_t rnd(void)
{
	uint64_t z = (rng += GOLDEN);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Keys that multiplied by the golden ratio have the same bits 32 to 53: one place in any table of up to 4 M slots. */
static uint64_t colliding(uint64_t j)
{
	uint64_t inverse = GOLDEN;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - GOLDEN * inverse;
	return ((j & 0x3ff) << 54 | 5ull << 32 | j >> 10) * inverse;
}

/* Steps to find each of the keys in a table that is half full. */
static uint64_t steps_of(uint64_t (*key)(uint64_t j, unsigned arg), unsigned arg)
{
	static uint8_t used[2 * KEYS];
	uint64_t steps = 0;

	memset(used, 0, sizeof(used));
	for (uint64_t j = 0; j < KEYS; j++) {
		uint64_t at = hash_u64(key(j, arg)) % (2 * KEYS);

		for (; used[at]; at = (at + 1) % (2 * KEYS))
			steps++;
		used[at] = 1;
	}
	return steps;
}

static uint64_t key_stride(uint64_t j, unsigned arg)
{
	return (j + 1) << arg;
}

static uint64_t key_colliding(uint64_t j, unsigned arg)
{
	(void)arg;
	return colliding(j);
}

static uint64_t key_random(uint64_t j, unsigned arg)
{
	(void)j;
	(void)arg;
	return rnd();
}

/* Random keys take half a step each; so do keys that were chosen, whatever the seed. */
static void test_keys_chosen(void **state)
{
	uint64_t random = 0, aimed = 0, worst = 0;

	(void)state;
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		seed_set(seed);
		random += steps_of(key_random, 0);
		aimed += steps_of(key_colliding, 0);
		for (unsigned shift = 0; shift <= 48; shift++) {
			uint64_t n = steps_of(key_stride, shift);

			worst = n > worst ? n : worst;
		}
	}
	print_message("steps a key: random %.3f, aimed at the old function %.3f, the worst of %u strides under %u seeds %.3f\n",
		      (double)random / KEYS / SEEDS, (double)aimed / KEYS / SEEDS, 49, SEEDS, (double)worst / KEYS);
	assert_true(aimed < random + random / 5);
	assert_true(worst < KEYS * 6 / 10);
}

static struct segments *requests(uint64_t (*key)(uint64_t j, unsigned arg))
{
	struct segments *s = segments__new();

	assert_non_null(s);
	for (uint64_t j = 0; j < KEYS; j++)
		assert_true(segments__event(s, &(struct event){ .kind = MT_EV_REQUEST, .dev = MT_DEV_CUDA0, .pid = 7, .tid = 7,
								.ts_ns = j + 1, .addr = key(j, 0), .size = 512 }));
	return s;
}

/* How far requests lie from where they belong, summed. */
static uint64_t displaced(const struct segments *s)
{
	const struct index *x = &s->procs[0]->asked.index;
	uint64_t sum = 0;

	assert_int_equal(x->cnt, KEYS);
	for (uint32_t i = 0; i <= x->mask; i++)
		if (x->slots[i].number)
			sum += (i - x->slots[i].hash) & x->mask;
	return sum;
}

/* What took 0.95 s: 32,768 requests whose pointers somebody chose. */
static void test_requests_chosen(void **state)
{
	uint64_t random = 0, aimed = 0;

	(void)state;
	for (unsigned seed = 0; seed < SEEDS / 5; seed++) {
		struct segments *s;

		seed_set(seed);
		s = requests(key_random);
		random += displaced(s);
		segments__free(s);
		s = requests(key_colliding);
		aimed += displaced(s);
		segments__free(s);
	}
	assert_true(aimed < random + random / 5);
}

/* Texts that collide in the table of names must be found all the same, whatever the seed. */
static void test_names_seeds(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 4; seed++) {
		struct names *n = names__new();

		seed_set(seed);
		for (unsigned i = 1; i <= 5000; i++) {
			char text[32];

			snprintf(text, sizeof(text), "iter%u", i);
			assert_int_equal(names__add(n, text).v, i);
		}
		assert_int_equal(names__find(n, "iter4711").v, 4711);
		names__free(n);
	}
}

/* --- no order of a hash reaches an output -------------------------------------------------------------- */

/* A trace as chrome has it, of what `fill` makes of it. */
static char *chrome(int ops, void (*fill)(const struct export_format *f, struct export_ctx *c, struct names *names,
					  struct labels *labels))
{
	const struct export_format *f = export_format_find("chrome");
	struct names *names = names__new();
	struct labels *labels = NULL;
	struct export_ctx *c = NULL;
	char *text = NULL;
	size_t len;
	struct export_to to = { .dev = -1, .names = names, .ops = ops };

	assert_int_equal(labels__new(&labels, NULL), 0);
	to.labels = labels;
	to.out = open_memstream(&text, &len);
	assert_int_equal(export_begin(f, &c, &to), 0);
	fill(f, c, names, labels);
	assert_int_equal(export_end(f, c, &(struct report){ 0 }), 0);
	fclose(to.out);
	names__free(names);
	labels__free(labels);
	return text;
}

/* 300 named blocks are open when it ends. */
static void fill_open(const struct export_format *f, struct export_ctx *c, struct names *names, struct labels *labels)
{
	for (uint64_t id = 1; id <= 300; id++) {
		struct tl_event allocated = { .kind = TL_CREATE, .ts_ns = 1000 * id, .id = id, .size = 64, .dev = MT_DEV_CPU,
					 .pid = 1, .tid = 2, .ptr = id << 12 };
		struct tl_event named = { .kind = TL_NAME, .ts_ns = 1000 * id, .id = id, .dev = MT_DEV_CPU, .pid = 1 };
		char name[32];

		snprintf(name, sizeof(name), "layers.%u.weight", (unsigned)id);
		named.op = names__add(names, name);
		assert_int_equal(labels__event(labels, &named), 0);
		assert_int_equal(f->event(c, &allocated, 0), 0);
	}
}

/* 50 threads are in an operator when it ends. */
static void fill_threads(const struct export_format *f, struct export_ctx *c, struct names *names, struct labels *labels)
{
	(void)labels;
	for (uint32_t tid = 1; tid <= 50; tid++) {
		struct tl_event op = { .kind = TL_OP, .ts_ns = 1000 * tid, .pid = 1, .tid = tid,
				       .op = names__add(names, "aten::mm") };

		assert_int_equal(f->event(c, &op, 0), 0);
	}
}

/* Open blocks, and threads, ended in the order of a hash. */
static void test_chrome_seeds(void **state)
{
	(void)state;
	for (int ops = 0; ops < 2; ops++) {
		char *first, *other;

		seed_set(1);
		first = chrome(ops, ops ? fill_threads : fill_open);
		assert_non_null(strstr(first, ops ? "\"tid\":50," : "layers.300.weight"));
		for (unsigned seed = 2; seed < 6; seed++) {
			seed_set(seed);
			other = chrome(ops, ops ? fill_threads : fill_open);
			assert_string_equal(first, other);
			free(other);
		}
		free(first);
	}
}

/* Rows of blocks that differ in nothing but the region that made them. */
static uint32_t kept_order(name_id *ret, uint32_t max)
{
	struct tl_edge edges[40];
	struct recorded_kept k;
	struct recorded r;
	struct names *names = names__new();
	uint32_t cnt = 0;

	recorded__init(&r);
	r.names = names;
	for (uint64_t id = 1; id <= 40; id++) {
		struct tl_event allocated = { .kind = TL_CREATE, .ts_ns = 1000, .id = id, .size = 64,
					      .dev = MT_DEV_CPU, .pid = 1,
					 .tid = 2, .op = { 3 }, .region = { (uint32_t)(100 - id) } };

		assert_int_equal(recorded__event(&r, &allocated), 0);
		edges[id - 1] = (struct tl_edge){ .id = id, .flags = TL_EDGE_IN | TL_EDGE_GIVEN, .dev = MT_DEV_CPU };
	}
	for (uint64_t ns = 2000; ns <= 3000; ns += 1000) {
		struct tl_event node = { .kind = TL_NODE, .ts_ns = ns, .pid = 1, .tid = 2, .op = { 4 }, .edges = edges,
					 .edges_cnt = ns == 2000 ? 40 : 0 };

		assert_int_equal(recorded__event(&r, &node), 0);
	}
	for (uint64_t id = 1; id <= 40; id++) {
		struct tl_event died = { .kind = TL_DESTROY, .ts_ns = 9000, .id = id, .size = 64, .dev = MT_DEV_CPU, .pid = 1,
					 .tid = 2 };

		assert_int_equal(recorded__event(&r, &died), 0);
	}
	recorded__end(&r);
	assert_int_equal(recorded_kept__init(&k, &r, MT_DEV_CPU), 0);
	for (; cnt < k.rows_cnt && cnt < max; cnt++)
		ret[cnt] = k.rows[cnt].region;
	recorded_kept__done(&k);
	recorded__done(&r);
	names__free(names);
	return cnt;
}

static void test_kept_seeds(void **state)
{
	name_id first[64], other[64];

	(void)state;
	seed_set(1);
	assert_int_equal(kept_order(first, 64), 40);
	for (unsigned seed = 2; seed < 6; seed++) {
		seed_set(seed);
		assert_int_equal(kept_order(other, 64), 40);
		assert_memory_equal(first, other, 40 * sizeof(first[0]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_chosen),
		cmocka_unit_test(test_requests_chosen),
		cmocka_unit_test(test_names_seeds),
		cmocka_unit_test(test_chrome_seeds),
		cmocka_unit_test(test_kept_seeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
