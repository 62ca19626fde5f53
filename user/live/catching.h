/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * catching: when the line that makes what grows is looked for, without being asked: for a moment the Python stacks of
 * allocations that are like it are taken (struct mt_catch of memtrace/shared.h), as EV_CAUGHT. Where nothing grows no stack is
 * taken; where enough is known (model__wanted) none is taken any more.
 *
 * Moments are MOMENT_NS long at most, begin 2, 4, 8 … seconds apart, and only while allocations are traced: between windows of
 * sampling there is nothing to catch.
 */
#ifndef MT_LIVE_CATCHING_H
#define MT_LIVE_CATCHING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memtrace/shared.h"

struct followed;
struct keeper;
struct stream;

struct catch_proc {
	pid_t pid; /* 0: nobody */
	uint64_t next_ns, gap_ns;
	uint64_t until_ns; /* 0: nothing is caught now */
};

struct catching {
	int is_on;
	const struct followed *followed;
	struct keeper *keeper;
	struct stream *stream;
	struct catch_proc procs[MT_CATCH_PROCS_MAX]; /* of more processes those are left out that come later */
};

/* Once a second, and when a window of sampling begins. is_traced: allocations are, now. */
void catching__turn(struct catching *c, int is_traced, uint64_t turn_ns);

#endif
