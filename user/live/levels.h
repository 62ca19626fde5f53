/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * levels: how much is traced when (include/memtrace/event.h, enum mt_level; plan.h says which site is of which). A session
 * begins at full, to learn which operators the job uses. When its window is over what is above the level in between goes, in
 * the background; when the next is due what the job uses comes back, slice by slice, and what comes new meanwhile (a child, a
 * library) is set whole and goes with the next change. live/cadence.h says when windows are; the model which steps are in one.
 *
 * A state machine without clock or probes: it is told the time and how things stand, and says what is to be done. Jobs
 * without steps have windows of time.
 */
#ifndef MT_LIVE_LEVELS_H
#define MT_LIVE_LEVELS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"
#include "live/cadence.h"
#include "memtrace/event.h"

#define LEVELS_NO_STEPS_NS 2000000000ull  /* so long no step is seen at all: then time is measured */
#define LEVELS_SLICE_NS 1000000000ull	  /* of that, each: for seeing what is there, and traced */
/*
 * A window in which no step ends for so long, and for three times the distance of two windows, is given up. With a budget the
 * next ones are of time. So long it waits, too, for steps that tell what the last window cost.
 */
#define LEVELS_WAIT_NS 60000000000ull

#define LEVELS_READ_NS 3000000000ull /* until probes' counters, which tell it where nobody steps, were read */

enum levels_at { LEVELS_UP, LEVELS_WINDOW, LEVELS_DOWN, LEVELS_RESTING };

struct levels {
	struct cadence cadence; /* not on: nothing of this */
	enum mt_level between; /* with a budget: blocks until that takes too much of it */
	enum levels_at at; /* UP at first: all is being set */
	struct cadence_window window;
	uint64_t number, due_ns, told_ns; /* of windows; of the next one; when the state was told last */
	uint64_t lead_ns; /* probes took so long to be set, the last time; 0: it was the first, of all sites */
	uint64_t begin_ns; /* of a window whose probes are set: it waits until then; 0: it does not */
	uint64_t steps; /* of the process that has most, when that changed last, at … */
	uint64_t step_ns;
	uint8_t slice; /* enum ev_level_state of a window of time; 0: it is none */
	bool is_off; /* changes are not possible here */
	bool is_slow; /* steps are too long for windows of them */
	uint8_t wanted, why; /* enum ev_level_why: the next window as soon as may be; of the one that is */
	bool is_still; /* not even marks of steps are set */
	bool is_change; /* what was set and taken away last was no window: something came, or blocks went */
	bool is_held;  /* set by whoever wants all: the next window comes at once, and goes on until it is cleared */
	bool is_all;   /* the window that is, or was the last, is such a one */
};

/* How things stand. */
struct levels_seen {
	uint64_t now_ns;
	bool is_setting;   /* something is on its way into a process */
	bool is_new;	   /* something was set whole since the last change */
	bool is_priced;	   /* what the last window cost is known as well as it will be */
	bool is_expensive;	   /* what is set between windows takes a large part of the budget, … */
	bool is_settled;   /* … and that is known from steps since the last window */
	uint64_t wall_ns, step_no; /* for --align, as in cadence.h */
	double step_ns;
	uint8_t state;	   /* the model's, of window `window` */
	uint64_t window;
	uint64_t steps;	   /* boundaries, of the process that has most */
	pid_t pid;	   /* that one, or any other */
};

/* What is to be done. */
enum levels_do {
	LEVELS_NOTHING,
	LEVELS_TELL,  /* `level` says what */
	LEVELS_LOWER, /* tell it, if it has a kind, and take away what is above `between`; say levels__lowered */
	LEVELS_RAISE, /* tell it, and set what is used */
};

/* More than once a turn, until it is LEVELS_NOTHING. *ret: the EV_LEVEL to be told. */
enum levels_do levels__turn(struct levels *l, const struct levels_seen *seen, struct event *ret);
/* What stays set until the next window. */
enum mt_level levels__low(const struct levels *l);
/* Steps had time to tell what the last window and marks cost; where none are seen counters had it. */
bool levels__has_waited(const struct levels *l, const struct levels_seen *seen);
/* All that can go between windows has gone: if what is still set costs too much, no rest will make up for it. */
bool levels__is_low(const struct levels *l, const struct levels_seen *seen);
/* 0: all that was to go has gone; 1: not yet; < 0: it cannot be done here, and all stays as it is. */
void levels__lowered(struct levels *l, int r, uint64_t now_ns);

#endif
