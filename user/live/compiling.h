/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * compiling: when a process's Python is asked what torch.compile has compiled since the last look (python/compiles.h), and the
 * answers as events (EV_COMPILED). A process without torch._dynamo is never asked. Used by naming.c alone, which has looks
 * done.
 */
#ifndef MT_LIVE_COMPILING_H
#define MT_LIVE_COMPILING_H

#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"
#include "python/compiles.h"

#define COMPILING_EVERY_NS 900000000ull /* a look reads a few words; timers are not exact */

struct look_job;
struct looker;

struct compiling {
	uint64_t next_ns;
	struct py_compiles_seen seen;
};

/* 1: it is time to look, and the job is set up for it; 0: not yet, or no memory for the job. */
int compiling__begin(struct compiling *c, const struct looker *by, struct look_job *j, uint64_t now_ns);
/* The job's work, on its thread. */
void compiling__look(struct look_job *j);
void compiling__end(struct compiling *c, const struct look_job *j, const struct tell *tell);
void compiling__drop(struct look_job *j); /* frees the job's part of it */

#endif
