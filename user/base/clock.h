/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * clock: the one that events are in: CLOCK_MONOTONIC, in ns, as the BPF programs read it.
 */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

#endif
