/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * feed: the decisions as viewers of time need them: counters, slices that nest on their thread, steps,
 * moments. Shared by the formats for such viewers; each of them writes what its callbacks get.
 *
 * Times are of CLOCK_MONOTONIC and never go back. An operator's slice ends at the next thing that its thread did
 * outside of it (or it ends with what holds it): ends of operators are not probed.
 * Steps end at the model's MARK_STEP, and begin where the one before them ended, or at a step mark; the first one begins
 * with the first decision of the process, and the last one, if a mark began it, ends with the recording.
 */
#ifndef MT_VIEW_FOLD_FEED_H
#define MT_VIEW_FOLD_FEED_H

#include "view/fold/live.h"
#include "view/fold/stacks.h"

struct export_ctx;
struct export_to;

struct feed_ops {
	/* NULL: not asked for */
	void (*process)(struct export_ctx *c, uint32_t pid); /* before anything else of it */
	void (*lane)(struct export_ctx *c, const struct lane *l);
	void (*thread)(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number);
	void (*begin)(struct export_ctx *c, uint32_t number, const struct stack_node *n, uint64_t ts_ns);
	void (*compiled)(struct export_ctx *c, const struct tl_event *ev); /* TL_COMPILED */
	void (*mark)(struct export_ctx *c, const struct tl_event *ev); /* TL_MARK that is known */
	/* When it is over; `what` was traced in it, for people. One of which only the beginning was seen is two. */
	void (*gap)(struct export_ctx *c, const char *what, uint64_t begin_ts_ns, uint64_t ts_ns);
	/*
	 * With it, counter() is not called in a gap but while allocations are seen there: then lanes show what was learned, and
	 * changes are of that. Called for each lane where such a time begins, and at a gap's end.
	 */
	void (*again)(struct export_ctx *c, const struct lane *l, uint64_t ts_ns);
	/* always there */
	void (*counter)(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns);
	void (*end)(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number, const struct stack_node *n,
		    const struct open_frame *e, uint64_t ts_ns);
	void (*step)(struct export_ctx *c, uint32_t pid, uint64_t number, uint64_t begin_ts_ns, uint64_t ts_ns);
	void (*oom)(struct export_ctx *c, const struct tl_event *ev);
};

struct feed;

/* 0 or -ENOMEM; *ret is the caller's, for feed__free, and untouched on failure. to, ops and c are borrowed for its life. */
int feed__new(struct feed **ret, const struct export_to *to, const struct feed_ops *ops, struct export_ctx *c);
void feed__free(struct feed *f); /* NULL is fine */
int feed__event(struct feed *f, const struct tl_event *ev); /* 0 or -errno */
void feed__end(struct feed *f);				    /* ends open slices and steps */

#endif
