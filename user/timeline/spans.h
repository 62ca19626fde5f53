/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * spans: when the steps of each process were, from a first pass over a recording, so that a user can name a moment as a
 * time, a step or the peak. A span begins after its first moment and includes its last one; for a single moment both are the
 * same. 40 bytes a step.
 */
#ifndef MT_TIMELINE_SPANS_H
#define MT_TIMELINE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct tl_event;

enum when_kind { WHEN_NOT = 0, WHEN_TIME, WHEN_STEP, WHEN_PEAK };

/* As it was typed. num: ns since the recording began, or the number of the step. */
struct when {
	uint8_t kind; /* enum when_kind */
	uint64_t num;
	const char *text;
};

struct span {
	uint64_t from_ns, to_ns;
};

static inline bool span__has(const struct span *s, uint64_t ts_ns)
{
	return ts_ns > s->from_ns && ts_ns <= s->to_ns;
}

struct step_span {
	struct span at;
	uint64_t number;
	uint32_t pid;
	bool is_traced; /* no gap was in it */
};

struct spans {
	struct step_span *steps; /* in order of their end */
	size_t cnt, cap;
	struct map last; /* when each process's last one ended */
	uint64_t known_ns; /* since when all is known; UINT64_MAX: in a gap */
};

/* Takes ends of steps, and gaps; leaves others alone. start_ns: the first event's, where a first step begins. 0 or -ENOMEM. */
int spans__event(struct spans *s, const struct tl_event *ev, uint64_t start_ns);
void spans__done(struct spans *s);
/* Of these processes together (cnt 0: of all). false: there is no such step. */
bool spans__of_step(const struct spans *s, uint64_t number, const uint32_t *pids, size_t cnt, struct span *ret);
/* How many processes have a step of that number: 0, 1, or 2 if it is more than one. */
unsigned spans__procs_of_step(const struct spans *s, uint64_t number);
/* The step that was under way then; false: none was. Of several processes from the first begin to the last end. */
bool spans__of_time(const struct spans *s, uint64_t ts_ns, const uint32_t *pids, size_t cnt, struct span *ret,
		    uint64_t *ret_number);
/* The last step to end without a gap in it, of any of these processes. false: there is none. */
bool spans__last_traced(const struct spans *s, const uint32_t *pids, size_t cnt, struct span *ret, uint64_t *ret_number);
/* Lowest and highest number of theirs; false: there is no step at all. */
bool spans__numbers(const struct spans *s, const uint32_t *pids, size_t cnt, uint64_t *ret_first, uint64_t *ret_last);
bool pid_is_one_of(const uint32_t *pids, size_t cnt, uint32_t pid); /* cnt 0: all are */

#endif
