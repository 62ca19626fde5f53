/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * after: steps that are watched when a trace of all steps is over, for its price (model/core/price.h): what is above marks of
 * steps is removed, and the next steps are timed. The trace has ended before that: nothing but how long they took, as
 * EV_AFTER, becomes part of it.
 */
#ifndef MT_LIVE_AFTER_H
#define MT_LIVE_AFTER_H

#include "live/tell.h"

struct followed;
struct keeper;
struct model;
struct probing;
struct stream;

struct after {
	struct stream *stream; /* its detach_ns is set */
	struct probing *probing;
	struct keeper *keeper;
	const struct followed *followed;
	const struct model *model;
	struct tell tell;
	int signal_fd; /* readable: the user does not want to wait */
};

/* Takes half a second in most jobs, and two at most. Where no process has steps with a price, or too long ones, nothing. */
void after__watch(const struct after *a);

#endif
