/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * kin: which process is whose child, from /proc/PID/stat, which everybody may read. Used to follow children (live/follow.c) and
 * to decide for which processes requests are allowed (keeper/wards.c).
 */
#ifndef MT_TARGET_KIN_H
#define MT_TARGET_KIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Each process that /proc shows, as of now, until fn returns other than 0, which is returned; or -errno. */
int processes_each(int (*fn)(void *ctx, pid_t pid), void *ctx);
/* Every process and its parent, as of now: how many, or -errno; *ret is malloc'ed, the caller frees it. */
struct proc_kin {
	pid_t pid, ppid;
};
int processes_read(struct proc_kin **ret);
/*
 * The children of a process (all descendants if deep), except those that an earlier call with this table has found; -ENOMEM or
 * count; *ret is malloc'ed, the caller frees it.
 */
int processes_below(struct proc_kin *all, size_t cnt, pid_t pid, int deep, pid_t **ret);

/* A process's parent (or the one that adopted it) and start time: with our own rights. 0, -ESRCH or another -errno. */
int process_origin(pid_t pid, pid_t *ret_ppid, uint64_t *ret_start_ns);

#endif
