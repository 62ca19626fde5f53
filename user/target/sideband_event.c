/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/sideband.h"

#define NOBODY_WAITS (1u << 30) /* bytes, more than a ring has: nobody is woken */

#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4)
#endif

int sideband_event(int cpu, int is_forks)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(a),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TIME,
		.read_format = PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_LOST,
		.mmap = !is_forks,
		.mmap2 = !is_forks,
		.comm = !is_forks,
		.comm_exec = !is_forks,
		.task = 1,
		.sample_id_all = 1,
		.exclude_kernel = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = is_forks ? NOBODY_WAITS : 1,
	};
	long fd = syscall(SYS_perf_event_open, &a, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL) { /* before 6.0 */
		a.read_format = PERF_FORMAT_TOTAL_TIME_RUNNING;
		fd = syscall(SYS_perf_event_open, &a, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}
