/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * feed: the decisions as viewers of time want them: counters, slices that nest on their thread, steps,
 * moments. What the formats for such viewers share; each of them writes what it is told.
 *
 * Times are of CLOCK_MONOTONIC and never go back. An operator's slice ends at the next thing that its thread did
 * outside of it (or it ends with what holds it): ends of operators are not probed.
 * Steps are from one step mark to the next (and to the end), or, where the job has none, from the end of
 * one "Optimizer.step#…" to that of the next, step 0 from the first thing seen of the process.
 */
#ifndef MT_VIEW_FEED_H
#define MT_VIEW_FEED_H

#include "view/live.h"
#include "view/stacks.h"

struct export_ctx;
struct export_to;

struct feed_ops {
	void (*process)(struct export_ctx *c, uint32_t pid); /* before anything else of it */
	void (*lane)(struct export_ctx *c, const struct lane *l);
	void (*counter)(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns);
	void (*thread)(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number);
	void (*begin)(struct export_ctx *c, uint32_t number, const struct stack_node *n, uint64_t ts_ns);
	void (*end)(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number, const struct stack_node *n,
		    uint64_t begin_ts_ns, uint64_t ts_ns);
	void (*step)(struct export_ctx *c, uint32_t pid, uint64_t number, uint64_t begin_ts_ns, uint64_t ts_ns);
	void (*oom)(struct export_ctx *c, const struct tl_event *ev);
};

struct feed;

int feed__new(struct feed **ret, const struct export_to *to, const struct feed_ops *ops, struct export_ctx *c);
void feed__free(struct feed *f);
int feed__event(struct feed *f, const struct tl_event *ev); /* 0 or -errno */
void feed__end(struct feed *f);				    /* ends what is open */

#endif
