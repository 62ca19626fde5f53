/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * counting: the number of steps that processes have made by their optimizers' own count, which all ranks of a job share,
 * whenever they were attached to. It is read from the tensor that Python's names have found (live/reported_names.h) and
 * reported as EV_STEPS. The model interprets it: a reading may be one too low (model.c).
 */
#ifndef MT_LIVE_COUNTING_H
#define MT_LIVE_COUNTING_H

#include "live/tell.h"

struct followed;
struct naming;

struct counting {
	const struct followed *followed;
	const struct naming *naming; /* NULL: names are not read, so nothing is known */
	struct tell tell;
};

/* Now and then: some 20 us per process. */
void counting__turn(const struct counting *c);

#endif
