/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The caching allocator's statistics are found in memory of ours by their shape, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/counters.h"

#define OBJECT	0x10000000ull
#define VECTOR	0x20000000ull
#define DEVICES 0x30000000ull
#define DEVICE_WORDS 512
#define STATS_AT 5 /* words: behind a mutex */

static uint64_t object[16 * 512], vector[64], devices[3][DEVICE_WORDS];
static size_t object_bytes = sizeof(object);

static int copy(uint64_t off, size_t len, const void *from, size_t size, void *buf)
{
	if (off > size || len > size - off)
		return -EFAULT;
	memcpy(buf, (const char *)from + off, len);
	return 0;
}

static int read_ours(void *ctx, uint64_t addr, void *buf, size_t len)
{
	(void)ctx;
	if (addr >= DEVICES)
		return copy(addr - DEVICES, len, devices, sizeof(devices), buf);
	if (addr >= VECTOR)
		return copy(addr - VECTOR, len, vector, sizeof(vector), buf);
	return addr >= OBJECT ? copy(addr - OBJECT, len, object, object_bytes, buf) : -EFAULT;
}

static const struct counters_mem mem = { read_ours, NULL };

/* Array i of a device: of small blocks and large ones; the sum is first. */
static void set_array(unsigned dev, unsigned i, int64_t small, int64_t large, int64_t peak)
{
	int64_t(*a)[4] = (void *)&devices[dev][STATS_AT + 12 * i];
	int64_t v[3] = { small + large, small, large };

	for (int k = 0; k < 3; k++) {
		a[k][0] = v[k];
		a[k][1] = k ? v[k] : peak;
		a[k][2] = v[k] + 100;
		a[k][3] = 100;
	}
	a[0][2] = v[0] + 200;
	a[0][3] = 200;
}

static int set_up(void **state)
{
	(void)state;
	memset(object, 0, sizeof(object));
	memset(vector, 0, sizeof(vector));
	memset(devices, 0, sizeof(devices));
	object_bytes = sizeof(object);
	object[2823] = VECTOR; /* as torch 2.13 has it; its page ends elsewhere */
	object[2824] = object[2825] = VECTOR + 3 * 8;
	for (unsigned d = 0; d < 3; d++) {
		vector[d] = d == 1 ? 0 : DEVICES + d * sizeof(devices[0]);
		devices[d][0] = 0x1234;
		devices[d][4] = ~0ull;
	}
	for (unsigned i = 0; i < 4; i++)
		set_array(0, i, 7, 3 + i, 40);
	set_array(0, 4, 3000, 60000, 90000);
	set_array(0, 5, 20000, 80000, 200000);
	return 0;
}

static void test_found_and_read(void **state)
{
	struct counters_places p;
	struct counters c;

	(void)state;
	assert_int_equal(counters__find(&p, &mem, OBJECT), 0);
	assert_int_equal(p.cnt, 3);
	assert_int_equal(p.at[0], DEVICES + STATS_AT * 8);
	assert_int_equal(p.at[1], 0);
	assert_int_equal(p.at[2], DEVICES + 2 * sizeof(devices[0]) + STATS_AT * 8);
	assert_int_equal(counters__read(&c, &mem, p.at[0]), 0);
	assert_int_equal(c.allocated, 63000);
	assert_int_equal(c.allocated_peak, 90000);
	assert_int_equal(c.reserved, 100000);
	assert_int_equal(c.reserved_peak, 200000);
	assert_int_equal(counters__read(&c, &mem, p.at[2]), 0); /* not used yet */
	assert_int_equal(c.reserved_peak, 0);
}

static void test_vector_across_pages(void **state)
{
	struct counters_places p;

	(void)state;
	for (unsigned at = 1022; at <= 1024; at++) {
		memset(object, 0, sizeof(object));
		object[at] = VECTOR;
		object[at + 1] = object[at + 2] = VECTOR + 3 * 8;
		assert_int_equal(counters__find(&p, &mem, OBJECT), 0);
	}
	object[2000] = VECTOR; /* two of them: none is it */
	object[2001] = object[2002] = VECTOR + 3 * 8;
	assert_int_equal(counters__find(&p, &mem, OBJECT), -ENOENT);
	object_bytes = 3 * 4096; /* nothing behind can be read, and need not be */
	assert_int_equal(counters__find(&p, &mem, OBJECT), 0);
}

/* Each word of the first device's that is another one. */
static void test_any_other_shape_is_refused(void **state)
{
	struct counters_places p;
	struct counters c;

	(void)state;
	assert_int_equal(counters__find(&p, &mem, OBJECT), 0);
	for (unsigned i = 0; i < 6; i++) {
		uint64_t *current = &devices[0][STATS_AT + 12 * i], was = *current;

		*current = was + 1;
		assert_int_equal(counters__read(&c, &mem, p.at[0]), -EAGAIN);
		*current = ~0ull;
		assert_int_equal(counters__read(&c, &mem, p.at[0]), -EAGAIN);
		assert_int_equal(counters__find(&p, &mem, OBJECT), -ENOENT);
		*current = was;
	}
	set_array(0, 4, 0, 0, 0); /* nothing was ever given out */
	assert_int_equal(counters__find(&p, &mem, OBJECT), -ENOENT);
	assert_int_equal(counters__read(&c, &mem, 0x1000), -EFAULT);
}

static void test_hostile(void **state)
{
	static const uint64_t odd[] = { 0, 1, 7, ~0ull, ~7ull, 1ull << 63, VECTOR + 4, VECTOR + 8 * 64,
				       VECTOR + 8 * 65, OBJECT, DEVICES };
	struct counters_places p;

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		assert_int_equal(counters__find(&p, &mem, odd[i] == OBJECT ? 8 : odd[i]), -ENOENT);
		object[2824] = odd[i];
		(void)counters__find(&p, &mem, OBJECT);
		object[2824] = VECTOR + 3 * 8;
		vector[0] = odd[i];
		(void)counters__find(&p, &mem, OBJECT);
		vector[0] = DEVICES;
	}
	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t *at = i % 3 ? &devices[0][rand() % DEVICE_WORDS] : &object[2820 + rand() % 8], was = *at;

		*at = i & 1 ? odd[(unsigned)rand() % (sizeof(odd) / sizeof(*odd))] : (uint64_t)rand() << 32 ^ (uint64_t)rand();
		if (!counters__find(&p, &mem, OBJECT))
			assert_true(p.cnt <= COUNTERS_DEVICES_MAX);
		*at = was;
	}
	assert_int_equal(counters__find(&p, &mem, OBJECT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_found_and_read, set_up),
		cmocka_unit_test_setup(test_vector_across_pages, set_up),
		cmocka_unit_test_setup(test_any_other_shape_is_refused, set_up),
		cmocka_unit_test_setup(test_hostile, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
