/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gpu_counters: the counters of followed processes' caching allocators (target/counters.h), read ten times a second while the
 * session lasts, with and without probes, and reported as EV_COUNTERS when they have changed.
 *
 * This runs on the loop, so only a process's memory is read here, through the door, for a bounded time whatever is in it. The
 * planner's thread looks up the mapped files and their contents (live/planner.h).
 */
#ifndef MT_LIVE_GPU_COUNTERS_H
#define MT_LIVE_GPU_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "live/tell.h"

struct followed;
struct process;

struct gpu_counters {
	const struct followed *followed;
	struct tell tell;
	size_t turn;	  /* index of the process that is read first in the next turn */
	uint64_t find_ns; /* before this time no process's places are looked for */
};

/* Address of the allocator's pointer in the program that the process runs now; 0: nothing new is known. */
void gpu_counters__know(struct process *p, uint64_t global);
/* Those that are due; `all`: each process, where that is quick. */
void gpu_counters__turn(struct gpu_counters *g, int all);

#endif
