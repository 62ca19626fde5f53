/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * seeds: main() of a simulation: SEED SECONDS, one run a seed until the time is over. Whoever aborts, an invariant, a
 * comparison or a sanitizer: the seed is told, so that the run can be repeated.
 */
#ifndef MT_SIM_SEEDS_H
#define MT_SIM_SEEDS_H

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

static const char *seeds_name;
static uint64_t seeds_now;

static void seeds__on_abort(int sig)
{
	(void)sig;
	fprintf(stderr, "failed: %s %" PRIu64 " 0\n", seeds_name, seeds_now);
}

#define RUNS_MIN 4 /* of a simulation that goes on for a time: on a slow machine, too, one of each kind */

/* How many runs; run gives its number of events. */
static uint64_t seeds__run(const char *name, int argc, char **argv, uint64_t (*run)(uint64_t seed), uint64_t *ret_events)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 1000;
	double seconds = argc > 2 ? atof(argv[2]) : 10;
	uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9), runs = 0;

	seeds_name = name;
	signal(SIGABRT, seeds__on_abort);
	printf("%s: seed %" PRIu64 "\n", name, seed);
	*ret_events = 0;
	do {
		seeds_now = seed + runs++;
		*ret_events += run(seeds_now);
	} while (now_ns() < end_ns || (seconds > 0 && runs < RUNS_MIN));
	return runs;
}

#endif
