/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* overhead: whether the probes take more of a job's CPU time than --max-overhead allows. No clock: it is told the time. */
#ifndef MT_LIVE_OVERHEAD_H
#define MT_LIVE_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

/* All 0 but the limit at first. */
struct overhead {
	double limit; /* share of the CPU time of all followed processes; 0: none */
	double share; /* of the last turn that counted */
	uint64_t at_ns, probe_ns, cpu_ns; /* where that turn ended */
	unsigned over_cnt; /* such turns in a row above the limit */
};

/*
 * Once a second or more often: the time, what probes took so far and what the processes used so far, all in ns. True: too
 * much for OVERHEAD_TURNS seconds on end in which the processes did work.
 */
#define OVERHEAD_TURNS 3
bool overhead__turn(struct overhead *o, uint64_t now_ns, uint64_t probe_ns, uint64_t cpu_ns);

#endif
