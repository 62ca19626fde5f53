/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* estimate_input: what an estimate of a recording (user/estimate) begins with: its blocks, and those of the peak. */
#ifndef MT_REPLAY_ESTIMATE_INPUT_H
#define MT_REPLAY_ESTIMATE_INPUT_H

#include "estimate/recorded.h"
#include "replay/chosen.h"
#include "replay/replay.h"

struct estimate_input {
	const char *path; /* borrowed */
	struct chosen chosen;
	struct recorded recorded;
	struct recorded_kept kept;
	struct names *names; /* the recording's */
	struct report *report;
	struct replay_end end;
};

/* The report and all blocks, of the processes asked for. 0, or -errno; estimate_input__done() in both cases. */
int estimate_input__read(struct estimate_input *in, const struct selection *asked, const char *path, struct err *err);
/*
 * The blocks kept at the peak of the device called dev, of its own if that is NULL. unknown: what is unknown of it without data
 * flow. 0, or -errno.
 */
int estimate_input__keep(struct estimate_input *in, const char *dev, const char *unknown, struct err *err);
void estimate_input__done(struct estimate_input *in);

#endif
