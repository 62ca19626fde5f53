/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * held_moment: the blocks live in a recording at one moment (filter.h), the peak if none is asked for. The recording is read
 * twice, as for an export: first for final labels and the time of that moment, then for the blocks live at it.
 */
#ifndef MT_CMD_HELD_MOMENT_H
#define MT_CMD_HELD_MOMENT_H

#include "base/names.h"
#include "cmd/filter.h"

struct holdings;

struct held_moment {
	struct filter filter;
	struct names *names;
	struct labels *labels;
	struct report *report; /* of all of the recording */
	struct holdings *held;
};

/* Of o->file, which is borrowed with all of o. 0, or -errno; held_moment__done() in both cases. */
int held_moment__read(struct held_moment *m, const struct options *o, struct err *err);
void held_moment__done(struct held_moment *m);

#endif
