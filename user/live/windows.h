/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * windows: levels of tracing (live/levels.h) carried out in a session: how things stand is asked of probing and the model, what
 * is to be done is done by probing, and told as EV_LEVEL.
 */
#ifndef MT_LIVE_WINDOWS_H
#define MT_LIVE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "live/levels.h"
#include "live/overhead.h"
#include "live/staying.h"
#include "live/tell.h"

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
	struct overhead overhead; /* of what is set where nothing makes up for it */
	bool is_expensive; /* marks of steps */
	bool is_low; /* levels__is_low, as of the latest turn */
	bool is_quiet, is_told; /* told: that there will be no more windows */
	bool is_told_expensive; /* a budget of our own is not held */
	bool is_own; /* nobody asked for this budget: where there can be no windows all is traced */
	struct windows_marks {
		uint64_t rss_high, gpu_high; /* at most so far */
		uint64_t refusals, odds;     /* of memory; steps that took far longer than others */
	} then; /* as of the latest window */
};

/* Each turn of the loop, and once before anything is attached to. True: all is set, so names are to be looked at soon. */
bool windows__turn(struct windows *w);
/* Somebody wants a window: it comes as soon as the budget allows, or without one at once. */
void windows__want(struct windows *w, enum ev_level_why why);
/*
 * From the next whole step on all are traced, whatever that costs, until it is taken back: the budget does not pay for it.
 * False: there are no windows, and nothing to hold.
 */
bool windows__hold(struct windows *w, bool is_held);
bool windows__have_all(const struct windows *w); /* it is so, or there are no windows */
/* Nothing but marks of steps has probes, and that for good reason. */
bool windows__are_at_rest(const struct windows *w);
bool windows__are_idle(const struct windows *w); /* … and there are windows, between which that is all */
/*
 * Once a second or more often: what stays set took more than a budget that was asked for, for some seconds on end, and no rest
 * will make up for it: to be detached. Of one that nobody asked for it is said, once.
 */
bool windows__cost_too_much(struct windows *w);
void windows__done(struct windows *w);
/* From now on probes go, for good: what is under way is no whole step any more. */
void windows__end(struct windows *w);

#endif
