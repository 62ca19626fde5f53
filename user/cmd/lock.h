/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lock: one memtrace a process. Two would each slow the job and each count the other's probes' time.
 * The lock is a name in the abstract socket namespace: gone with its holder, however that dies.
 */
#ifndef MT_CMD_LOCK_H
#define MT_CMD_LOCK_H

#include <sys/types.h>

struct err;

/* -EBUSY (with a hint) when another memtrace has it. Closing *ret_fd gives it back. */
int lock_take(pid_t pid, int *ret_fd, struct err *err);

#endif
