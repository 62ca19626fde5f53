/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * catching: when to look, without a request, for the source line that allocates what grows: for a moment the Python stacks of
 * allocations like it are taken (struct mt_catch of memtrace/shared.h), as EV_CAUGHT. No stack is taken where nothing grows, or
 * where enough is known (model__wanted).
 *
 * Moments last MOMENT_NS at most and begin 2, 4, 8 … seconds apart, and only while allocations are traced: between windows of
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
	pid_t pid; /* 0: free */
	uint64_t next_ns, gap_ns;
	uint64_t until_ns; /* 0: nothing is being caught */
};

struct catching {
	int is_on;
	const struct followed *followed;
	struct keeper *keeper;
	struct stream *stream;
	struct catch_proc procs[MT_CATCH_PROCS_MAX]; /* processes that come later find no place */
};

/* Once a second, and when a window of sampling begins. is_traced: allocations are traced now. */
void catching__turn(struct catching *c, int is_traced, uint64_t turn_ns);

#endif
