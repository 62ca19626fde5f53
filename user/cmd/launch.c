/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

static void child_run(char *const *argv, int report_fd)
{
	sigset_t none;
	int e;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	if (!ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		execvp(argv[0], argv);
	e = errno;
	(void)!write(report_fd, &e, sizeof(e));
	_exit(127);
}

int launch_stopped(char *const *argv, pid_t *ret, struct err *err)
{
	int fds[2], status, e = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0) {
		e = errno;
		close(fds[0]);
		close(fds[1]);
		return err_set(err, -e, "fork: %s", strerror(e));
	}
	if (!pid)
		child_run(argv, fds[1]);
	close(fds[1]);
	if (read(fds[0], &e, sizeof(e)) != sizeof(e))
		e = 0; /* closed by the exec */
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
		e = e ? e : ECHILD;
		err_set(err, -e, "cannot start '%s': %s", argv[0], strerror(e));
		return err_hint(err, "memtrace record -- COMMAND ARGS…: is the command in PATH?");
	}
	*ret = pid;
	return 0;
}

int launch_continue(pid_t pid, int r, struct err *err)
{
	if (r >= 0 && ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		r = err_set(err, -errno, "starting the command: %s", strerror(errno));
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return r;
}
