/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * replay: a recording through the model, to a report and, on the way, to a sink that gets every
 * decision. The same calls as live from `order` on, so the same numbers. Needs no root.
 */
#ifndef MT_REPLAY_REPLAY_H
#define MT_REPLAY_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

struct err;
struct report;
struct names;

#define REPLAY_MARKS 2

struct replay_opts {
	size_t top; /* rows of the report */
	size_t ranks_top; /* not 0: its ranks, too, with so many rows of the worst one's tables (model/ranks.h) */
	/* All may be NULL. A sink's error ends the replay with it. */
	int (*begin)(void *ctx, const struct names *names); /* once the file is known to be good */
	int (*event)(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns);
	int (*look)(void *ctx, uint64_t ts_ns); /* after each event, whatever it was: its time */
	int with_ops; /* operators and regions to the sink, too */
	int with_nodes; /* nodes and final labels, too */
	enum classes classes;
	void (*progress)(void *ctx, double share); /* between frames */
	/* Last, while begin's names are there; also after a failure (r < 0, no report). Returns r or its own. */
	int (*end)(void *ctx, const struct report *report, int r);
	/* The state on the way, without rows: four times a second at first, ever more seldom later. */
	int (*sample)(void *ctx, const struct report *now);
	/* The state as of these times (ascending, at most REPLAY_MARKS), with rows; the report is the callee's. */
	int (*mark)(void *ctx, struct report *then);
	uint64_t marks[REPLAY_MARKS];
	size_t marks_cnt;
	/* Of these processes alone, the first of which is the main one, and what is of none. cnt 0: of all. */
	const uint32_t *pids;
	size_t pids_cnt;
	const char *choice; /* that choice in words, for reports (run.choice) */
	struct names **names; /* not NULL: the recording's names, all of them, are the caller's to free */
	void *ctx;
};

/* What a recording has at its end. */
struct replay_end {
	int is_missing;	       /* it is still being written, was cut, or its end is damaged */
	uint64_t unread_bytes; /* that are there, and could not be read */
};

/* 0 or -errno. A recording whose end is missing is no error: the report has a note. *ret_report is the caller's. */
int replay_run(const char *path, const struct replay_opts *opts, struct report **ret_report,
	       struct replay_end *ret_end, struct err *err);

#endif
