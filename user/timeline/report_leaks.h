/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What grows. */
#ifndef MT_TIMELINE_REPORT_LEAKS_H
#define MT_TIMELINE_REPORT_LEAKS_H

#include <stddef.h>
#include <stdint.h>
#include "timeline/report_ops.h"
#include "timeline/trend.h"

/* NONE: no container has many of them (torch keeps Python's tensors for what C++ holds). GRAPH: the same, and the container is
   that of tensors that grow beside it: autograd keeps it for them. UNSEEN: hardly a tensor of Python's has this memory. */
enum report_held { HELD_UNKNOWN = 0, HELD_ITSELF, HELD_GRAPH, HELD_NONE, HELD_UNSEEN };

enum report_sure { SURE_LOW = 1, SURE_MEDIUM, SURE_HIGH };

#define REPORT_LOADING_NS 60000000000ull /* a running process without a step may be loading for so long */

/* Blocks of one place that live across steps and grow in number: perhaps a leak (docs/leaks.md). */
struct report_leak {
	char *op, *region; /* "" none */
	uint32_t pid;
	uint8_t dev, cat;	/* cat: of most of its bytes */
	uint8_t per_step;	/* slopes are those of a step, else of a second */
	uint8_t sure;		/* enum report_sure */
	uint8_t is_over;	/* its process has ended: live, oldest and so on are as of then */
	double bytes_slope, blocks_slope;
	double tau;		/* Kendall's: 1 = never fell */
	/* Where some steps are traced: windows of them so far, and how often a block of it was still there after a gap. What
	   `live`, `blocks` and `grown` count is of traced steps then. 0: all steps are */
	uint64_t windows, stayed;
	uint64_t live, blocks;	/* all that live now */
	uint64_t grown, grown_blocks; /* of them, since warming up was over */
	uint64_t first_ts_ns, last_ts_ns; /* allocations of the oldest and of the youngest that live */
	uint64_t history[TREND_POINTS_MAX]; /* bytes that lived across a step, oldest first, warming up too */
	size_t history_cnt;
	/* Of the stack where all were allocated, innermost first; or where most of the caught were. NULL: not known */
	struct report_frame *frames;
	size_t frames_cnt;
	uint64_t caught, caught_here; /* live blocks that were caught at their allocation; of them at `frames`. 0: none was */
	/* Python's container that holds them, when it was looked for; NULL: not looked for, or none was found */
	char *held_by, *held_kind, *held_where; /* "losses", "list", "train (train.py:12)"; the last may be "" */
	uint64_t held_items;
	uint8_t held; /* enum report_held */
};

struct report_leaks {
	uint8_t too_short; /* for a conclusion: no process had enough steps (or half seconds) */
	uint8_t per_step;  /* ticks are steps, of the process that had most of them; else half seconds */
	uint64_t ticks;
	uint32_t ticks_least;
	uint64_t not_watched; /* allocations that found no room */
	struct report_leak *rows; /* of processes that live before others, most bytes a second first; `top` at most */
	size_t cnt, total;
};

#endif
