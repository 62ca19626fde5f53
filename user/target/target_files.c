/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The files of a process in /proc, and what it means when one cannot be read. Called by the other files of target.h.
 *
 * They are read through one descriptor of /proc/PID, or checked by it, which stays bound to that very process: when it ends and
 * its number is reused, reads fail with ESRCH instead of returning another process's data. Only the paths passed to the kernel
 * contain the number.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "target/proc_io.h"
#include "target/target_state.h"

int target__no_such(pid_t pid, struct err *err)
{
	err_set(err, -ESRCH, "no process %d", (int)pid);
	return err_hint(err, "it may have ended; memtrace ps lists the processes with PyTorch"), -ESRCH;
}

int target__fail(const struct target *t, int r, const char *what, struct err *err)
{
	if (r == -ESRCH || r == -ENOENT)
		return target__no_such(t->pid, err);
	err_set(err, r, "reading /proc/%d/%s: %s", (int)t->pid, what, strerror(-r));
	if ((r == -EACCES || r == -EPERM) && geteuid())
		err_hint(err, "run memtrace as root (sudo)");
	else if (r == -EACCES || r == -EPERM)
		err_hint(err, "this process is protected even from root (a security module, or more rights than ours)");
	return r;
}

/* Has the process of the descriptor ended? Then its number may be another's. */
static int target__is_other(const struct target *t)
{
	return t->dirfd >= 0 && faccessat(t->dirfd, "stat", F_OK, 0) < 0;
}

static int target__read_text(const struct target *t, enum door_file which, size_t cap, char **ret, size_t *ret_len)
{
	char *text = malloc(cap + 1);
	size_t len;
	int r = text ? door_text(t->pid, which, text, cap, &len) : -ENOMEM;

	if (!r && target__is_other(t))
		r = -ESRCH;
	if (r < 0) {
		free(text);
		return r;
	}
	text[len] = '\0';
	*ret = text;
	*ret_len = len;
	return 0;
}

/*
 * A file of the process, through our descriptor of /proc/PID if everybody may read it, else through the door, by its number: if
 * the descriptor still leads to a process afterwards, the number was its own all the while. Where /proc hides the process from
 * us there is no descriptor: target__alive compares the start time.
 */
int target__read_file(const struct target *t, enum door_file which, size_t cap, char **ret, size_t *ret_len)
{
	int fd, r;

	if (DOOR_IS_TEXT(which))
		return target__read_text(t, which, cap, ret, ret_len);
	if (t->dirfd >= 0 && DOOR_OPEN_TO_ALL(which))
		return proc_read(t->dirfd, door_file_name(which), cap, ret, ret_len);
	fd = door_file(t->pid, which);
	if (fd < 0)
		return fd;
	if (target__is_other(t))
		r = -ESRCH;
	else
		r = proc_read_fd(fd, cap, ret, ret_len);
	close(fd);
	return r;
}

int target__stat(const struct target *t, struct proc_stat *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_STAT, 4096, &text, &len);

	if (r == 0) {
		r = proc_stat_parse(text, len, ret);
		free(text);
	}
	if (r == 0 && (ret->state == 'Z' || ret->state == 'X') && ret->threads <= 1)
		r = -ESRCH;
	return r == -ENOENT ? -ESRCH : r;
}

int target__alive(const struct target *t)
{
	struct proc_stat st;

	return target__stat(t, &st) == 0 && st.start_ticks == t->stat.start_ticks;
}
