/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * levels: how much is traced when (include/memtrace/event.h, enum mt_level; plan.h has the level of each site). A session
 * begins at full, to learn which operators the job uses. When its window is over, everything above the level in between is
 * removed, in the background; when the next window is due, what the job uses comes back, slice by slice. What comes new
 * meanwhile (a child, a library) is set whole and goes with the next change. live/cadence.h decides when windows are, the model
 * which steps are in one.
 *
 * A state machine without clock or probes: the time and the state are given, and it returns what to do. Jobs without steps have
 * windows of time.
 */
#ifndef MT_LIVE_LEVELS_H
#define MT_LIVE_LEVELS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"
#include "live/cadence.h"
#include "memtrace/event.h"

#define LEVELS_NO_STEPS_NS 2000000000ull  /* after this time without any step, windows are measured in time */
#define LEVELS_SLICE_NS 1000000000ull	  /* each part of such a window: to see what is there, and traced */
/*
 * A window in which no step ends for this long, and for three times the distance of two windows, is given up. With a budget the
 * next ones are of time. It also waits this long for steps that show what the last window cost.
 */
#define LEVELS_WAIT_NS 60000000000ull

#define LEVELS_READ_NS 3000000000ull /* without steps: until the probes' counters, which show the cost instead, were read */

enum levels_at { LEVELS_UP, LEVELS_WINDOW, LEVELS_DOWN, LEVELS_RESTING };

struct levels {
	struct cadence cadence; /* if it is not on, nothing here is used */
	enum mt_level between; /* with a budget: blocks, until that takes too much of it */
	bool is_auto; /* … or watch, until blocks fit it; once they were too much, for good */
	enum levels_at at; /* UP at first: all probes are being set */
	struct cadence_window window;
	uint64_t number, due_ns, reported_ns; /* of windows; when the next one is due; when the state was last reported */
	uint64_t lead_ns; /* how long the probes took to set the last time; 0: that was the first time, with all sites */
	uint64_t begin_ns; /* of a window whose probes are set: it waits until then; 0: no wait */
	uint64_t steps; /* of the process that has most, when that last changed, at … */
	uint64_t step_ns;
	uint8_t slice; /* enum ev_level_state of a window of time; 0: none */
	bool is_off; /* changes are not possible here */
	bool is_slow; /* steps are too long for windows of them */
	uint8_t wanted, why; /* enum ev_level_why: of the next window, wanted as soon as possible; of the present one */
	bool is_still; /* not even marks of steps are set */
	bool is_change; /* the last set and removal was no window: something new came, or blocks were removed */
	bool is_held;  /* set by a caller that wants all steps: the next window comes at once, and lasts until it is cleared */
	bool is_all;   /* the present or the last window is such a one */
};

/* The present state, as the caller sees it. */
struct levels_seen {
	uint64_t now_ns;
	bool is_setting;   /* plans are being set in a process */
	bool is_new;	   /* something was set whole since the last change */
	bool is_priced;	   /* the last window's cost is known as well as it will be */
	bool is_expensive;	   /* what is set between windows takes a large part of the budget, … */
	bool is_settled;   /* … and that is known from steps since the last window */
	bool blocks_fit;   /* allocations and frees could be seen between windows, too */
	uint64_t wall_ns, step_no; /* for --align, as in cadence.h */
	double step_ns;
	uint8_t state;	   /* as the model has it, of window `window` */
	uint64_t window;
	uint64_t steps;	   /* boundaries, of the process that has most */
	pid_t pid;	   /* that process, or any other */
};

/* What the caller has to do. */
enum levels_do {
	LEVELS_NOTHING,
	LEVELS_TELL,  /* report the event */
	LEVELS_LOWER, /* report the event, if it has a kind; remove what is above `between`; then call levels__lowered */
	LEVELS_RAISE, /* report the event, and set what is used */
};

/* Called in each turn until it returns LEVELS_NOTHING. *ret: the EV_LEVEL to report. */
enum levels_do levels__turn(struct levels *l, const struct levels_seen *seen, struct event *ret);
/* What stays set until the next window. */
enum mt_level levels__low(const struct levels *l);
/* Steps had time to show the cost of the last window and of marks; without steps the counters had. */
bool levels__has_waited(const struct levels *l, const struct levels_seen *seen);
/* Everything that can go between windows is gone: if the rest still costs too much, no pause makes up for it. */
bool levels__is_low(const struct levels *l, const struct levels_seen *seen);
/* r: 0: all that had to go is gone; 1: not yet; < 0: not possible here, everything stays as it is. */
void levels__lowered(struct levels *l, int r, uint64_t now_ns);

#endif
