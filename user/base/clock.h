/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * clock: the clock of events: CLOCK_MONOTONIC, in ns, as the BPF programs and perf's records have it. In a time namespace (some
 * containers) our own reading of it is shifted, theirs is not: clock_init finds the shift.
 */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000ull

extern int64_t clock_shift_ns; /* how far our readings are ahead; 0 outside of time namespaces */

void clock_init(void); /* at the start, before rights and /proc are given away */

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec - (uint64_t)clock_shift_ns;
}

/* Since the epoch, for use on other machines, too. */
static inline uint64_t clock_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* CPU time of this thread: the cost of something, whatever else used the CPU meanwhile. */
static inline uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* As our own system calls take it: to sleep until then. */
static inline struct timespec clock_timespec(uint64_t at_ns)
{
	uint64_t own = at_ns + (uint64_t)clock_shift_ns;

	return (struct timespec){ (time_t)(own / NS_PER_S), (long)(own % NS_PER_S) };
}

static inline void sleep_until(uint64_t at_ns)
{
	struct timespec at = clock_timespec(at_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

#endif
