/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * counted: what a session reports of itself and of the machine, as events: at its beginning its identity and place, and from
 * time to time what it counts and reads: probes and their cost, losses, processes whose shares are used up, usage of processes
 * and devices. Called by session.c.
 */
#ifndef MT_LIVE_COUNTED_H
#define MT_LIVE_COUNTED_H

#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

struct follow;
struct keeper;
struct naming;
struct nvml;
struct probing;
struct stream;
struct usage;

/* Its sources; all borrowed. */
struct counted {
	struct tell tell;
	struct stream *stream;
	struct keeper *keeper;
	struct usage *usage;
	const struct probing *probing;
	const struct follow *follow;
	const struct naming *naming; /* NULL: not requested */
	struct nvml *nvml;	     /* NULL: there is none */
	uint64_t oom_kills;	     /* as last reported; UINT64_MAX: not yet */
};

/* The first events: who, where, when, and what cannot be probed here. */
void counted__begin(struct counted *c, uint64_t start_ns, pid_t main_pid);
/* Number of processes that the kernel's OOM killer has ended since boot: a process that ended in that second was one. */
void counted__oom_kills(struct counted *c);
/* The probes' counters: cost, losses, which ones fired. */
void counted__probes(struct counted *c);
/* All other counters, and a tick. */
void counted__rest(struct counted *c);
void counted__usage(struct counted *c); /* CPU time, devices, memtrace itself: part of the rest, but at the end of the trace */

#endif
