/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Which processes the loops may look at, checked before and after each look; files that were handed out, under a lock. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "keeper/serve.h"
#include "target/door.h"

/* --- permission to look ------------------------------------------------------------------------ */

/* Clears this thread's effective capabilities; *was: to restore them. */
static int caps_off(struct __user_cap_header_struct *head, struct __user_cap_data_struct was[_LINUX_CAPABILITY_U32S_3])
{
	struct __user_cap_data_struct off[_LINUX_CAPABILITY_U32S_3];

	*head = (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
	if (syscall(SYS_capget, head, was) < 0)
		return -errno;
	memcpy(off, was, sizeof(off));
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		off[i].effective = 0;
	return syscall(SYS_capset, head, off) < 0 ? -errno : 0;
}

/* May the caller of memtrace look at it? PTRACE_MODE_READ: the same user, and no more rights than the caller has. */
static int may_look(pid_t pid)
{
	struct __user_cap_data_struct was[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_header_struct head;
	int fd, r;

	r = caps_off(&head, was);
	if (r < 0)
		return r;
	fd = door_own.file(NULL, pid, DOOR_MAPS);
	if (syscall(SYS_capset, &head, was) < 0)
		_exit(1);
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : fd == -EACCES ? -EPERM : fd;
}

static int keep__may(const struct keep *k, const struct keep_hold *h)
{
	int r = h->fd >= 0 ? wards__check(k->wards, h->pid, h->fd) : wards__knows(k->wards, h->pid) ? 0 : -ESRCH;

	return !r && k->checks ? may_look(h->pid) : r;
}

int keep_refused(struct err *err, pid_t pid, int r)
{
	if (r == -ESRCH)
		return err_set(err, r, "process %d has ended", (int)pid);
	return err_set(err, r, "process %d may not be traced by you: %s", (int)pid, strerror(-r));
}

int keep__hold(const struct keep *k, const struct keep_request *q, struct keep_hold *ret)
{
	struct keep_hold h = { q->pid, -1 };
	int r;

	if (q->pid > 0 && !(q->op == KEEP_READ && wards__knows(k->wards, q->pid))) {
		h.fd = (int)syscall(SYS_pidfd_open, q->pid, 0);
		if (h.fd < 0)
			return -ESRCH; /* or it is a thread */
	}
	r = keep__may(k, &h);
	if (!r)
		*ret = h;
	else if (h.fd >= 0)
		close(h.fd);
	return r;
}

int keep__release(const struct keep *k, struct keep_hold *h, int may_be_dead)
{
	struct pollfd p = { .fd = h->fd, .events = POLLIN };
	int r = keep__may(k, h);

	if (!r && !may_be_dead && h->fd >= 0 && poll(&p, 1, 0) != 0)
		r = -ESRCH;
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	return r;
}

/* --- files that were handed out ---------------------------------------------------------------- */

void kept_libs__add(struct kept_libs *l, uint64_t dev, uint64_t ino, int fd)
{
	struct kept_lib *at = NULL;
	int copy;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->cnt && !at; i++)
		if (l->v[i].dev == dev && l->v[i].ino == ino)
			at = &l->v[i];
	copy = at ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy >= 0) {
		at = &l->v[l->next];
		if (l->cnt == KEEP_LIBS_MAX)
			close(at->fd);
		else
			l->cnt++;
		l->next = (l->next + 1) % KEEP_LIBS_MAX;
		*at = (struct kept_lib){ dev, ino, copy };
	}
	pthread_mutex_unlock(&l->lock);
}

int kept_libs__get(struct kept_libs *l, uint64_t dev, uint64_t ino)
{
	int r = -ESTALE;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->cnt; i++)
		if (l->v[i].dev == dev && l->v[i].ino == ino) {
			r = fcntl(l->v[i].fd, F_DUPFD_CLOEXEC, 3);
			r = r < 0 ? -errno : r;
			break;
		}
	pthread_mutex_unlock(&l->lock);
	return r;
}
