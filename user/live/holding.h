/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * holding: when who holds memory that grows is looked for in a process's Python (python/holders.h), and what was found, as
 * events (EV_HELD). Where nothing grows, Python is not looked at. naming.c's own: it has the looks done.
 */
#ifndef MT_LIVE_HOLDING_H
#define MT_LIVE_HOLDING_H

#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

#define HOLDING_ASK_NS 2000000000ull   /* between two questions whether anything grows */
#define HOLDING_GAP_MAX_NS 64000000000ull /* between two looks, each twice as far from the one before */

struct look_job;
struct model;

struct holding {
	uint64_t next_ns, gap_ns;
};

/* Something grows in the process, and it is time to look: 1, and the job says what for. */
int holding__begin(struct holding *h, const struct model *m, pid_t pid, struct look_job *j, uint64_t now_ns);
void holding__end(const struct look_job *j, const struct tell *tell);
void holding__drop(struct look_job *j); /* what a job has of it */

#endif
