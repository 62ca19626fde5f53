/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gpu_counters: what the caching allocator of followed processes has counted (target/counters.h), read ten times a second while
 * the session lasts, with and without probes, and told as EV_COUNTERS where it has changed.
 */
#ifndef MT_LIVE_GPU_COUNTERS_H
#define MT_LIVE_GPU_COUNTERS_H

#include <stdint.h>

#include "live/tell.h"
#include "target/counters.h"

struct followed;

/* Of a process. */
struct proc_counters {
	uint64_t image_ns;  /* of which program all this is */
	uint64_t at_ns;	    /* not before this time is it looked at again */
	uint64_t find_ns;   /* … and the place looked for */
	uint64_t global;    /* where the allocator's pointer is; 0: not known */
	int is_without;	    /* it has none, as its mapped files are */
	size_t libs_cnt;    /* … were then */
	struct counters_places *places; /* NULL: not found */
	struct counters *told;		/* of each of them */
};

void proc_counters__done(struct proc_counters *c);
/* Those whose turn it is; `all`: of each. */
void gpu_counters__turn(const struct followed *f, const struct tell *tell, int all);

#endif
