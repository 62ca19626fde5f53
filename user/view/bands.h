/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * bands: when a process was in which step, and in it forward, backward or in its optimizer. Bounded.
 *
 * Backward: from a backward node's beginning to the end of the last one before something else.
 * Optimizer: the region "Optimizer.step#…". Forward: operators outside of both, on the thread that steps the optimizer.
 *
 * Steps: when there is no more room, neighbours join ("steps 8 to 15"). Phases: those nearest to one moment are
 * kept; the sums of their times are of all.
 */
#ifndef MT_VIEW_BANDS_H
#define MT_VIEW_BANDS_H

#include <stddef.h>
#include <stdint.h>

#define BANDS_PROCS_MAX 64 /* further processes have none */

enum band_kind { BAND_FORWARD = 0, BAND_BACKWARD, BAND_OPTIMIZER, BAND_KINDS };

struct band {
	uint64_t from_ns, to_ns;
	uint64_t first, last; /* numbers of its steps; 0 in phases */
};

struct band_list {
	struct band *b; /* phases: a ring */
	uint32_t cnt, room, at;
	uint32_t join; /* steps a band holds when it is full */
	uint64_t sum_ns, told;
};

struct bands_proc {
	uint32_t pid, step_tid; /* 0: not known yet */
	struct band_list steps, phases[BAND_KINDS];
	struct band now; /* the phase that is open */
	uint8_t kind;	 /* BAND_KINDS: none */
};

struct bands {
	struct bands_proc *procs[BANDS_PROCS_MAX];
	uint32_t procs_cnt, room;
	uint64_t around_ns;
};

void bands__init(struct bands *b, uint32_t room, uint64_t around_ns); /* room: of each list, at least 2 */
void bands__done(struct bands *b);
/* This process did something of this kind from `from` to `to`, for now: of one kind, they join. 0 or -ENOMEM. */
int bands__phase(struct bands *b, uint32_t pid, uint32_t tid, enum band_kind kind, uint64_t from_ns, uint64_t to_ns);
int bands__step(struct bands *b, uint32_t pid, uint64_t number, uint64_t from_ns, uint64_t to_ns);
void bands__end(struct bands *b); /* closes what is open */
const struct band *band_list__at(const struct band_list *l, uint32_t i);
int band_list__is_whole(const struct band_list *l);
const char *band_name(enum band_kind kind);

#endif
