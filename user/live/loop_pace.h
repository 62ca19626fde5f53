/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * loop_pace: timers of a session's loop, and how often it turns. Between windows of tracing there is little to read, and little
 * changes: then it turns less often, and the memory and names of processes are read less often.
 */
#ifndef MT_LIVE_LOOP_PACE_H
#define MT_LIVE_LOOP_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define DRAIN_MS 10
#define DRAIN_REST_MS 50 /* while only marks of steps come */

struct naming;
struct usage;

struct loop_pace {
	int fd; /* one expiry per turn; -1: not open */
	bool is_at_rest;
};

int timer_new(uint64_t first_ns, uint64_t every_ns); /* a descriptor, or -1 */
void loop_pace__open(struct loop_pace *p);
/* naming: NULL if names are not read. */
void loop_pace__turn(struct loop_pace *p, bool is_at_rest, struct usage *usage, struct naming *naming);

#endif
