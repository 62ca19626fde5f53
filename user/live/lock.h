/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lock: one memtrace a process. Two would each slow the job and each count the other's probes' time.
 *
 * A file with flock in a directory that only its owner can write to: /run/memtrace for root. The lock ends with its holder,
 * however that ends; no other user can take it, or keep us from taking it. A user with capabilities has a directory of his own;
 * between his memtrace and root's, the later one learns of the other from the kernel's list of probes (trace/others.h).
 *
 * No place that both could lock is safe: what one user may create, any user may create first (files in /tmp; abstract sockets,
 * which are also one per network namespace), and so keep others from tracing.
 */
#ifndef MT_LIVE_LOCK_H
#define MT_LIVE_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#define LOCK_WAIT_NS 5000000000ull /* for another memtrace that is just ending: its probes are removed in a second or two */

struct err;

/*
 * start_ns: when the process was started (target__start_ns). Waits at most this long, with a message after a second; without a
 * wait, other users' memtraces are not looked for. -EBUSY (with a hint) when another memtrace has the lock. Closing *ret_fd
 * releases it; -1: there was no directory for it.
 */
int lock_take(pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err);
/* Does a memtrace whose directory we may read hold its lock? From the kernel's list of locks: no lock is taken. */
int lock_is_held(pid_t pid, uint64_t start_ns);
/* The same in that directory, for tests. -EPERM: another user could put files there. */
int lock_dir_open(const char *path);
int lock_take_in(int dir_fd, pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err);

#endif
