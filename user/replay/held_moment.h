/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * held_moment: the blocks live in a recording at one moment (filter.h), the peak if none is asked for. The recording is read
 * twice, as for an export: first for final labels and the time of that moment, then for the blocks live at it.
 */
#ifndef MT_REPLAY_HELD_MOMENT_H
#define MT_REPLAY_HELD_MOMENT_H

#include "base/names.h"
#include "replay/filter.h"
#include "replay/replay.h"

struct holdings;

struct held_moment {
	const char *path; /* borrowed */
	enum classes classes;
	struct filter filter;
	struct names *names;
	struct labels *labels;
	struct report *report; /* of all of the recording */
	struct holdings *held;
	struct replay_end end;
};

/* The first pass, up to the report. What was asked for stays the caller's. 0, or -errno; held_moment__done() in both cases. */
int held_moment__learn(struct held_moment *m, const struct selection *asked, const char *path, enum classes classes,
		       struct err *err);
/* The second one. depth: levels of modules, 0: all. 0, or -errno: a part asked for is missing, with those there are. */
int held_moment__hold(struct held_moment *m, unsigned depth, struct err *err);
void held_moment__done(struct held_moment *m);

#endif
