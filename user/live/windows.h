/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * windows: levels of tracing (live/levels.h) carried out in a session: the state is read from probing and the model, actions
 * are done by probing and reported as EV_LEVEL.
 */
#ifndef MT_LIVE_WINDOWS_H
#define MT_LIVE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "live/levels.h"
#include "live/overhead.h"
#include "live/staying.h"
#include "live/tell.h"

struct err;
struct followed;
struct model;
struct probing;

struct windows {
	struct levels levels;
	struct probing *probing;
	const struct followed *followed;
	const struct model *model;
	struct tell tell;
	struct staying staying;
	uint64_t start_ns; /* of the session */
	struct overhead overhead; /* of what is set where windows do not make up for it */
	bool is_expensive; /* marks of steps */
	bool blocks_fit;   /* as of the last window that has a price */
	bool is_low; /* levels__is_low, as of the latest turn */
	bool is_quiet, is_reported; /* the latter: it was said that there will be no more windows */
	bool is_reported_expensive; /* reported: a budget of our own is not held */
	bool is_own; /* the budget is the default: where there can be no windows, everything is traced */
	struct windows_marks {
		uint64_t rss_high, gpu_high; /* highest so far */
		uint64_t refusals, odds;     /* of memory; steps that took far longer than others */
	} then; /* as of the latest window */
};

/* Each turn of the loop, and once before the first attach. True: all probes are set, so names are to be looked at soon. */
bool windows__turn(struct windows *w);
/* Requests a window: it comes as soon as the budget allows, or without a budget at once. */
void windows__want(struct windows *w, enum ev_level_why why);
/*
 * From the next whole step on all steps are traced, whatever that costs, until this is taken back: the budget does not pay for
 * it. False: there are no windows, and nothing to hold.
 */
bool windows__hold(struct windows *w, bool is_held);
bool windows__have_all(const struct windows *w); /* all steps are traced, or there are no windows */
/* Only marks of steps have probes, and that is intended. */
bool windows__are_at_rest(const struct windows *w);
bool windows__are_idle(const struct windows *w); /* … and there are windows, with only the marks between them */
/* Nothing but the budget's next window is waited for: what else memtrace does to the job is to be little. */
bool windows__are_sparing(const struct windows *w);
/*
 * Once a second or more often. True: what stays set took more than a requested budget, for several seconds in a row, and no
 * pause will make up for it: detach. A default budget is only reported, once.
 */
bool windows__cost_too_much(struct windows *w);
/* Why it detaches, also as a note in the recording. Returns the error's code. */
int windows__too_costly(const struct windows *w, struct err *err);
void windows__done(struct windows *w);
/* From now on probes are removed, for good: the present step is no whole one any more. */
void windows__end(struct windows *w);

#endif
