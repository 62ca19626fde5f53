/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * late: a recording that begins in the middle of a trace, and reads as if the attach had been then.
 *
 * What a trace is told once (processes, probes, notes) is remembered and told again at the beginning.
 * Counters of the kind "so far" are made to start there. Frames that were open then are unknown to the
 * recording: events inside of them are shown as outside of any, which is what an attach would have seen.
 */
#ifndef MT_CMD_LATE_H
#define MT_CMD_LATE_H

#include "event/event.h"

#define LATE_HEAD_MAX (1u << 17) /* events remembered, 6 MiB: 40 processes with all of torch's operators */

struct err;
struct late;
struct names;
struct rec_writer;

struct late *late__new(void); /* NULL: no memory */
void late__free(struct late *l);
/* Each ordered event, as long as nothing is recorded. */
void late__remember(struct late *l, const struct event *ev);
/* The recording begins at ts_ns: writes what was remembered. 0 or -errno. */
int late__begin(struct late *l, struct rec_writer *w, struct names *names, uint64_t ts_ns, struct err *err);
/* Each ordered event from then on, before it is written. */
void late__fix(struct late *l, struct event *ev);

#endif
