/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * past: the first events of a recording that begins in the middle of a trace, so that a replay of it goes on as the trace did:
 * what was reported once until then (processes, probes, segments), the counters' values, live blocks, open regions and frames.
 */
#ifndef MT_RECORD_PAST_H
#define MT_RECORD_PAST_H

#include "model/model.h"
#include "record/kept.h"

#define PAST_EVENTS_MAX (1u << 18) /* rare events of a kind that is kept: 12 MiB, 80 processes with all of torch's operators */

struct err;
struct names;
struct rec_writer;

struct past {
	struct kept kept;
	uint64_t dropped;  /* rare events that found no room */
	uint64_t start_ns; /* of the trace; 0: nothing yet */
};

/* The moment that is written, with the blocks that were freed since. */
struct past_moment {
	uint64_t at_ns, newest_id;
	struct events open; /* regions and frames; borrowed, or of past_moment__now */
	struct model_was *was;
	size_t was_cnt, was_cap;
};

/* Each ordered event; what means nothing later is passed over. */
void past__add(struct past *p, const struct event *ev);
void past__done(struct past *p);

/* As the model is now. 0 or -ENOMEM. */
int past_moment__now(struct past_moment *at, struct model *m, uint64_t at_ns);
/* A block that lived until some time ago. What was allocated after the moment is passed over. 0 or -ENOMEM. */
int past_moment__lived(struct past_moment *at, const struct model_was *was);
void past_moment__done(struct past_moment *at, int with_open);

/* notes: sentences for the coverage block. 0 or -errno. */
int past__write(const struct past *p, struct past_moment *at, const struct model *m, struct names *names,
		const char *const *notes, size_t notes_cnt, struct rec_writer *out, struct err *err);

#endif
