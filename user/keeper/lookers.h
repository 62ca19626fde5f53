/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lookers: threads that answer requests of looks, one at a time. Private to keeper/.
 *
 * A process may hold up a look at it for as long as it likes: its memory may be a file of its own file system (FUSE), or wait
 * for its own action (userfaultfd), and a thread that waits for such a page cannot be interrupted. So one that takes too long
 * is left behind, its request gets -ETIMEDOUT, and another thread takes its place. That process is not looked at again while
 * that thread waits; a late result is discarded.
 *
 * There are LOOK_LEFT_MAX places for such threads, of which the processes of one tree, also those that have ended, have a
 * quarter of what the others leave (base/quota.h): a process that forks and holds up a reader with each child leaves room.
 */
#ifndef MT_KEEPER_LOOKERS_H
#define MT_KEEPER_LOOKERS_H

#include <stdint.h>
#include <sys/types.h>

struct keep;

#define LOOK_READ_NS 300000000ull /* a read of at most 1 MiB takes 0.2 ms, the sums of 1.5 GiB of pages 25 ms */
#define LOOK_NS 5000000000ull	  /* a library's file may be on a network disk */
#define LOOK_BUSY_TIMES 10	  /* … of these, on a machine where the thread gets no CPU */
#define LOOK_LEFT_MAX 32	  /* then no process is looked at any more */
#define LOOK_LEFT_PART 4

/* Starts its own threads, which run until the other half is gone. Once per process. 0 or -errno. */
int lookers_start(struct keep *k);
/* Does a thread of ours run, or wait only for a CPU? Then no process holds it up, and it has more time (LOOK_BUSY_TIMES). */
int thread_is_runnable(pid_t tid);

#endif
