/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lookers: who answers requests of looks, one thread at a time. Private to keeper/.
 *
 * A process may hold up who looks at it for as long as it likes: its memory may be a file of a file system of its own
 * (FUSE), or wait for its own hand (userfaultfd), and a thread that waits for such a page cannot be called back. So one that
 * takes too long is left behind, its request gets -ETIMEDOUT, and another thread takes its place. That process is not looked
 * at again as long as the one that was left waits; what that has to say at last is nobody's.
 *
 * There are LOOK_LEFT_MAX places for such threads, of which the processes of one tree, also those that have ended, have a
 * quarter of what the others leave (base/quota.h): one that forks and holds up a reader with each child leaves room for others.
 */
#ifndef MT_KEEPER_LOOKERS_H
#define MT_KEEPER_LOOKERS_H

#include <stdint.h>
#include <sys/types.h>

struct keep;

#define LOOK_READ_NS 300000000ull /* a read of at most 1 MiB takes 0.2 ms, the sums of 1.5 GiB of pages 25 ms */
#define LOOK_NS 5000000000ull	  /* a file of a library may be on a network's disk */
#define LOOK_BUSY_TIMES 10	  /* … of these, on a machine where it gets no CPU */
#define LOOK_LEFT_MAX 32	  /* then no process is looked at any more */
#define LOOK_LEFT_PART 4

/* In threads of its own, until the other half is gone. Once in a process. 0 or -errno. */
int lookers_start(struct keep *k);
/* Does a thread of ours run, or wait for a CPU alone? What nobody holds up is not left behind for that (LOOK_BUSY_TIMES). */
int thread_is_runnable(pid_t tid);

#endif
