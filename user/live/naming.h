/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * naming: reads the names of tensors and modules from the Python of followed processes, and reports them as events (EV_MODULE,
 * EV_TENSOR, and EV_NOTE where they are unknown); also how the kernel side finds the module whose forward runs.
 *
 * A look takes from 20 ms to half a second, rings are emptied every 10 ms: so looks are the work of a second thread, one look
 * at a time and one a second at most; it touches nothing but its own reader, and the session's thread reports what it found. A
 * process is looked at less often the longer a look at it takes (the pause is NAMING_REST times that at least) and the longer
 * nothing has changed (up to NAMING_GAP_MAX_NS).
 *
 * A process that is followed from its start imports for seconds, and searches for modules find nothing and become rare. Its
 * first backward and its first step show that there are modules: then a search is due at once. What a look found that the next
 * one must find, too, waits a second for it, NAMING_HURRIES times. The search is repeated as often where one found no optimizer
 * then, or was cut short because the interpreter changed its lists while they were read.
 */
#ifndef MT_LIVE_NAMING_H
#define MT_LIVE_NAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

#define NAMING_PROCS_MAX 64 /* shared evenly by trees of processes where there are more */
#define NAMING_BYTES_MAX (512ull << 20) /* kept by readers between looks; one alone has 256 MiB (python/walk.h) */
#define NAMING_EVERY_NS 1000000000ull
#define NAMING_REST 50 /* 2 % of a core at most */
#define NAMING_GAP_MAX_NS 8000000000ull
#define NAMING_REST_GAP_NS 64000000000ull /* the same while nothing is traced */
#define NAMING_HURRIES 4
#define NAMING_FINISH_NS 2000000000ull /* the longest wait, at the end, for a look that is under way */
#define NAMING_SEARCH_MIN_NS 2000000000ull  /* between two searches for modules, at first … */
#define NAMING_SEARCH_MAX_NS 16000000000ull /* … and when they find nothing new */

struct err;
struct followed;
struct keeper;
struct model;
struct naming;
struct placing;

struct naming_env {
	int modules; /* send the kernel side how a process's modules are found, and which have names */
	const struct followed *followed;
	struct keeper *keeper;
	struct placing *placing; /* gets a process's Python when modules are looked for there; may be NULL */
	const struct model *model;
	struct tell tell;
};

/* 0, or -errno with *err; *ret is the caller's, for naming__free, and untouched on failure. What env refers to is borrowed. */
int naming__new(struct naming **ret, const struct naming_env *env, struct err *err);
void naming__free(struct naming *n); /* waits for a look that is under way */
uint64_t naming__left_out_cnt(const struct naming *n); /* modules and tensors beyond the limits of a look (python/walk.h) */
int naming__fd(const struct naming *n); /* readable when naming__done has something to do */
/* Begins a look at the next process, if one is due. pids: those that are followed now. */
void naming__turn(struct naming *n, const pid_t *pids, size_t cnt, uint64_t now_ns);
void naming__rest(struct naming *n, int is_resting); /* nothing is traced, or something is again */
/* All are due now: blocks wait to be confirmed (model/model_levels.c). NULL is fine, here and in the next one. */
void naming__hurry(struct naming *n);
void naming__hold(struct naming *n, bool is_held); /* no look begins meanwhile, and one is due then. NULL is fine */
/* A process began to train since the last call, or looks are held no more: one is due now. */
bool naming__has_begun(struct naming *n);
/* The place of the step count of a process's optimizer, as the last look found it. false: there is none. */
struct step_count_place;
bool naming__count_of(const struct naming *n, pid_t pid, struct step_count_place *ret);
/* Reports what the look found. */
void naming__done(struct naming *n, uint64_t now_ns);
/* The end, after the detach: what live processes have compiled since their last look. NULL is fine. */
void naming__finish(struct naming *n);

#endif
