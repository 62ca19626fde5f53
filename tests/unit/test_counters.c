/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The caching allocator's statistics are found in memory of ours by their shape, and nothing else is; its global, in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/counters.h"
#include "target/target.h"
#include "unit/fixture.h"

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

/* Every three words are a vector of 64 devices, and whatever a device has may be statistics that nobody has used. */
struct hostile {
	unsigned reads, of_vectors;
	unsigned slow_from; /* such a read takes too long; 0: none */
	int is_garbage;	    /* no device has the shape */
};

static int read_hostile(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct hostile *h = ctx;
	uint64_t *words = buf;

	if (++h->reads == h->slow_from)
		return -ETIMEDOUT;
	h->of_vectors += addr >= VECTOR && addr < DEVICES;
	for (size_t i = 0; i < len / sizeof(*words); i++) {
		if (addr >= DEVICES)
			words[i] = h->is_garbage ? ~0ull : 0;
		else if (addr >= VECTOR)
			words[i] = DEVICES + i * 4096;
		else
			words[i] = VECTOR + 8 * COUNTERS_DEVICES_MAX * ((addr - OBJECT) / 8 + i);
	}
	return 0;
}

static void test_hostile_is_not_looked_at_for_long(void **state)
{
	struct hostile all = { 0 }, slow = { .slow_from = 1000 }, garbage = { .is_garbage = 1 };
	struct counters_places p;
	struct counters c;

	(void)state;
	assert_int_equal(counters__find(&p, &(struct counters_mem){ read_hostile, &all }, OBJECT), -ETIMEDOUT);
	assert_int_equal(all.reads, COUNTERS_READS_MAX);
	assert_int_equal(counters__find(&p, &(struct counters_mem){ read_hostile, &slow }, OBJECT), -ETIMEDOUT);
	assert_int_equal(slow.reads, 1000);
	slow.slow_from = slow.reads + 1;
	assert_int_equal(counters__read(&c, &(struct counters_mem){ read_hostile, &slow }, DEVICES), -ETIMEDOUT);
	assert_int_equal(counters__find(&p, &(struct counters_mem){ read_hostile, &garbage }, OBJECT), -ETIMEDOUT);
	assert_in_range(garbage.of_vectors, COUNTERS_READS_MAX / 2 - 2, COUNTERS_READS_MAX / 2); /* of each one device */
}

/* --- where the global is ----------------------------------------------------------------------------------- */

#define LIBRARY "libc10_cuda.so"
#define USES "extern void *" COUNTERS_GLOBAL ";\n"

static void build_library(void)
{
	fixture_build(LIBRARY, "-shared -fPIC -Wl,-soname," LIBRARY,
		      "void *" COUNTERS_GLOBAL " = (void *)0x1234;\nint work(int i)\n{\n\treturn i + 1;\n}\n");
}

/* What the variable of a program holds that is found there; 0: it has none. */
static uint64_t value_in(const char *name, const char *flags, const char *source)
{
	char *env[] = { NULL };
	uint64_t value = 0, addr;
	char all[256];
	struct target *t;
	pid_t pid;

	snprintf(all, sizeof(all), "%s -L%s -Wl,-rpath,%s", flags, fixture_dir, fixture_dir);
	pid = fixture_start(fixture_build(name, all, source), env);
	assert_int_equal(target__open(&t, pid, NULL), 0);
	addr = counters__global(t, 0);
	assert_true(addr == counters__global(t, 1)); /* all is new */
	if (addr)
		assert_int_equal(target__read(t, addr, &value, sizeof(value)), 0);
	assert_true(target__refresh(t, NULL) >= 0);
	assert_true(!counters__global(t, 1) && counters__global(t, 0) == addr);
	target__free(t);
	fixture_stop(pid);
	return value;
}

static void test_global(void **state)
{
	(void)state;
	build_library();
	assert_int_equal(value_in("none", "", FIXTURE_WAITS("")), 0);
	assert_int_equal(value_in("its", "-Wl,--no-as-needed -l:" LIBRARY, FIXTURE_WAITS("")), 0x1234);
	assert_int_equal(value_in("copied", "-no-pie -fno-pie -l:" LIBRARY,
				  USES FIXTURE_WAITS("\t" COUNTERS_GLOBAL " = (void *)0x5678;\n")), 0x5678);
}

/* A job that loads torch while it is followed already. */
static void test_global_of_a_late_library(void **state)
{
	char *env[] = { NULL }, source[1024];
	uint64_t value = 0, addr = 0;
	struct target *t;
	pid_t pid;

	(void)state;
	build_library();
	snprintf(source, sizeof(source),
		 "#include <dlfcn.h>\n#include <signal.h>\n#include <unistd.h>\nstatic void load(int sig)\n{\n"
		 "\tdlopen(\"%s/" LIBRARY "\", RTLD_NOW);\n}\n"
		 "int main(void)\n{\n\tsignal(SIGUSR1, load);\n\twrite(1, \"x\", 1);\n\tfor (;;)\n\t\tpause();\n}\n",
		 fixture_dir);
	pid = fixture_start(fixture_build("late", "-ldl", source), env);
	assert_int_equal(target__open(&t, pid, NULL), 0);
	assert_int_equal(counters__global(t, 0), 0);
	kill(pid, SIGUSR1);
	for (int i = 0; i < 10000 && !(addr = counters__global(t, 1)); i++) {
		usleep(1000);
		assert_true(target__refresh(t, NULL) >= 0);
	}
	for (int i = 0; i < 10000 && value != 0x1234; i++) { /* its data is mapped last */
		usleep(1000);
		(void)target__read(t, addr, &value, sizeof(value));
	}
	assert_true(addr && value == 0x1234);
	target__free(t);
	fixture_stop(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_found_and_read, set_up),
		cmocka_unit_test_setup(test_vector_across_pages, set_up),
		cmocka_unit_test_setup(test_any_other_shape_is_refused, set_up),
		cmocka_unit_test_setup(test_hostile, set_up),
		cmocka_unit_test(test_hostile_is_not_looked_at_for_long),
		cmocka_unit_test(test_global),
		cmocka_unit_test(test_global_of_a_late_library),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
