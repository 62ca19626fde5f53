/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * counting: how many steps processes have made by their optimizers' own count, which all ranks of a job have in common, since
 * whenever they were attached to: read from the tensor that Python's names have found (live/said.h), told as EV_STEPS. What it
 * means is the model's to say: a reading may be one too low (model.c).
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

/* Now and then: some 20 us a process. */
void counting__turn(const struct counting *c);

#endif
