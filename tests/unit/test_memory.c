/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Memory of a process is read as it is: no page of it is copied, no stack grows, and what is a driver's is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/memory.h"

#define PAGE 4096
#define SHARED (8 << 20)

/* What a child of ours has, at the same addresses as we, and a word to it. */
struct child {
	pid_t pid;
	int to, from;
	uint8_t *shared, *hole, *closed, *later, *device;
};

static void *map_at(void *at, size_t len, int prot, int flags)
{
	void *p = mmap(at, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void *map_device(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY,
					.exclude_kernel = 1, .exclude_hv = 1 };
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	void *p;

	assert_true(fd >= 0);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	return p;
}

/* In the child: each word has it map one page more. */
static void serve(const struct child *c, int from, int to)
{
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (write(to, "r", 1) == 1 && read(from, &word, 1) == 1)
		memset(map_at(c->later, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED), 7, PAGE);
	_exit(0);
}

static void hear(const struct child *c)
{
	char word;

	assert_int_equal(read(c->from, &word, 1), 1);
}

static int start(void **state)
{
	struct child *c = calloc(1, sizeof(*c));
	int to[2], from[2];

	c->shared = map_at(NULL, SHARED, PROT_READ | PROT_WRITE, 0);
	for (size_t i = 0; i < SHARED; i++)
		c->shared[i] = (uint8_t)(i / PAGE + i);
	c->closed = map_at(NULL, 3 * PAGE, PROT_NONE, 0);
	c->hole = c->closed + PAGE;
	c->later = c->closed + 2 * PAGE;
	munmap(c->hole, 2 * PAGE);
	c->device = map_device();
	assert_int_equal(pipe(to) | pipe(from), 0);
	c->pid = fork();
	if (!c->pid) {
		close(to[1]);
		serve(c, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
	hear(c);
	*state = c;
	return 0;
}

static void end(struct child *c)
{
	if (c->pid) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	c->pid = 0;
}

static int stop(void **state)
{
	struct child *c = *state;

	end(c);
	memory_done();
	munmap(c->shared, SHARED);
	munmap(c->closed, PAGE);
	munmap(c->device, PAGE);
	close(c->to);
	close(c->from);
	free(c);
	return 0;
}

static int read_at(const struct child *c, const void *at, void *buf, size_t len)
{
	struct iovec range = { (void *)(uintptr_t)at, len };

	return memory_read(c->pid, &range, 1, buf, len);
}

/* A row of a file in /proc/PID that begins with this word, in bytes. */
static uint64_t bytes_of(pid_t pid, const char *file, const char *word)
{
	char path[64], line[256];
	unsigned long long kib = 0, sum = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)) && sscanf(line, "%*[^:]: %llu kB", &kib) == 1)
			sum += kib;
	fclose(f);
	return sum << 10;
}

static void test_reading_copies_nothing(void **state)
{
	const struct child *c = *state;
	uint64_t before = bytes_of(c->pid, "smaps_rollup", "Private_");
	uint8_t *buf = malloc(SHARED);

	for (size_t i = 0; i < SHARED; i += PAGE) {
		assert_int_equal(read_at(c, c->shared + i, buf, 64), 0);
		assert_memory_equal(buf, c->shared + i, 64);
	}
	assert_int_equal(read_at(c, c->shared + 1, buf, SHARED - 1), 0);
	assert_memory_equal(buf, c->shared + 1, SHARED - 1);
	free(buf);
	/* what we wrote meanwhile is the child's alone */
	assert_true(bytes_of(c->pid, "smaps_rollup", "Private_") < before + SHARED / 8);
}

/* Neighbours in a page, in any order, over its edge, empty ones, and large ones. */
static void test_ranges(void **state)
{
	static const struct { uint32_t at, len; } wanted[] = {
		{ 100, 8 }, { 16, 64 }, { 4090, 12 }, { 4096, 8 }, { 8191, 1 }, { 8192, 1 }, { 0, 0 }, { 3, 20000 }, { 100, 8 },
		{ SHARED - 8, 8 },
	};
	enum { CNT = sizeof(wanted) / sizeof(*wanted) };
	const struct child *c = *state;
	struct iovec ranges[CNT];
	uint8_t buf[32000];
	size_t len = 0;

	for (size_t i = 0; i < CNT; i++) {
		ranges[i] = (struct iovec){ c->shared + wanted[i].at, wanted[i].len };
		len += wanted[i].len;
	}
	assert_int_equal(memory_read(c->pid, ranges, CNT, buf, len), 0);
	len = 0;
	for (size_t i = 0; i < CNT; len += wanted[i++].len)
		assert_memory_equal(buf + len, c->shared + wanted[i].at, wanted[i].len);
	assert_int_equal(memory_read(c->pid, ranges, CNT, buf, len - 1), -EFAULT);
	ranges[4].iov_base = c->hole;
	assert_int_equal(memory_read(c->pid, ranges, CNT, buf, len), -EFAULT);
}

static void test_what_is_not_there(void **state)
{
	struct child *c = *state;
	uint8_t buf[64];

	assert_int_equal(read_at(c, c->hole, buf, 8), -EFAULT);
	assert_int_equal(read_at(c, c->shared - 4, buf, 8), -EFAULT);
	assert_int_equal(read_at(c, NULL, buf, 8), -EFAULT);
	assert_int_equal(read_at(c, (void *)(UINTPTR_MAX - 3), buf, 8), -EFAULT);
	assert_int_equal(read_at(c, (void *)(UINTPTR_MAX - 7), buf, 8), -EFAULT);
	assert_int_equal(read_at(c, (void *)(UINTPTR_MAX - PAGE + 1), buf, 8), -EFAULT);
	assert_int_equal(read_at(c, (void *)(1ull << 63), buf, 8), -EFAULT);
	assert_int_equal(read_at(c, (void *)((1ull << 63) - 8), buf, 8), -EFAULT);
	end(c);
	c->pid = 0x7ffffffe;
	assert_int_equal(read_at(c, c->shared, buf, 8), -ESRCH);
	c->pid = 0;
}

static void test_of_a_process_that_has_ended(void **state)
{
	struct child *c = *state;
	uint8_t buf[64];

	assert_int_equal(read_at(c, c->shared, buf, 8), 0);
	kill(c->pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)c->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_int_equal(read_at(c, c->shared, buf, 8), -ESRCH);
}

/* Mapped where something was refused a moment ago. */
static void test_what_comes_later(void **state)
{
	const struct child *c = *state;
	uint8_t buf[64];

	assert_int_equal(read_at(c, c->later, buf, 8), -EFAULT);
	assert_int_equal(write(c->to, "m", 1), 1);
	hear(c);
	assert_int_equal(read_at(c, c->later, buf, 8), 0);
	assert_int_equal(buf[7], 7);
}

/* /proc/PID/mem would read it for us, though the process itself may not. */
static void test_closed_memory(void **state)
{
	const struct child *c = *state;
	uint8_t buf[64];

	assert_int_equal(read_at(c, c->closed, buf, 8), -EFAULT);
}

/* A ring of perf's here; of a GPU's driver it may do something. */
static void test_devices(void **state)
{
	const struct child *c = *state;
	uint8_t buf[64];

	assert_int_equal(read_at(c, c->device, buf, 8), -EFAULT);
	assert_int_equal(read_at(c, c->device - 8, buf, 16), -EFAULT);
}

/* A look below a stack's last page would have it grow. */
static void test_the_stack_does_not_grow(void **state)
{
	const struct child *c = *state;
	uint64_t before = bytes_of(c->pid, "status", "VmStk");
	char path[64], line[512];
	unsigned long long begin = 0;
	uint8_t buf[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)c->pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "[stack]"))
			sscanf(line, "%llx", &begin);
	fclose(f);
	assert_true(begin);
	assert_int_equal(read_at(c, (void *)(uintptr_t)begin, buf, 8), 0);
	assert_int_equal(read_at(c, (void *)(uintptr_t)(begin - PAGE), buf, 8), -EFAULT);
	assert_int_equal(read_at(c, (void *)(uintptr_t)(begin - 8 * PAGE), buf, 8), -EFAULT);
	assert_int_equal(bytes_of(c->pid, "status", "VmStk"), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reading_copies_nothing, start, stop),
		cmocka_unit_test_setup_teardown(test_ranges, start, stop),
		cmocka_unit_test_setup_teardown(test_what_is_not_there, start, stop),
		cmocka_unit_test_setup_teardown(test_of_a_process_that_has_ended, start, stop),
		cmocka_unit_test_setup_teardown(test_what_comes_later, start, stop),
		cmocka_unit_test_setup_teardown(test_closed_memory, start, stop),
		cmocka_unit_test_setup_teardown(test_devices, start, stop),
		cmocka_unit_test_setup_teardown(test_the_stack_does_not_grow, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
