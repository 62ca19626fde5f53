/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * counted: what a session tells of itself and of the machine: at its beginning who and where it is, and from time to time what
 * it counts and reads: probes and their cost, losses, whose shares are used up, usage of processes and devices. All of it is
 * events. Called by session.c.
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

/* Where it looks; all borrowed. */
struct counted {
	struct tell tell;
	struct stream *stream;
	struct keeper *keeper;
	struct usage *usage;
	const struct probing *probing;
	const struct follow *follow;
	const struct naming *naming; /* NULL: not asked for */
	struct nvml *nvml;	     /* NULL: there is none */
	uint64_t oom_kills;	     /* as last told; UINT64_MAX: not yet */
};

/* What comes first: who, where, when, and what cannot be probed here. */
void counted__begin(struct counted *c, uint64_t start_ns, pid_t main_pid);
/* How many processes the kernel's OOM killer has taken since boot: a death in that second was its work. */
void counted__oom_kills(struct counted *c);
/* The probes' counters: what they cost, what they lost, which fired. */
void counted__probes(struct counted *c);
/* All others, and a tick. */
void counted__rest(struct counted *c);

#endif
