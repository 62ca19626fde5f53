/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lock: one memtrace a process. Two would each slow the job and each count the other's probes' time.
 *
 * A file with flock in a directory that only its owner can write to: /run/memtrace for root. The lock is gone with its
 * holder, however that ends; no other user can take it, or keep us from taking it. A user with capabilities has a directory
 * of his own; of his memtrace and root's the later one is told by the kernel's list of probes (trace/others.h).
 *
 * No place that both could lock is sound: what a user may create, every user may create first (files in /tmp, abstract sockets,
 * which are one to each network namespace besides), and so keep others from tracing.
 */
#ifndef MT_LIVE_LOCK_H
#define MT_LIVE_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#define LOCK_WAIT_NS 5000000000ull /* another one that is just ending: probes are taken away in a second or two */

struct err;

/*
 * start_ns: when the process was started (target__start_ns). Waits so long at most, and says so when it takes a second; with
 * none to wait, other users' memtraces are not looked for. -EBUSY (with a hint) when another memtrace has it. Closing *ret_fd
 * gives it back; -1: there was no directory to have one in.
 */
int lock_take(pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err);
/* Has any memtrace it whose directory we may look into? By the kernel's list of locks: nothing is taken, nobody is held up. */
int lock_is_held(pid_t pid, uint64_t start_ns);
/* The same in that directory, for tests. -EPERM: somebody else could put files there. */
int lock_dir_open(const char *path);
int lock_take_in(int dir_fd, pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err);

#endif
