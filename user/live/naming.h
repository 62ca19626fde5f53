/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * naming: asks the Python of followed processes what their tensors are called, and says it as events
 * (EV_MODULE, EV_TENSOR, and EV_NOTE where it cannot be known); and how the kernel side finds whose forward runs.
 *
 * A look takes from 20 ms to half a second, rings are emptied every 10 ms: so looks are the work of a second
 * thread, one look at a time and one a second at most; it touches nothing but its own reader, and everything
 * that it found is said by the session's thread. A process is looked at the more seldom the longer a look at it
 * takes (NAMING_REST times that is the least pause) and the longer nothing has changed (up to NAMING_GAP_MAX_NS).
 *
 * A process that is followed from its start imports for seconds, and searches for modules find nothing and become seldom. Its
 * first backward and its first step say that they are there: then one is due at once, and what a look found that the next
 * one must find, too, waits a second for it, NAMING_HURRIES times. As often another search is asked for where one found no
 * optimizer then, or was cut short by an interpreter that changed its lists as they were read.
 */
#ifndef MT_LIVE_NAMING_H
#define MT_LIVE_NAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

#define NAMING_PROCS_MAX 64 /* shared evenly by trees of processes where there are more */
#define NAMING_BYTES_MAX (512ull << 20) /* that readers keep between looks; one alone has 256 MiB (python/walk.h) */
#define NAMING_EVERY_NS 1000000000ull
#define NAMING_REST 50 /* 2 % of a core at most */
#define NAMING_GAP_MAX_NS 8000000000ull
#define NAMING_REST_GAP_NS 64000000000ull /* the same while nothing is traced */
#define NAMING_HURRIES 4
#define NAMING_FINISH_NS 2000000000ull /* so long the end waits for a look that is under way */
#define NAMING_SEARCH_MIN_NS 2000000000ull  /* between two searches for modules, at first … */
#define NAMING_SEARCH_MAX_NS 16000000000ull /* … and when they find nothing new */

struct err;
struct followed;
struct keeper;
struct model;
struct naming;
struct placing;

struct naming_env {
	int modules; /* the kernel side is told how a process's modules are found, and which have names */
	const struct followed *followed;
	struct keeper *keeper;
	struct placing *placing; /* is told a process's Python when modules are looked for there; may be NULL */
	const struct model *model;
	struct tell tell;
};

/* 0, or -errno with *err; *ret is the caller's, for naming__free, and untouched on failure. What env points at is borrowed. */
int naming__new(struct naming **ret, const struct naming_env *env, struct err *err);
void naming__free(struct naming *n); /* waits for a look that is under way */
uint64_t naming__left_out_cnt(const struct naming *n); /* modules and tensors over the limits of a look (python/walk.h) */
int naming__fd(const struct naming *n); /* can be read when naming__done has something to do */
/* Begins a look at the process whose turn it is, if one is due. pids: those that are followed now. */
void naming__turn(struct naming *n, const pid_t *pids, size_t cnt, uint64_t now_ns);
void naming__rest(struct naming *n, int is_resting); /* nothing is traced, or again something */
/* All are due now: blocks wait to be confirmed (model/model_levels.c). NULL is fine, here and in the next one. */
void naming__hurry(struct naming *n);
bool naming__has_begun(struct naming *n); /* a process began to train since the last call: it is due now */
/* Where a process's optimizer counts its steps, as the last look found it. false: it does not. */
struct said_count;
bool naming__count_of(const struct naming *n, pid_t pid, struct said_count *ret);
/* Says what the look found. */
void naming__done(struct naming *n, uint64_t now_ns);
/* The end, behind the detach: what was compiled since the last look in processes that still live. NULL is fine. */
void naming__finish(struct naming *n);

#endif
