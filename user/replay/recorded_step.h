/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* recorded_step: the step that has a recording's peak, as a graph (user/estimate/step.h). */
#ifndef MT_REPLAY_RECORDED_STEP_H
#define MT_REPLAY_RECORDED_STEP_H

#include "estimate/step.h"

struct err;
struct estimate_input;
struct report;

struct recorded_step {
	struct step step;
	struct step_result result;
	bool has_result; /* else the step has no nodes */
	struct report *report;
};

/*
 * Reads the recording once more, after estimate_input__keep(); in is borrowed. 0, or -errno; recorded_step__done() in both
 * cases.
 */
int recorded_step__read(struct recorded_step *s, const struct estimate_input *in, struct err *err);
void recorded_step__done(struct recorded_step *s);

#endif
