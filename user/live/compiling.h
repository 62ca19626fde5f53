/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * compiling: when a process's Python is asked what torch.compile has compiled since (python/compiles.h), and that as events
 * (EV_COMPILED). A process without torch._dynamo is never asked. naming.c's own: it has the looks done.
 */
#ifndef MT_LIVE_COMPILING_H
#define MT_LIVE_COMPILING_H

#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"
#include "python/compiles.h"

#define COMPILING_EVERY_NS 900000000ull /* a look reads some words; timers are not exact */

struct look_job;
struct looker;

struct compiling {
	uint64_t next_ns;
	struct py_compiles_seen seen;
};

/* It is time to look: 1, and the job says so; the job's memory was not to be had: 0. */
int compiling__begin(struct compiling *c, const struct looker *by, struct look_job *j, uint64_t now_ns);
/* What the job does, on its thread. */
void compiling__look(struct look_job *j);
void compiling__end(struct compiling *c, const struct look_job *j, const struct tell *tell);
void compiling__drop(struct look_job *j); /* what a job has of it */

#endif
