/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/lock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

int lock_take(pid_t pid, int *ret_fd, struct err *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), n, e;
	socklen_t len = offsetof(struct sockaddr_un, sun_path);

	if (fd < 0)
		return err_set(err, -errno, "socket: %s", strerror(errno));
	n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "memtrace/%d", (int)pid);
	if (bind(fd, (struct sockaddr *)&a, len + 1 + (socklen_t)n) < 0) {
		e = errno;
		close(fd);
		if (e != EADDRINUSE)
			return err_set(err, -e, "locking process %d: %s", (int)pid, strerror(e));
		err_set(err, -EBUSY, "process %d is already being traced by another memtrace", (int)pid);
		return err_hint(err, "stop that one first: two would slow the job twice");
	}
	*ret_fd = fd;
	return 0;
}
