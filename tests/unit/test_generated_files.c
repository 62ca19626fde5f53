/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Files that inductor wrote, of a process (ourselves): whose names say what is in them, and all that may be in their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "live/generated_files.h"
#include "target/door.h"
#include "target/script.h"
#include "target/script_read.h"
#include "unit/fixture.h"

#define GRAPH "from torch._inductor.async_compile import AsyncCompile\nasync_compile = AsyncCompile()\n" \
	      "def call(args):\n    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n    cpp_fused_0(buf0)\n"
#define SECOND 1000000000ull

static uint64_t now = 1000 * SECOND;
static uint64_t read_takes;
static unsigned reads;

static uint64_t test_clock(void)
{
	return now;
}

static int counting_read(pid_t pid, const char *path, char **ret, size_t *ret_len)
{
	reads++;
	now += read_takes;
	return script_read(pid, path, ret, ret_len);
}

static struct generated_files *files_new(void)
{
	struct generated_files *g = generated_files__new();

	reads = 0;
	read_takes = 0;
	generated_files__use(g, test_clock, counting_read);
	return g;
}

/* ---- sums and names ---- */

static void sums_are_those_of_the_standard(void **state)
{
	static const struct {
		size_t len; /* of so many "a" */
		uint64_t begins;
	} sums[] = {
		{ 0, 0xe3b0c44298fc1c14 }, { 55, 0x9f4390f8d30c2dd9 }, { 56, 0xb35439a4ac6f0948 }, { 63, 0x7d3e74a05d7db15b },
		{ 64, 0xffe054fe7ae0cb6d }, { 119, 0x31eba51c313a5c08 }, { 120, 0x2f3d335432c70b58 },
		{ 1000000, 0xcdc76e5c9914fb92 },
	};
	char *text = malloc(1000000);

	(void)state;
	memset(text, 'a', 1000000);
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
		uint8_t sum[SHA256_BYTES];
		uint64_t begins = 0;

		sha256(text, sums[i].len, sum);
		for (int b = 0; b < 8; b++)
			begins = begins << 8 | sum[b];
		if (begins != sums[i].begins)
			fail_msg("%zu: %llx", sums[i].len, (unsigned long long)begins);
	}
	free(text);
}

#define ABC "cxj4bnp4pahh6uqkbidpf3lrceoyagyndsylxvhfucd7wd4qacww"

static void names_say_what_is_in_a_file(void **state)
{
	static const char *const not_names[] = {
		"", "c", ABC ".py", "/a/" ABC, "/a/" ABC ".pyc", "/a/" ABC "/x.py", "/a/b" ABC ".py",
		"/a/cXj4bnp4pahh6uqkbidpf3lrceoyagyndsylxvhfucd7wd4qacww.py",
		"/a/c1j4bnp4pahh6uqkbidpf3lrceoyagyndsylxvhfucd7wd4qacww.py", "/a/train.py",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(not_names) / sizeof(*not_names); i++)
		assert_null(script_name(not_names[i]));
	assert_string_equal(script_name("/a/xj/" ABC ".py"), ABC ".py");
	assert_true(script_is_true(ABC, "abc", 3));
	assert_true(script_is_true(ABC, " \n\tabc\n\x1f\n", 9));
	assert_false(script_is_true(ABC, "abd", 3));
	assert_false(script_is_true(ABC, "ab", 2));
	assert_false(script_is_true(ABC, " \n", 2));
	assert_false(script_is_true(ABC, "", 0));
}

/* ---- files ---- */

static const char *name_of(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	static char name[64];
	uint8_t sum[SHA256_BYTES + 1] = { 0 };
	size_t len = strlen(text);

	while (len && text[len - 1] == '\n')
		len--;
	sha256(text, len, sum);
	name[0] = 'c';
	for (unsigned i = 0; i < SCRIPT_NAME_LEN - 1; i++)
		name[1 + i] = letters[(sum[5 * i / 8] << 8 | sum[5 * i / 8 + 1]) >> (11 - 5 * i % 8) & 31];
	strcpy(name + SCRIPT_NAME_LEN, ".py");
	return name;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		fail_msg("%s: %s", path, strerror(errno));
}

/* A path where `text` would lie. */
static const char *path_for(const char *text)
{
	return fixture_path(name_of(text));
}

static int line_4(struct generated_files *g, const char *path, struct generated_line *ret)
{
	return generated_files__line(g, getpid(), path, 4, ret);
}

static void a_file_is_read_once(void **state)
{
	struct generated_files *g = files_new();
	const char *path = path_for(GRAPH);
	struct generated_line l;

	(void)state;
	write_file(path, GRAPH);
	assert_int_equal(line_4(g, path, &l), 0);
	assert_string_equal(l.buffer, "buf0");
	assert_string_equal(l.kernel, "cpp_fused_0");
	assert_int_equal(generated_files__line(g, getpid(), path, 1, &l), -ENOENT);
	assert_int_equal(unlink(path), 0); /* what it said stays true */
	assert_int_equal(line_4(g, path, &l), 0);
	assert_int_equal(line_4(g, "/elsewhere/" ABC ".py", &l), -ENOLINK);
	assert_int_equal(reads, 2);
	assert_int_equal(generated_files__counts(g).read, 1);
	generated_files__free(g);
}

static void what_is_edited_says_nothing(void **state)
{
	struct generated_files *g = files_new();
	char path[256];
	struct generated_line l;

	(void)state;
	snprintf(path, sizeof(path), "%s", path_for(GRAPH));
	write_file(path, GRAPH "\n\n"); /* blanks around it are not in its name */
	assert_int_equal(line_4(g, path, &l), 0);
	generated_files__free(g);
	g = files_new();
	write_file(path, "import os\n" GRAPH);
	assert_int_equal(line_4(g, path, &l), -ESTALE);
	assert_int_equal(generated_files__counts(g).edited, 1);
	write_file(path, ""); /* not written yet */
	now += SECOND;
	assert_int_equal(line_4(g, path, &l), -EAGAIN);
	assert_int_equal(generated_files__counts(g).edited, 1);
	generated_files__free(g);
	unlink(path);
}

static void a_kernels_file_is_no_graph(void **state)
{
	static const char text[] = "import triton\ndef triton_(x):\n    pass\n";
	struct generated_files *g = files_new();
	const char *path = path_for(text);
	struct generated_line l;

	(void)state;
	write_file(path, text);
	assert_int_equal(line_4(g, path, &l), -EINVAL);
	now += 100 * SECOND; /* nor will it ever be one */
	assert_int_equal(line_4(g, path, &l), -EINVAL);
	assert_int_equal(reads, 1);
	assert_int_equal(line_4(g, "/etc/passwd", &l), -EPERM);
	assert_int_equal(reads, 1);
	generated_files__free(g);
	unlink(path);
}

/* In the file's place something else: nothing of it is opened, and nobody waits. */
static void only_files_are_read(void **state)
{
	char path[256], outside[256];
	struct generated_files *g;
	struct generated_line l;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s", path_for(GRAPH));
	snprintf(outside, sizeof(outside), "%s", fixture_path("outside"));
	write_file(outside, GRAPH);
	static const char *const links[] = { "/dev/zero", "outside", "/proc/self/environ", "/nowhere" };
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		assert_int_equal(symlink(links[i], path), 0);
		g = files_new();
		assert_int_equal(line_4(g, path, &l), -ELOOP);
		generated_files__free(g);
		unlink(path);
	}
	assert_int_equal(mkfifo(path, 0600), 0);
	g = files_new();
	assert_int_equal(line_4(g, path, &l), -EACCES);
	generated_files__free(g);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	g = files_new();
	assert_int_equal(line_4(g, path, &l), -EACCES);
	generated_files__free(g);
	rmdir(path);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, DOOR_SCRIPT_BYTES_MAX + 1), 0);
	g = files_new();
	assert_int_equal(line_4(g, path, &l), -EFBIG);
	generated_files__free(g);
	assert_int_equal(ftruncate(fd, DOOR_SCRIPT_BYTES_MAX), 0); /* read in parts, and not what its name says */
	g = files_new();
	assert_int_equal(line_4(g, path, &l), -ESTALE);
	generated_files__free(g);
	close(fd);
	unlink(path);
}

/* A cache directory may be a link; but where the process has another root, its names stay below that. */
static void links_on_the_way_are_followed(void **state)
{
	struct generated_files *g = files_new();
	char path[300], real[256];
	struct generated_line l;

	(void)state;
	assert_int_equal(mkdir(fixture_path("real"), 0700), 0);
	assert_int_equal(symlink("real", fixture_path("link")), 0);
	snprintf(real, sizeof(real), "%s/%s", fixture_path("real"), name_of(GRAPH));
	snprintf(path, sizeof(path), "%s/%s", fixture_path("link"), name_of(GRAPH));
	write_file(real, GRAPH);
	assert_int_equal(line_4(g, path, &l), 0);
	generated_files__free(g);
	snprintf(path, sizeof(path), "/proc/self/root%s", real);
	g = files_new();
	assert_int_equal(line_4(g, path, &l), -ELOOP); /* of the kernel's links, which lead anywhere, none */
	generated_files__free(g);
}

static void who_may_not_read_it_does_not(void **state)
{
	struct generated_files *g = files_new();
	char path[256];
	struct generated_line l;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s", path_for(GRAPH));
	write_file(path, GRAPH);
	if (!getuid())
		assert_int_equal(chown(path, 12345, 12345), 0); /* somebody's, of whom the process has nothing */
	assert_int_equal(chmod(path, getuid() ? 0 : 0600), 0);
	assert_int_equal(line_4(g, path, &l), -EACCES);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(line_4(g, path, &l), -EACCES); /* not asked again yet */
	assert_int_equal(reads, 1);
	now += SECOND;
	assert_int_equal(line_4(g, path, &l), 0);
	generated_files__free(g);
	assert_int_equal(chown(path, getuid(), getgid()), 0);
	g = files_new();
	signal(SIGIO, SIG_IGN); /* who has the lease is asked to give it up */
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	assert_int_equal(line_4(g, path, &l), -EWOULDBLOCK);
	close(fd);
	generated_files__free(g);
	unlink(path);
}

/* After 1 s, 2 s, 4 s … a minute, and each process by itself. */
static void failures_are_not_tried_all_the_time(void **state)
{
	struct generated_files *g = files_new();
	const char *path = path_for(GRAPH);
	struct generated_line l;
	unsigned tries = 0;

	(void)state;
	for (unsigned tenths = 0; tenths < 10 * 300; tenths++) {
		assert_int_equal(line_4(g, path, &l), -ENOLINK);
		now += SECOND / 10;
	}
	tries = reads;
	assert_in_range(tries, 9, 11);
	assert_int_equal(generated_files__counts(g).refused, tries);
	assert_int_equal(generated_files__line(g, getppid(), path, 4, &l), -ENOLINK);
	assert_int_equal(reads, tries + 1);
	generated_files__free(g);
}

/* Names cost nothing: reading stays within its part of the time. */
static void reading_has_its_part_of_the_time(void **state)
{
	struct generated_files *g = files_new();
	struct generated_line l;
	uint64_t start = now;
	char path[] = "/nowhere/" ABC ".py";

	(void)state;
	read_takes = SECOND / 4;
	for (unsigned i = 0; i < 32 * 32 * 4; i++) {
		path[12] = (char)('a' + i % 26);
		path[13] = (char)('a' + i / 26 % 26);
		path[14] = (char)('a' + i / 26 / 26);
		assert_true(line_4(g, path, &l) < 0);
		now += SECOND / 100;
	}
	assert_true(reads * read_takes < 3 * SECOND + (now - start) / 20);
	assert_true(reads * read_takes > 2 * SECOND + (now - start) / 40);
	assert_true(generated_files__counts(g).put_off > 3000);
	generated_files__free(g);
}

/* As many as there may be, and then the one that was not asked for longest. */
static void the_oldest_goes(void **state)
{
	struct generated_files *g = files_new();
	char first[256], text[512];
	struct generated_line l;

	(void)state;
	snprintf(first, sizeof(first), "%s", path_for(GRAPH));
	write_file(first, GRAPH);
	assert_int_equal(line_4(g, first, &l), 0);
	for (unsigned i = 0; i < 2 * GENERATED_FILES_MAX; i++) {
		const char *path;

		snprintf(text, sizeof(text), "%s# %u\n", GRAPH, i);
		path = path_for(text);
		write_file(path, text);
		assert_int_equal(line_4(g, path, &l), 0);
		assert_int_equal(line_4(g, first, &l), 0);
		assert_int_equal(line_4(g, path, &l), 0);
		unlink(path);
	}
	assert_int_equal(reads, 2 * GENERATED_FILES_MAX + 1);
	assert_int_equal(generated_files__counts(g).dropped, GENERATED_FILES_MAX + 1);
	assert_int_equal(line_4(g, path_for(text), &l), 0);	/* the last is there */
	assert_int_equal(line_4(g, path_for(GRAPH "# 1\n"), &l), -ENOLINK); /* the first went, and its file with it */
	generated_files__free(g);
	generated_files__free(NULL);
	unlink(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_those_of_the_standard),
		cmocka_unit_test(names_say_what_is_in_a_file),
		cmocka_unit_test(a_file_is_read_once),
		cmocka_unit_test(what_is_edited_says_nothing),
		cmocka_unit_test(a_kernels_file_is_no_graph),
		cmocka_unit_test(only_files_are_read),
		cmocka_unit_test(links_on_the_way_are_followed),
		cmocka_unit_test(who_may_not_read_it_does_not),
		cmocka_unit_test(failures_are_not_tried_all_the_time),
		cmocka_unit_test(reading_has_its_part_of_the_time),
		cmocka_unit_test(the_oldest_goes),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
