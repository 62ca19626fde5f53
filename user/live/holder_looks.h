/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * holder_looks: when to look for the holder of memory that grows in a process's Python (python/holders.h), and what was found,
 * as events (EV_HELD). Where nothing grows, Python is not looked at. Used by naming.c alone, which has looks done.
 */
#ifndef MT_LIVE_HOLDER_LOOKS_H
#define MT_LIVE_HOLDER_LOOKS_H

#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

#define HOLDING_ASK_NS 2000000000ull   /* between two checks whether anything grows */
#define HOLDING_GAP_MAX_NS 64000000000ull /* between two looks; the distance doubles each time */

struct look_job;
struct model;

struct holder_looks {
	uint64_t next_ns, gap_ns;
};

/* 1: something grows in the process and it is time to look; the job has what to look for. */
int holder_looks__begin(struct holder_looks *h, const struct model *m, pid_t pid, struct look_job *j, uint64_t now_ns);
void holder_looks__end(const struct look_job *j, const struct tell *tell);
void holder_looks__drop(struct look_job *j); /* frees the job's part of it */

#endif
