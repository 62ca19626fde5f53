/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * loop_pace: timers of a session's loop, and how often it turns. Between windows of tracing little changes, so the memory and
 * names of processes are read less often; and if only marks of steps come, the loop turns less often, too.
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
	bool is_at_rest, is_idle;
};

int timer_new(uint64_t first_ns, uint64_t every_ns); /* a descriptor, or -1 */
void loop_pace__open(struct loop_pace *p);
/* is_idle: there is little to read; is_at_rest: little changes. naming: NULL if names are not read. */
void loop_pace__turn(struct loop_pace *p, bool is_idle, bool is_at_rest, struct usage *usage, struct naming *naming);

#endif
