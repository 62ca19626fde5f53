/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gpu_counters: what the caching allocator of followed processes has counted (target/counters.h), read ten times a second while
 * the session lasts, with and without probes, and told as EV_COUNTERS where it has changed.
 *
 * On the loop, so a process's memory alone is read here, through the door, for a time that is bounded whatever is in it. Which
 * files it has mapped and what they have the planner's thread looks up (live/planner.h).
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
	size_t turn;	  /* whose are read first in the next turn */
	uint64_t find_ns; /* not before this time are anybody's places looked for */
};

/* Where the allocator's pointer is in the program that the process runs now; 0: nothing new is known of that. */
void gpu_counters__know(struct process *p, uint64_t global);
/* Those whose turn it is; `all`: of each, where that is quick. */
void gpu_counters__turn(struct gpu_counters *g, int all);

#endif
