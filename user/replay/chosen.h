/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * chosen: the processes of a recording that --pid or --rank name. They are replayed as if nothing else had been recorded;
 * the cost of tracing is that of all processes.
 */
#ifndef MT_REPLAY_CHOSEN_H
#define MT_REPLAY_CHOSEN_H

#include "timeline/report.h"
#include "timeline/selection.h"
#include "timeline/timeline.h"

struct err;
struct replay_end;
struct replay_opts;

#define CHOICE_BYTES (SELECTION_PIDS_MAX * sizeof("--pid 4294967295 "))

/* Zeros: all of the recording. */
struct chosen {
	uint32_t *pids;
	size_t cnt; /* 0: all, nothing was asked for */
	char choice[CHOICE_BYTES];
	struct report_cost cost; /* of all */
};

/* Reads the recording once, if anything was asked for. 0, or -errno: there is no such process. */
int chosen__find(struct chosen *c, const struct selection *asked, const char *path, enum classes classes, struct err *err);
void chosen__done(struct chosen *c);
/* replay_run() of these processes only, with the cost of tracing all. */
int chosen__run(const struct chosen *c, const char *path, struct replay_opts *ro, struct report **ret,
		struct replay_end *ret_end, struct err *err);
/* To a report made before the replay's end. */
void chosen__tell_cost(const struct chosen *c, struct report *r);

#endif
