/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Whose the files are, what they replace, and what is left when nothing comes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"
#include "base/outfile.h"

#define THEIRS 54321
#define OTHERS 54399

static char dir[] = "/tmp/memtrace-outfile-XXXXXX";
static char path[128], other[128];
static const struct asker them = { .uid = THEIRS, .gid = THEIRS, .groups = { THEIRS }, .groups_cnt = 1, .is_other = 1 };
static const struct outfile_how plain, force = { .force = 1 };
static const struct outfile_how theirs = { .asker = &them }, theirs_force = { .asker = &them, .force = 1 };

static int set_up(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "%s/out", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	return 0;
}

static int files_cnt(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int cnt = 0;

	while ((e = readdir(d)))
		cnt += e->d_name[0] != '.';
	closedir(d);
	return cnt;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	(void)!chown(dir, geteuid(), getegid());
	chmod(dir, 0700);
	return files_cnt() ? -1 : 0;
}

static int make_dir(void **state)
{
	(void)state;
	umask(0); /* the mode must not hang on it */
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void spill(const char *at, const char *text)
{
	FILE *f = fopen(at, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void holds(const char *at, const char *text)
{
	char got[64] = "";
	FILE *f = fopen(at, "r");

	assert_non_null(f);
	(void)!fread(got, 1, sizeof(got) - 1, f);
	fclose(f);
	assert_string_equal(got, text);
}

static struct stat stat_of(const char *at)
{
	struct stat st;

	assert_int_equal(lstat(at, &st), 0);
	return st;
}

static struct outfile opened(enum outfile_kind kind, const struct outfile_how *how)
{
	struct err err = { 0 };
	struct outfile f;

	if (outfile__open(&f, path, kind, how, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(write(f.fd, "new", 3), 3);
	return f;
}

static void refused(const char *at, const struct outfile_how *how, int code)
{
	struct outfile f = { .fd = 77 };
	struct err err = { 0 };

	for (enum outfile_kind kind = OUTFILE_WHOLE; kind <= OUTFILE_GROWING; kind++) {
		assert_int_equal(outfile__open(&f, at, kind, how, &err), code);
		assert_int_equal(f.fd, 77);
		assert_true(err.msg[0] != '\0');
	}
}

static void whole_files_appear_when_they_are(void **state)
{
	(void)state;
	for (enum outfile_kind kind = OUTFILE_WHOLE; kind <= OUTFILE_NAMED; kind++) {
		struct outfile f = opened(kind, &plain);

		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(files_cnt(), kind == OUTFILE_NAMED);
		if (kind == OUTFILE_NAMED)
			holds(f.part, "new");
		assert_int_equal(outfile__finish(&f, NULL), 0);
		assert_int_equal(f.fd, -1);
		holds(path, "new");
		assert_int_equal(stat_of(path).st_mode & 07777, 0600);
		assert_int_equal(files_cnt(), 1);
		f = opened(kind, &force);
		holds(path, "new");
		outfile__drop(&f);
		assert_int_equal(files_cnt(), 1);
		unlink(path);
	}
}

static void what_is_there_stays(void **state)
{
	struct err err = { 0 };
	struct outfile f;

	(void)state;
	spill(path, "old");
	refused(path, &plain, -EEXIST);
	assert_int_equal(outfile__open(&f, path, OUTFILE_WHOLE, &plain, &err), -EEXIST);
	assert_non_null(strstr(err.hint, "--force"));
	for (enum outfile_kind kind = OUTFILE_WHOLE; kind <= OUTFILE_GROWING; kind++) {
		f = opened(kind, &force);
		holds(path, "old");
		outfile__drop(&f); /* it came to nothing */
		holds(path, "old");
	}
	/* it came meanwhile */
	unlink(path);
	for (enum outfile_kind kind = OUTFILE_WHOLE; kind <= OUTFILE_NAMED; kind++) {
		f = opened(kind, &plain);
		spill(path, "theirs");
		assert_int_equal(outfile__finish(&f, &err), -EEXIST);
		holds(path, "theirs");
		unlink(path);
	}
}

static void growing_files_have_their_name_at_once(void **state)
{
	struct outfile f = opened(OUTFILE_GROWING, &plain);
	struct outfile g;

	(void)state;
	holds(path, "new");
	refused(path, &force, -EBUSY); /* somebody writes it */
	outfile__drop(&f);
	assert_int_equal(access(path, F_OK), -1);
	spill(path, "old");
	assert_int_equal(link(path, other), 0);
	g = opened(OUTFILE_GROWING, &force);
	assert_int_equal(outfile__show(&g, NULL), 0);
	holds(path, "new");
	holds(other, "old"); /* another name of the old file: it is not written to */
	assert_int_equal(outfile__finish(&g, NULL), 0);
	assert_int_equal(stat_of(path).st_mode & 07777, 0600);
}

static void not_through_links(void **state)
{
	(void)state;
	spill(other, "old");
	assert_int_equal(symlink(other, path), 0);
	refused(path, &plain, -ELOOP);
	refused(path, &force, -ELOOP);
	unlink(other);
	refused(path, &force, -ELOOP); /* nor to make a file where it points to */
	assert_int_equal(access(other, F_OK), -1);
}

static void other_things(void **state)
{
	char at[160];
	struct outfile f;
	int fds[2];
	char c;

	(void)state;
	refused(dir, &force, -EISDIR);
	snprintf(at, sizeof(at), "%s/", dir);
	refused(at, &force, -EISDIR);
	refused("/nonexistent/x", &force, -ENOENT);
	assert_int_equal(outfile__open(&f, "/dev/null", OUTFILE_WHOLE, &plain, NULL), 0);
	assert_true(f.is_stream);
	assert_int_equal(write(f.fd, "x", 1), 1);
	assert_int_equal(outfile__finish(&f, NULL), 0);
	assert_int_equal(access("/dev/null", F_OK), 0);
	assert_int_equal(pipe(fds), 0);
	snprintf(at, sizeof(at), "/dev/fd/%d", fds[1]);
	assert_int_equal(outfile__open(&f, at, OUTFILE_WHOLE, &plain, NULL), 0);
	assert_true(f.is_stream);
	assert_int_equal(write(f.fd, "x", 1), 1);
	outfile__drop(&f);
	assert_int_equal(read(fds[0], &c, 1), 1);
	close(fds[0]);
	close(fds[1]);
	snprintf(at, sizeof(at), "/dev/fd/%d", fds[1]);
	refused(at, &plain, -EBADF);
}

static void need_root(void)
{
	if (geteuid())
		skip();
}

static void it_belongs_to_who_asked(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(chown(dir, THEIRS, THEIRS), 0);
	for (enum outfile_kind kind = OUTFILE_WHOLE; kind <= OUTFILE_GROWING; kind++) {
		struct outfile f = opened(kind, &theirs);
		struct stat st;

		assert_int_equal(outfile__finish(&f, NULL), 0);
		st = stat_of(path);
		assert_int_equal(st.st_uid, THEIRS);
		assert_int_equal(st.st_gid, THEIRS);
		assert_int_equal(st.st_mode & 07777, 0600);
		unlink(path);
	}
	assert_int_equal(access("/etc/shadow", R_OK), 0); /* we are who we were */
}

/* What root may write and the asker may not. */
static void not_with_roots_rights(void **state)
{
	gid_t root_group[] = { 0 };

	(void)state;
	need_root();
	assert_int_equal(setgroups(1, root_group), 0);
	refused(path, &theirs, -EACCES); /* a directory of root's */
	assert_int_equal(chmod(dir, 0770), 0);
	refused(path, &theirs, -EACCES); /* nor by root's groups */
	assert_int_equal(chown(dir, THEIRS, THEIRS), 0);
	spill(path, "root's");
	assert_int_equal(chmod(path, 0644), 0);
	refused(path, &theirs_force, -EACCES);
	assert_int_equal(chown(path, OTHERS, OTHERS), 0);
	refused(path, &theirs_force, -EACCES);
	holds(path, "root's");
	assert_int_equal(chown(path, THEIRS, OTHERS), 0);
	struct outfile f = opened(OUTFILE_WHOLE, &theirs_force);
	assert_int_equal(outfile__finish(&f, NULL), 0);
	holds(path, "new");
}

static int finish_without_rights(void)
{
	struct outfile f, g;

	if (outfile__open(&f, path, OUTFILE_WHOLE, &plain, NULL) < 0 || outfile__lend(&f, NULL) < 0)
		return 1;
	if (outfile__open(&g, other, OUTFILE_NAMED, &plain, NULL) < 0 || outfile__lend(&g, NULL) < 0)
		return 2;
	if (setresgid(OTHERS, OTHERS, OTHERS) < 0 || setresuid(OTHERS, OTHERS, OTHERS) < 0 || !access(dir, W_OK))
		return 3;
	if (write(f.fd, "new", 3) != 3 || outfile__finish(&f, NULL) < 0)
		return 4;
	_exit(0); /* g: whoever is killed says nothing */
}

static void lent_files_are_named_by_who_has_the_rights(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	need_root();
	assert_int_equal(chown(dir, THEIRS, THEIRS), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	pid = fork();
	if (!pid)
		_exit(finish_without_rights());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	holds(path, "new");
	for (int i = 0; i < 500 && files_cnt() != 1; i++)
		usleep(10000);
	assert_int_equal(files_cnt(), 1);
}

static void room_is(const char *name, const char *want)
{
	char *room = outfile_room(name);

	if (want)
		assert_string_equal(room, want);
	else
		assert_null(room);
	free(room);
}

/* Not all of /dev, because something goes to /dev/null. */
static void no_more_room_than_it_takes(void **state)
{
	char folder[140];

	(void)state;
	snprintf(folder, sizeof(folder), "%s/", dir);
	room_is(path, folder);
	room_is("out", ".");
	room_is("/out", "/");
	room_is("/dev/null", "/dev/null");
	room_is("/dev/stdout", NULL);
	room_is(dir, NULL);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	room_is(path, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole_files_appear_when_they_are, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_there_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(growing_files_have_their_name_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_through_links, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_things, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_belongs_to_who_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_with_roots_rights, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_more_room_than_it_takes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lent_files_are_named_by_who_has_the_rights, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
