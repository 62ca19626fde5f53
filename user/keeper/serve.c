/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Two loops, one a channel (lookers.h has the other): a look at a process must not wait for an attach that takes a second. What
 * both touch are the files that were handed out, under a lock.
 *
 * Signals of the terminal go to both halves; here they are ignored, because the other half ends in order and this one with
 * it. When the other half is gone, its end of the socket is, too: then the probes are taken away in order, with the rests that
 * the job is owed. No signal tells it: that is for those who kill it (trace/covers.h).
 */
#include "keeper/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "keeper/lookers.h"
#include "target/door.h"

#define ORPHAN_S 3 /* taking 3,650 probes away in order takes one or two */

/* --- who may be looked at ---------------------------------------------------------------------- */

/* Effective capabilities of this thread off; *was: to bring them back. */
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

int keep__may(const struct keep *k, pid_t pid)
{
	struct __user_cap_data_struct was[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_header_struct head;
	int fd, r;

	if (pid <= 0)
		return -ESRCH;
	if (!k->checks)
		return 0;
	r = caps_off(&head, was);
	if (r < 0)
		return r;
	fd = door_own.file(NULL, pid, DOOR_MAPS); /* PTRACE_MODE_READ: same user, and no more rights than the caller has */
	if (syscall(SYS_capset, &head, was) < 0)
		_exit(1);
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : fd == -EACCES ? -EPERM : fd;
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

/* --- the loop ------------------------------------------------------------------------------------- */

static void probes_loop(struct keep *k)
{
	struct keep_request q;
	struct keep_reply reply;
	int fds[TAPS_FDS_MAX], to_close;

	while (channel__get_request(&k->probes, &q) == 1) {
		memset(&reply, 0, sizeof(reply));
		to_close = 1;
		keep__probes(k, &q, &reply, fds, &to_close);
		if (channel__put_reply(&k->probes, &reply, fds) < 0)
			break;
		for (uint32_t i = 0; to_close && i < reply.fds_cnt; i++)
			close(fds[i]);
	}
}

void keep__serve(struct keep *k)
{
	pthread_mutex_init(&k->libs.lock, NULL);
	if (lookers_start(k) < 0)
		_exit(1);
	probes_loop(k);
	if (k->at_end)
		k->at_end(k->end_ctx);
	alarm(ORPHAN_S); /* whatever holds it up: no probe outlives memtrace for long */
	tracer__free(k->tracer); /* waits until all are gone */
	_exit(0);
}
