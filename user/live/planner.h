/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * planner: plans made beside the loop. A plan of a process with torch takes 0.1 s, half a second on a busy machine, and rings
 * fill meanwhile; so a second thread makes them, one after the other, and keeps what it found in files for the next process
 * that has them mapped (plan/cache.h): the second rank's plan takes some milliseconds.
 *
 * The thread also looks at what a process has mapped, before that: 65,000 mappings take 0.6 s, and a process may change them
 * all the time (measured: the loop did nothing else, one turn in 0.4 s). The same holds for its files, so the thread also finds
 * where its CUDA allocator counts (live/gpu_counters.h).
 *
 * The thread shares one thing with the loop: a target whose libraries nobody reads meanwhile (target__hold). Names are in a
 * table of its own until planner__next hands the plan out.
 */
#ifndef MT_LIVE_PLANNER_H
#define MT_LIVE_PLANNER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "plan/plan.h"

struct planner;
struct target;

struct planned {
	uint64_t ticket;
	int r; /* target__refresh's or plan__build's, and its err */
	struct err err;
	struct plan *plan; /* NULL if r < 0, or nothing is new; the caller's */
	uint64_t counters_global; /* target/counters.h; 0: unknown, or not new */
	uint64_t took_ns, look_ns; /* look_ns: the part of it spent on its libraries */
};

/* 0, or -errno with *err; *ret is the caller's, for planner__free, and untouched on failure. */
int planner__new(struct planner **ret, struct err *err);
void planner__free(struct planner *p); /* waits some seconds for a plan that is being made; NULL is fine */
int planner__fd(const struct planner *p); /* readable when a plan waits to be taken */
/*
 * Requests a look at t's libraries, and a plan of them (opts->only_new_libs: where some are new): t is held until the plan is
 * there, and must not be refreshed. Strings of opts are borrowed for as long as the planner lives. A ticket, or 0: no memory.
 */
uint64_t planner__ask(struct planner *p, struct target *t, const struct plan_opts *opts);
/* The plan is no longer wanted. */
void planner__forget(struct planner *p, uint64_t ticket);
/* The next one that is ready, its names in `names`. 1, or 0: none. */
int planner__next(struct planner *p, struct names *names, struct planned *ret);
size_t planner__waiting(const struct planner *p); /* plans requested and not yet taken or forgotten */

#endif
