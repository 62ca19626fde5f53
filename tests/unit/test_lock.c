/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* One memtrace a process: who has a lock, how it is given back, and who cannot get between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "live/lock.h"

static char dir[] = "/tmp/memtrace-lock-XXXXXX";
static int dir_fd = -1;

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	dir_fd = lock_dir_open(dir);
	return dir_fd < 0;
}

static int tear_down(void **state)
{
	char cmd[64];

	(void)state;
	close(dir_fd);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static int take(uint64_t wait_ns, int *fd, struct err *err)
{
	return lock_take_in(dir_fd, getpid(), 1, wait_ns, fd, err);
}

static void one_at_a_time(void **state)
{
	struct err err = { 0 };
	char who[80];
	int a, b = -7;

	(void)state;
	assert_int_equal(take(0, &a, &err), 0);
	assert_int_equal(take(0, &b, &err), -EBUSY);
	assert_int_equal(b, -7);
	snprintf(who, sizeof(who), "already being traced by another memtrace (process %d)", (int)getpid());
	assert_non_null(strstr(err.msg, who));
	assert_true(err.hint[0] != '\0');
	assert_int_equal(lock_take_in(dir_fd, getppid(), 1, 0, &b, &err), 0); /* another process */
	close(b);
	close(a);
	assert_int_equal(take(0, &a, &err), 0);
	close(a);
}

/* A holder that is killed, while somebody waits. */
static void gone_with_its_holder(void **state)
{
	struct err err = { 0 };
	uint64_t begin;
	pid_t self = getpid(), pid;
	int fds[2], go[2], fd;
	char c;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid) {
		if (lock_take_in(dir_fd, self, 1, 0, &fd, NULL) == 0)
			(void)!write(fds[1], "x", 1);
		(void)!read(go[0], &c, 1);
		usleep(300000);
		raise(SIGKILL);
	}
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_int_equal(take(0, &fd, &err), -EBUSY);
	assert_int_equal(write(go[1], "x", 1), 1);
	begin = now_ns();
	assert_int_equal(take(LOCK_WAIT_NS, &fd, &err), 0);
	assert_true(now_ns() - begin < LOCK_WAIT_NS);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		close(go[i]);
	}
}

static void waits_so_long_and_no_longer(void **state)
{
	struct err err = { 0 };
	uint64_t begin;
	int a, b;

	(void)state;
	assert_int_equal(take(0, &a, &err), 0);
	begin = now_ns();
	assert_int_equal(take(200000000, &b, &err), -EBUSY);
	assert_in_range(now_ns() - begin, 200000000, 2000000000);
	close(a);
}

static void directories_of_others_are_not_used(void **state)
{
	char path[96], other[96];

	(void)state;
	snprintf(path, sizeof(path), "%s/link", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	assert_int_equal(mkdir(other, 0755), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_true(lock_dir_open(path) < 0);
	assert_int_equal(chmod(other, 0777), 0);
	assert_int_equal(lock_dir_open(other), -EPERM);
	assert_int_equal(chmod(other, 0775), 0);
	assert_int_equal(lock_dir_open(other), -EPERM);
	assert_int_equal(chmod(other, 0755), 0);
	if (!geteuid()) {
		assert_int_equal(chown(other, 54321, 0), 0);
		assert_int_equal(lock_dir_open(other), -EPERM);
	}
	assert_true(lock_dir_open("/nonexistent/x") < 0);
}

/* An unprivileged user tries all that there is to try. */
static int squat(void)
{
	char path[96];
	DIR *d;
	struct dirent *e;

	if (setgid(54321) < 0 || setuid(54321) < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/mine", dir);
	if (open(path, O_RDWR | O_CREAT, 0666) >= 0)
		return 2;
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%.60s", dir, e->d_name);
		if (!strncmp(e->d_name, "process-", 8) && open(path, O_RDONLY) >= 0)
			return 3;
	}
	return d ? 0 : 4;
}

static void nobody_else_can_hold_one(void **state)
{
	int fd, status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(take(0, &fd, NULL), 0);
	close(fd);
	assert_int_equal(chmod(dir, 0755), 0);
	pid = fork();
	if (!pid)
		_exit(squat());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(take(0, &fd, NULL), 0);
	close(fd);
}

/* Root's umask is 077 on many a machine; in /run/memtrace are sockets of others, too. */
static void everybody_may_pass(void **state)
{
	char path[64];
	mode_t was;
	struct stat st;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/new", dir);
	was = umask(077);
	fd = lock_dir_open(path);
	umask(was);
	assert_true(fd >= 0 && !fstat(fd, &st));
	assert_int_equal(st.st_mode & 0777, 0755);
	close(fd);
	rmdir(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(gone_with_its_holder),
		cmocka_unit_test(waits_so_long_and_no_longer),
		cmocka_unit_test(directories_of_others_are_not_used),
		cmocka_unit_test(nobody_else_can_hold_one),
		cmocka_unit_test(everybody_may_pass),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
