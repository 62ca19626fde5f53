// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * clock.so, preloaded: a wall clock that jumps by an hour, to and fro, every 300 ms, for one program alone: nobody else on the
 * machine notices. CLOCK_MONOTONIC does not jump on any kernel.
 */
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static int real_gettime(clockid_t id, struct timespec *ts)
{
	static int (*next)(clockid_t, struct timespec *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
	return next(id, ts);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	struct timespec now;
	int r = real_gettime(id, ts);

	if (!r && id == CLOCK_REALTIME && !real_gettime(CLOCK_MONOTONIC, &now))
		ts->tv_sec += (now.tv_sec * 10 + now.tv_nsec / 100000000) / 3 % 2 ? 3600 : -3600;
	return r;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}
