/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gpu_counters: what the caching allocator of followed processes has counted (target/counters.h), read ten times a second while
 * the session lasts, with and without probes, and told as EV_COUNTERS where it has changed.
 */
#ifndef MT_LIVE_GPU_COUNTERS_H
#define MT_LIVE_GPU_COUNTERS_H

#include "live/tell.h"

struct followed;

/* Those whose turn it is; `all`: of each. */
void gpu_counters__turn(const struct followed *f, const struct tell *tell, int all);

#endif
