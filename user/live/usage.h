/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * usage: the kernel's counts for followed processes: resident memory, private and shared bytes, CPU time. Read in turns, each
 * as often as its cost allows, and reported as events.
 */
#ifndef MT_LIVE_USAGE_H
#define MT_LIVE_USAGE_H

#include <stddef.h>

#include "live/tell.h"

struct followed;
struct process;

struct usage {
	const struct followed *followed;
	struct tell tell;
	int is_seldom;	/* nothing is traced: readings may be further apart */
	int has_kernel; /* SRC_KERNEL is requested: memory is read, too */
	size_t rss_turn, use_turn, pages_turn; /* index of the process that is read first in the next turn */
	uint64_t pages_at_ns; /* pages are not counted again before this time */
};

/* Often: MT_EV_RSS of those that are due and whose memory changed; EV_USE of a large one once all its pages are counted. */
void usage__turn(struct usage *u);
/* MT_EV_RSS of each, to the page. */
void usage__push_resident(struct usage *u);
/* EV_USE of those that are due; `all`: of each, where that is quick. */
void usage__push_uses(struct usage *u, int all);
/* Of one process, now. */
void usage__push_rss(const struct usage *u, struct process *p, int all);
void usage__push_cpu(const struct usage *u, const struct process *p);
void usage__push_cpus(const struct usage *u); /* EV_CPU of each */

#endif
