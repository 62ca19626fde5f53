/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"

static void env_put(const char *name, const char *value)
{
	if (value)
		(void)setenv(name, value, 1);
	else
		(void)unsetenv(name);
}

/* sudo set root's home and name for us. The command belongs to the user, as if started without sudo. */
static void child_environ(const struct asker *as)
{
	const struct passwd *pw = getpwuid(as->uid);

	if (!as->is_other)
		return;
	env_put("HOME", pw ? pw->pw_dir : "/");
	env_put("USER", pw ? pw->pw_name : NULL);
	env_put("LOGNAME", pw ? pw->pw_name : NULL);
	env_put("SHELL", pw && pw->pw_shell[0] ? pw->pw_shell : "/bin/sh");
	env_put("MAIL", NULL);
	env_put("SUDO_USER", NULL);
	env_put("SUDO_UID", NULL);
	env_put("SUDO_GID", NULL);
	env_put("SUDO_COMMAND", NULL);
}

static void child_run(char *const *argv, const struct asker *as, int report_fd)
{
	struct err err = { 0 };
	int e;

	child_environ(as);
	e = -asker__become(as, &err);
	if (!e && !ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		execvp(argv[0], argv);
	e = e ? e : errno;
	(void)!write(report_fd, &e, sizeof(e));
	_exit(127);
}

int launch_user(const char *user, struct asker *ret, struct err *err)
{
	int r;

	if (!user) {
		asker__find(ret);
		return 0;
	}
	r = asker__of(ret, user, err);
	if (r < 0 || !geteuid() || ret->uid == getuid())
		return r;
	err_set(err, -EPERM, "only root can run a command as another user (--user %.60s)", user);
	return err_hint(err, "run it with sudo");
}

static int start_error(const char *command, const struct asker *as, int e, struct err *err)
{
	err_set(err, -e, "cannot start '%s': %s", command, strerror(e));
	if (e != ENOENT && as->is_other)
		return err_hint(err, "it runs as user %u, not as root: choose another with --user NAME", (unsigned)as->uid);
	return err_hint(err, "memtrace record -- COMMAND ARGS…: is the command in PATH?");
}

int launch_stopped(char *const *argv, const struct asker *as, pid_t *ret, struct err *err)
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
		child_run(argv, as, fds[1]);
	close(fds[1]);
	if (read(fds[0], &e, sizeof(e)) != sizeof(e))
		e = 0; /* closed by the exec */
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return start_error(argv[0], as, e ? e : ECHILD, err);
	*ret = pid;
	return 0;
}

int launch_continue(pid_t pid, int r, struct err *err)
{
	if (r >= 0 && ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		r = err_set(err, -errno, "starting the command: %s", strerror(errno));
	if (r < 0) {
		/* A tracer may send its command a signal, whatever user the command runs as. */
		(void)ptrace(PTRACE_CONT, pid, NULL, SIGKILL);
		(void)kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return r;
}

int launch_ended(pid_t pid)
{
	int status;

	return waitpid(pid, &status, WNOHANG) == pid ? status : 0;
}
