/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * probing: plans of followed processes, and how their probes get there: asked of the planner (live/planner.h), begun when they
 * are ready, set slice by slice (live/setter.h), and what became of them told as events. Which operators keep their probes it
 * leaves to live/retire.h.
 *
 * follow.c says whose plans; the session's loop says when.
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
	int all;	       /* jobs may come that nobody named */
	int quiet;	       /* no "attached to" lines */
	struct followed *followed;
	struct decode *decode;
	struct keeper *keeper;
	struct tell tell;
	const struct model *model; /* how many steps a process has begun or ended */
};

/* How a plan gets into a process, beside what it is. */
struct set_how {
	int is_full; /* with the operators that nobody has called */
	int is_inherited, is_hasty, is_at_work, is_named; /* struct setting */
	int is_still; /* nobody runs there: at once */
};

/* 0, or -errno with *err; *ret is the caller's, for probing__free, and untouched on failure. What env points at is borrowed. */
int probing__new(struct probing **ret, const struct probing_env *env, struct err *err);
void probing__free(struct probing *g); /* NULL is fine; probes stay as they are: probing__end */

/* --- of one process: for follow.c ----------------------------------------------------------------------- */

/*
 * Asks for a plan of what the process has mapped (or, only_new, has mapped since); probing__plan_ready begins to set it. Until
 * then the process's libraries are not read again: the planner looks at them.
 */
int probing__plan(struct probing *g, struct process *p, int only_new, const struct set_how *how, struct err *err);
/* A forked child's, instead: its parent's plans fit it. */
int probing__inherit(struct probing *g, struct process *p, const struct process *parent, struct err *err);
/* What is being made or set fits the process no more: it is another program, or gone. */
void probing__drop(struct probing *g, struct process *p);

/* --- of all: for the session ------------------------------------------------------------------------------ */

/* Readable as long as a plan is ready; then only one is taken at a time, since rings fill meanwhile. */
int probing__plans_fd(const struct probing *g);
void probing__plan_ready(struct probing *g);
/* Sets some of what is to be set: each turn of the loop. */
void probing__turn(struct probing *g);
int probing__sleep_ms(const struct probing *g); /* until then at most; -1: for good */
/* 1: what was asked for until now is not all planned and set; 0: it is; -errno: one that was named could not be. */
int probing__awaits(struct probing *g, struct err *err);
/* retire__turn, retire__late_ops */
void probing__turn_idle(struct probing *g);
void probing__late_ops(struct probing *g);
/* Something is on its way into a process, or a plan is being made that will be. */
int probing__is_setting(const struct probing *g);
int probing__is_new(const struct probing *g); /* something was set with all its sites since the last probing__lower */
/*
 * Takes away what is of a higher level, everywhere: 0: it is gone; 1: some is on its way, ask again; -EOPNOTSUPP: that cannot
 * be done here, and nothing was. Nothing may be under way.
 */
int probing__lower(struct probing *g, enum mt_level level);
void probing__raise(struct probing *g); /* what was called so far comes back; begun here, slice by slice */
uint64_t probing__sites_left_out(const struct probing *g); /* that were found, beyond a tree's share of places */
uint64_t probing__files_left_out(const struct probing *g); /* files of processes that were not looked at */
/* Detaches all. */
void probing__end(struct probing *g);

#endif
