/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Whose the pages of a process are: against what smaps says of a child, and from maps that no kernel has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memtrace/event.h"
#include "target/door.h"
#include "target/pages.h"
#include "target/target.h"
#include "unit/maps_fix.h"

#define MIB (1ull << 20)

static struct target *target_of(pid_t pid)
{
	struct target *t;

	assert_int_equal(target__open_bare(&t, pid, NULL, NULL), 0);
	return t;
}

/* --- real ones ------------------------------------------------------------------------------------------- */

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Has 24 MiB inherited, of which it has written 8 and its parent has unmapped 8 others … With `is_bare` none of it. */
static pid_t start_child(int is_bare)
{
	char *all = mmap(NULL, 24 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ready[2];
	pid_t pid;
	char c;

	assert_ptr_not_equal(all, MAP_FAILED);
	assert_int_equal(madvise(all, 24 * MIB, MADV_NOHUGEPAGE), 0);
	if (!is_bare)
		memset(all, 1, 24 * MIB);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		/* … 6 MiB of its own, of which it has closed 2, 4 MiB of zeros that it only read, 64 GiB not touched. */
		char *own = mmap(NULL, 6 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		volatile char *zeros = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)mmap(NULL, 64ull << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (!is_bare) {
			memset(all, 2, 8 * MIB);
			memset(own, 3, 6 * MIB);
			mprotect(own, 2 * MIB, PROT_NONE);
			for (size_t i = 0; i < 4 * MIB; i += 4096)
				(void)zeros[i];
		}
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	munmap(all + 16 * MIB, 8 * MIB);
	return pid;
}

/* By its pages, and by smaps. */
static void read_child(int is_bare, uint64_t paged[MT_USES], uint64_t use[MT_USES])
{
	pid_t pid = start_child(is_bare);
	struct target *t = target_of(pid);
	struct pages_walk *w;
	unsigned turns = 0;
	uint32_t known;
	uint64_t own;
	int r;

	assert_int_equal(pages_walk__new(&w, t), 0);
	while (!(r = pages_walk__go(w, 0, &own)))
		turns++;
	assert_int_equal(r, 1);
	assert_true(turns >= 512); /* of 64 GiB 128 MiB each */
	pages_walk__free(w);
	assert_int_equal(target__use(t, use), 0);
	assert_int_equal(target__use_of_pages(t, own, paged, &known), 0);
	assert_true(known & 1u << MT_USE_PRIVATE && !(known & 1u << MT_USE_PSS));
	target__free(t);
	end(pid);
}

/* The two children differ by what their loader and libraries have touched. */
static void near(uint64_t a, uint64_t b)
{
	assert_in_range(a + 2 * MIB, b + MIB / 2, b + 7 * MIB / 2);
}

static void as_smaps_says(void **state)
{
	uint64_t bare[MT_USES], bare_use[MT_USES], paged[MT_USES], use[MT_USES];

	(void)state;
	use_door_without_shadow();
	read_child(1, bare, bare_use);
	read_child(0, paged, use);
	door_use(&door_own);
	near(paged[MT_USE_PRIVATE] - bare[MT_USE_PRIVATE], (8 + 8 + 4) * MIB);
	near(use[MT_USE_PRIVATE] - bare_use[MT_USE_PRIVATE], (8 + 8 + 6) * MIB); /* with what is closed */
	near(use[MT_USE_SHARED] - bare_use[MT_USE_SHARED], 8 * MIB);
	near(paged[MT_USE_SHARED] - bare[MT_USE_SHARED], (8 + 2) * MIB);
	near(paged[MT_USE_RSS], use[MT_USE_RSS]);
	near(paged[MT_USE_ANON], use[MT_USE_ANON]);
}

static void ends_amid_a_walk(void **state)
{
	pid_t pid = start_child(0);
	struct target *t = target_of(pid);
	struct pages_walk *w;
	uint64_t own = 7;
	int r;

	(void)state;
	use_door_without_shadow();
	assert_int_equal(pages_walk__new(&w, t), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pages_walk__go(w, 0, &own), 0);
	end(pid);
	while (!(r = pages_walk__go(w, 0, &own)))
		;
	assert_int_equal(r, -ESRCH);
	assert_int_equal(own, 7);
	pages_walk__free(w);
	assert_int_equal(pages_walk__new(&w, t), -ESRCH);
	door_use(&door_own);
	target__free(t);
}

static void a_look_has_bounds(void **state)
{
	struct iovec ranges[DOOR_PAGE_RANGES_MAX + 1] = { { (void *)4096, 4096 } };
	uint64_t own;

	(void)state;
	assert_int_equal(door_pages(getpid(), ranges, 0, &own), -EINVAL);
	assert_int_equal(door_pages(getpid(), ranges, DOOR_PAGE_RANGES_MAX + 1, &own), -EINVAL);
	assert_int_equal(door_pages(getpid(), ranges, 1, &own), 0);
	assert_int_equal(own, 0);
	ranges[1] = (struct iovec){ (void *)8192, DOOR_PAGES_BYTES_MAX };
	assert_int_equal(door_pages(getpid(), ranges, 2, &own), -EINVAL);
	ranges[1].iov_len = SIZE_MAX;
	assert_int_equal(door_pages(getpid(), ranges, 2, &own), -EINVAL);
	ranges[1] = (struct iovec){ (void *)(UINTPTR_MAX - 4095), 4096 };
	assert_int_equal(door_pages(getpid(), ranges, 2, &own), -EINVAL);
	ranges[1] = (struct iovec){ (void *)(INT64_MAX - 4095), 4096 }; /* no process has that */
	assert_true(door_pages(getpid(), ranges, 2, &own) < 0);
}

/* --- made up ones ---------------------------------------------------------------------------------------- */

static struct fake {
	int fd;
	uint64_t asked, first, last_end;
	unsigned looks;
} fake;

static int fake_file(void *ctx, pid_t pid, enum door_file which)
{
	(void)ctx;
	(void)pid;
	return which == DOOR_MAPS ? dup(fake.fd) : door_own.file(NULL, pid, which);
}

static int fake_text(void *ctx, pid_t pid, enum door_file which, char *buf, size_t cap, size_t *ret_len)
{
	(void)ctx;
	return door_own.text(NULL, pid, which, buf, cap, ret_len);
}

static int fake_pages(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own)
{
	(void)ctx;
	(void)pid;
	assert_true(door_pages_are_fine(ranges, cnt));
	*ret_own = 0;
	for (size_t i = 0; i < cnt; i++) {
		uint64_t start = (uintptr_t)ranges[i].iov_base;

		fake.first = fake.asked ? fake.first : start;
		fake.asked += ranges[i].iov_len;
		fake.last_end = start + ranges[i].iov_len;
		*ret_own += ranges[i].iov_len / 2;
	}
	fake.looks++;
	return 0;
}

static const struct door fake_door = { .file = fake_file, .text = fake_text, .pages = fake_pages };

static int walk(const char *text, size_t len, uint64_t *own)
{
	struct target *t = target_of(getpid());
	struct pages_walk *w;
	int r;

	fake = (struct fake){ .fd = memfd_create("maps", 0) };
	assert_true(fake.fd >= 0);
	assert_int_equal(write(fake.fd, text, len), (ssize_t)len);
	assert_int_equal(lseek(fake.fd, 0, SEEK_SET), 0);
	door_use(&fake_door);
	assert_int_equal(pages_walk__new(&w, t), 0);
	while (!(r = pages_walk__go(w, 0, own)))
		;
	pages_walk__free(w);
	door_use(&door_own);
	close(fake.fd);
	target__free(t);
	return r;
}

static int walk_text(const char *text, uint64_t *own)
{
	return walk(text, strlen(text), own);
}

static void passes_over(void **state)
{
	uint64_t own;

	(void)state;
	assert_int_equal(walk_text("", &own), 1);
	assert_int_equal(own, 0);
	assert_int_equal(walk_text("1000-3000 rw-p 00000000 00:00 0 \n"
				   "3000-5000 r--p 00000000 00:00 0 \n" /* one range with the one before */
				   "10000-7f0000000000 ---p 00000000 00:00 0 \n"
				   "7f0000000000-7f0000200000 rw-p 00000000 00:0f 8 /anon_hugepage (deleted)\n"
				   "7f0000200000-7f0000100000 rw-p 00000000 00:00 0 \n"
				   "rubbish\n\n\n7f\xff\n"
				   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"
				   "9000-a000 rw-p 00000000 00:00 0 no end", &own), 1);
	assert_int_equal(own, 0x4000 / 2);
	assert_true(fake.looks == 1 && fake.first == 0x1000 && fake.last_end == 0x5000);
}

static void large_mappings_in_parts(void **state)
{
	uint64_t own;

	(void)state;
	assert_int_equal(walk_text("1000-2000 rw-p 00000000 00:00 0 \n"
				   "100000000-140001000 rw-p 00000000 00:00 0 \n"
				   "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n", &own), 1);
	assert_int_equal(fake.asked, 0x1000 + 0x40001000 + 0x1000);
	assert_int_equal(own, fake.asked / 2);
	assert_int_equal(fake.looks, 9); /* a GiB and two pages */
	assert_int_equal(fake.last_end, 0x7f0000001000);
	/* More than a walk may have, in one mapping and in many; as much as that is not asked for. */
	assert_int_equal(walk_text("1000-7f0000000000 rw-p 00000000 00:00 0 \n", &own), -EFBIG);
	assert_int_equal(walk_text("0-7fffffffffffffff rw-p 00000000 00:00 0 \n"
				   "1-7fffffffffffffff rw-p 00000000 00:00 0 \n", &own), -EFBIG);
	assert_int_equal(fake.looks, 0);
}

/* More lines than the text has room for, cut anywhere; the shortest that there are. */
static void many_mappings(void **state)
{
	size_t cnt = 20000, len = 0;
	char *text = malloc(cnt * 80);
	uint64_t own;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < cnt; i++)
		len += (size_t)sprintf(text + len, "%08zx-%08zx rw-p 00000000 00:00 0%s\n", 0x100000 + i * 0x2000,
				       0x101000 + i * 0x2000, i % 3 ? "" : " /a path");
	assert_int_equal(walk(text, len, &own), 1);
	assert_int_equal(fake.asked, cnt * 0x1000);
	len = 0;
	for (size_t i = 1; i < 2000; i++)
		len += (size_t)sprintf(text + len, "%zx-%zx rw-p 0 0:0 0\n", i * 2, i * 2 + 1);
	assert_int_equal(walk(text, len, &own), -EPROTO); /* no kernel writes so many in so few bytes */
	free(text);
}

/* Names that are longer than the text: of each of them its mapping counts once, and those behind it do. */
static void long_names(void **state)
{
	static const size_t lens[] = { 16384 - 40, 16384 - 33, 16384 - 32, 16384, 16385, 50000 };
	char *text = malloc(60000);
	uint64_t own;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t at = (size_t)sprintf(text, "1000-2000 rw-p 00000000 00:00 1 /");

		memset(text + at, 'x', lens[i]);
		at += lens[i];
		at += (size_t)sprintf(text + at, "\n5000-7000 rw-p 00000000 00:00 0 \n");
		assert_int_equal(walk(text, at, &own), 1);
		assert_int_equal(fake.asked, 0x3000);
		memset(text, 'x', 40); /* none at all */
		assert_int_equal(walk(text, at, &own), 1);
		assert_int_equal(fake.asked, 0x2000);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_smaps_says),
		cmocka_unit_test(ends_amid_a_walk),
		cmocka_unit_test(a_look_has_bounds),
		cmocka_unit_test(passes_over),
		cmocka_unit_test(large_mappings_in_parts),
		cmocka_unit_test(many_mappings),
		cmocka_unit_test(long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
