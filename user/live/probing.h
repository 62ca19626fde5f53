/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * probing: plans of followed processes, and how their probes get there: requested from the planner (live/planner.h), begun when
 * they are ready, set slice by slice (live/setter.h), and the results reported as events. live/retire.h decides which operators
 * keep their probes.
 *
 * Called by follow.c, with the process to plan, and by the session's loop, in each turn.
 */
#ifndef MT_LIVE_PROBING_H
#define MT_LIVE_PROBING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"
#include "plan/plan.h"

struct decode;
struct err;
struct followed;
struct keeper;
struct model;
struct probing;
struct process;

struct probing_env {
	struct plan_opts plan; /* what to probe; only_new_libs is set for each plan */
	int all;	       /* jobs that nobody named may come */
	int quiet;	       /* no "attached to" lines */
	struct followed *followed;
	struct decode *decode;
	struct keeper *keeper;
	struct tell tell;
	const struct model *model; /* for the steps that a process has begun or ended */
};

/* How to set a plan in a process. */
struct set_how {
	int is_full; /* includes operators that nobody has called */
	int is_inherited, is_hasty, is_at_work, is_named; /* struct setting */
	int is_still; /* the process does not run yet: all at once */
};

/* 0, or -errno with *err; *ret is the caller's, for probing__free, and untouched on failure. What env refers to is borrowed. */
int probing__new(struct probing **ret, const struct probing_env *env, struct err *err);
void probing__free(struct probing *g); /* NULL is fine; probes stay set: probing__end removes them */

/* --- one process: for follow.c ------------------------------------------------------------------------------ */

/*
 * Requests a plan of what the process has mapped (or, only_new, has mapped since); probing__plan_ready begins to set it. Until
 * then the process's libraries are not read again: the planner looks at them.
 */
int probing__plan(struct probing *g, struct process *p, int only_new, const struct set_how *how, struct err *err);
/* For a forked child, instead: its parent's plans fit it. */
int probing__inherit(struct probing *g, struct process *p, const struct process *parent, struct err *err);
/* What is being made or set no longer fits: the process has ended or runs another program. */
void probing__drop(struct probing *g, struct process *p);

/* --- all processes: for the session --------------------------------------------------------------------------- */

/* Readable while a plan is ready; only one is taken at a time, since rings fill meanwhile. */
int probing__plans_fd(const struct probing *g);
void probing__plan_ready(struct probing *g);
/* Sets the next slice: each turn of the loop. */
void probing__turn(struct probing *g);
int probing__sleep_ms(const struct probing *g); /* the longest sleep until the next slice; -1: no limit */
/* 1: some of what was requested is not yet planned and set; 0: all is; -errno: a named process could not be attached. */
int probing__awaits(struct probing *g, struct err *err);
/* retire__turn, retire__late_ops */
void probing__turn_idle(struct probing *g);
void probing__late_ops(struct probing *g);
/* Something is being set in a process, or a plan is being made for one. */
int probing__is_setting(const struct probing *g);
int probing__is_watching(const struct probing *g); /* a process's steps, before the first probe inside of them */
int probing__is_new(const struct probing *g); /* a plan was set with all its sites since the last probing__lower */
/*
 * Removes everything of a higher level, in all processes. 0: it is gone; 1: some is still being removed, ask again;
 * -EOPNOTSUPP: not possible here, nothing was removed. Nothing may be under way.
 */
int probing__lower(struct probing *g, enum mt_level level);
void probing__raise(struct probing *g); /* what was called so far is set again; begun here, slice by slice */
uint64_t probing__sites_left_out(const struct probing *g); /* sites found beyond a tree's share of places */
uint64_t probing__files_left_out(const struct probing *g); /* files of processes that were not looked at */
/* Detaches all. */
void probing__end(struct probing *g);

#endif
