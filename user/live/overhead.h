/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* overhead: whether the probes take more of a job's CPU time than --max-overhead allows. No clock: the time is given. */
#ifndef MT_LIVE_OVERHEAD_H
#define MT_LIVE_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first, except for the limit. */
struct overhead {
	double limit; /* share of the CPU time of all followed processes; 0: none */
	double share; /* of the last complete turn */
	uint64_t at_ns, probe_ns, cpu_ns; /* at the end of that turn */
	unsigned over_cnt; /* such turns in a row above the limit */
};

/*
 * Once a second or more often: the time, the time taken by probes and the CPU time of the processes so far, all in ns. True:
 * too much for OVERHEAD_TURNS seconds in a row in which the processes were at work.
 */
#define OVERHEAD_TURNS 3
bool overhead__turn(struct overhead *o, uint64_t now_ns, uint64_t probe_ns, uint64_t cpu_ns);

#endif
