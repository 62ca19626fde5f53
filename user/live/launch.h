/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * launch: starts a command of the user's and holds it at its first instruction, so that probes can be set before it runs. Only
 * for commands that memtrace starts itself: a running target is never stopped.
 */
#ifndef MT_LIVE_LAUNCH_H
#define MT_LIVE_LAUNCH_H

#include <sys/types.h>

struct asker;
struct err;

/* The user to run the command: `user` (--user), or the caller where that is NULL. 0, -ENOENT or -EPERM with a hint. */
int launch_user(const char *user, struct asker *ret, struct err *err);
/*
 * argv as for execvp; `as` runs it: uid, groups, and HOME, USER, LOGNAME and SHELL where we are root for another user. Limits,
 * signals and priority are inherited from memtrace: call it before any of them is changed. 0, or -errno of fork or exec
 * (-ENOENT: no such command).
 */
int launch_stopped(char *const *argv, const struct asker *as, pid_t *ret, struct err *err);
/* Lets it run if r >= 0, else kills and reaps it. Returns r, or the error. */
int launch_continue(pid_t pid, int r, struct err *err);
/* Its wait status, once; 0: it still runs, was reaped before, or exited with 0. */
int launch_ended(pid_t pid);

#endif
