/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * bands: the times of a process's steps and of the phases in them, by the model's decisions. Bounded.
 *
 * A phase lasts from its first to its last decision before one of another phase.
 *
 * Steps: when there is no more room, neighbours join ("steps 8 to 15"). Phases: those nearest to one moment are
 * kept; the sums of their times are of all.
 */
#ifndef MT_VIEW_FOLD_BANDS_H
#define MT_VIEW_FOLD_BANDS_H

#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

#define BANDS_PROCS_MAX 64 /* further processes have none */

struct band {
	uint64_t from_ns, to_ns;
	uint64_t first, last; /* numbers of its steps; 0 in phases */
};

struct band_list {
	struct band *b; /* phases: a ring */
	uint32_t cnt, room, at;
	uint32_t join; /* steps a band holds when it is full */
	uint64_t sum_ns, reported;
};

struct bands_proc {
	uint32_t pid;
	struct band_list steps, phases[PHASE_MAX];
	struct band now; /* the phase that is open */
	uint8_t phase;	 /* PHASE_OTHER: none */
};

struct bands {
	struct bands_proc *procs[BANDS_PROCS_MAX];
	uint32_t procs_cnt, room;
	uint64_t around_ns, around_step; /* the step that this moment is in; 0: in none */
};

void bands__init(struct bands *b, uint32_t room, uint64_t around_ns); /* room: of each list, at least 2 */
void bands__done(struct bands *b);
/* This process was in this phase from `from` to `to`, so far; spans of one phase join. 0 or -ENOMEM. */
int bands__phase(struct bands *b, uint32_t pid, enum phase phase, uint64_t from_ns, uint64_t to_ns);
int bands__rest(struct bands *b, uint32_t pid); /* its phase is over: the next decision of the same phase begins another */
int bands__step(struct bands *b, uint32_t pid, uint64_t number, uint64_t from_ns, uint64_t to_ns);
void bands__end(struct bands *b); /* closes open bands */
const struct band *band_list__at(const struct band_list *l, uint32_t i);

#endif
