/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * urgent: while sites are set or removed, and while the job's memory or page tables are read, the kernel holds a lock of the
 * job's for this thread. A thread that waits for that lock also waits for this thread's turn on a CPU: so it must not be
 * preempted then, however busy the machine and however nice memtrace (seen at nice 10 beside 14 runnable threads on 2 CPUs: a
 * slice of 2.5 ms took 82 ms, and a thread of the job that mapped memory waited 65 ms; with this 4 to 10 ms).
 */
#ifndef MT_BASE_URGENT_H
#define MT_BASE_URGENT_H

#include <sys/resource.h>

#define URGENT_NICE (-20)

/* Returns the argument for urgent_end. Without CAP_SYS_NICE nothing changes. */
static inline int urgent_begin(void)
{
	int before = getpriority(PRIO_PROCESS, 0); /* of the thread, on Linux */

	(void)setpriority(PRIO_PROCESS, 0, URGENT_NICE);
	return before;
}

static inline void urgent_end(int before)
{
	(void)setpriority(PRIO_PROCESS, 0, before);
}

#endif
