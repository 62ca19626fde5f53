/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Small programs and libraries, compiled while the test runs into a directory of its own, and processes
 * started from them. A test whose fixture cannot be built fails: it does not pass by skipping.
 */
#ifndef MT_TESTS_FIXTURE_H
#define MT_TESTS_FIXTURE_H

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char fixture_dir[64];

__attribute__((unused)) static int fixture_setup(void **state)
{
	(void)state;
	strcpy(fixture_dir, "/tmp/memtrace-test-XXXXXX");
	return mkdtemp(fixture_dir) ? 0 : -1;
}

static int fixture_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

__attribute__((unused)) static int fixture_teardown(void **state)
{
	(void)state;
	return nftw(fixture_dir, fixture_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Path of a file in the directory; the buffer is reused at the fourth call. */
static const char *fixture_path(const char *name)
{
	static char bufs[4][256];
	static int at;

	at = (at + 1) % 4;
	snprintf(bufs[at], sizeof(bufs[at]), "%s/%s", fixture_dir, name);
	return bufs[at];
}

/* Compiles C text; include/ of the repository is searched (tests run from its root). */
__attribute__((unused)) static const char *fixture_build(const char *name, const char *flags,
							 const char *source)
{
	char cmd[1024];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "${CC:-cc} -x c -O1 -w -Iinclude -o %s/%s - %s", fixture_dir, name,
		 flags);
	f = popen(cmd, "w");
	if (!f || fputs(source, f) < 0 || pclose(f) != 0) {
		fprintf(stderr, "fixture: failed: %s\n", cmd);
		abort();
	}
	return fixture_path(name);
}

/*
 * Runs a program with an environment ("A=1", …, NULL) and waits until it has written a byte on stdout:
 * it is past its start-up then.
 */
__attribute__((unused)) static pid_t fixture_start(const char *path, char *const envp[])
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		char *argv[] = { (char *)path, (char *)"two words", (char *)"\033[31m", NULL };

		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		execve(path, argv, envp);
		_exit(127);
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], &c, 1) != 1)
		abort();
	close(fds[0]);
	return pid;
}

__attribute__((unused)) static void fixture_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A program that says it is there and waits; `more` is code of main before that. */
#define FIXTURE_WAITS(more)                                                                                \
	"#include <stdlib.h>\n#include <unistd.h>\nint main(void)\n{\n" more                               \
	"\tfree(malloc(10));\n\twrite(1, \"x\", 1);\n\tfor (;;)\n\t\tpause();\n}\n"

#endif
