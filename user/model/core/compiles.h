/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * compiles: what torch.compile has compiled (EV_COMPILED): sums of all, and the last COMPILES_MAX one by one. A backward is
 * added to the forward of its process that had its id last.
 */
#ifndef MT_MODEL_COMPILES_H
#define MT_MODEL_COMPILES_H

#include <stdbool.h>
#include <stddef.h>

#include "event/event.h"
#include "model/core/lately.h"

#define COMPILES_MAX 512

struct compiled {
	uint64_t begin_ns, ns; /* CLOCK_MONOTONIC; with its backward's time */
	uint64_t own_ns;       /* without it */
	uint64_t step, live, added; /* the step under way; live bytes when it began, and how many more there were at most … */
	bool knows_bytes;	    /* … if that is known */
	bool again, before;	    /* not the first time; before the trace */
	uint32_t pid;
	name_id id, function, reason, failed;
};

struct compiles {
	struct compiled *v; /* COMPILES_MAX of them, a ring; NULL: none yet */
	uint64_t cnt;	    /* forwards in all: the last is v[(cnt - 1) % COMPILES_MAX] */
	uint64_t cnt_before; /* of these, from before the trace */
	uint64_t ns;	    /* all of the trace, with backwards */
	uint64_t again, again_ns, again_before; /* of the trace; their time; before it */
	uint64_t added;	    /* the most that one of them added */
	uint64_t missed;
};

void compiles__done(struct compiles *c);
/* at: NULL, not known. Returns its row, or the one that it was added to; NULL: none. */
const struct compiled *compiles__reported(struct compiles *c, const struct names *names, const struct event *ev,
					   uint64_t start_ns, const struct lately_at *at);

#endif
