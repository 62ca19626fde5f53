/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * setter: plans being set in processes. A thread that hits a probe waits while others are being set in its process, so they are
 * set in slices, one a turn of the loop, and never one right after the other: between them the job goes on, and rings are
 * emptied. Marks of steps go first, in all processes, so that steps are timed before anything else costs them time; then frees
 * and allocations; then the thousands of operators.
 */
#ifndef MT_LIVE_SETTER_H
#define MT_LIVE_SETTER_H

#include <stdint.h>

#include "trace/trace.h"

/*
 * How long a turn may set, and the least rest after it, also where sites are set anew (live/retire.h). Threads that need the
 * lock of their address space wait for a slice, or a little more where it ends late; in a step of 57 ms they can wait 10 ms in
 * all.
 */
#define SLICE_NS 2000000ull
#define REST_NS	 9500000ull
/*
 * On a machine where memtrace hardly gets a turn (seen: one in 0.2 s, at nice 15 beside two busy loops) the keeper sets the
 * missed slices with the same rests, since it is awake; at most this many, because nothing is drained meanwhile.
 */
#define SLICES_MISSED_MAX 8

struct keeper;
struct plan_ref; /* live/followed.h */
struct process;
struct setter;

struct setting {
	struct setting *next;
	struct process *p;
	struct plan_ref *ref;
	struct attach_stats st; /* wanted and site_failed are its own */
	int is_inherited; /* the plan of a parent: the results for its symbols were reported */
	int is_hasty;	  /* its operators begin at once; the process has just started, so pauses are shorter … */
	int is_at_work;	  /* … but not for libraries that a process loads which already makes steps */
	int is_named;	  /* the user named this process: its failure is the session's */
	int is_awaited;	  /* the session begins once it is set */
	int is_again;	  /* it was set before, and removed for a while (live/levels.h) */
	int is_late;	  /* operators that are called although their probes were removed (live/retire.h) */
	uint64_t places, file_places; /* charged to its process (live/followed.h) */
	uint64_t look_ns, look_steps; /* live/follow.c: since when its steps are watched, and how many there were */
	uint64_t begin_ns; /* start of its operators; 0: not yet */
};

/* A setting is over: 0, its error, or -ECANCELED: it was dropped with some of its sites set. */
typedef void (*setting_done_fn)(void *ctx, struct setting *s, int r, struct err *err);

/* The marks of a setting are set, if it has any: may the rest begin? If not, asked again in the next turn. */
typedef int (*setting_may_fn)(void *ctx, struct setting *s);

/* NULL: no memory */
struct setter *setter__new(struct keeper *keeper, setting_may_fn may_begin, setting_done_fn done, void *ctx);
void setter__free(struct setter *s); /* settings under way are dropped */
/* wanted: NULL, or a byte per site, copied. A user of ref. The setter's until it is done; NULL: no memory. */
struct setting *setter__add(struct setter *s, struct process *p, struct plan_ref *ref, const uint8_t *wanted);
/*
 * Operators that are already called, so they begin without may_begin. Such a setting that has not begun yet gets the new
 * `wanted` instead. 1: one more setting will end later; 0: only that one; or -ENOMEM.
 */
int setter__add_late(struct setter *s, struct process *p, struct plan_ref *ref, const uint8_t *wanted);
/* All of it, at once: the process does not run. */
void setter__run(struct setter *s, struct setting *one);
/* The next slice, if it is due. */
void setter__turn(struct setter *s);
/* How long the loop may sleep at most, in ms; -1: no limit. */
int setter__sleep_ms(const struct setter *s);
void setter__drop(struct setter *s, const struct process *p); /* drops what is under way there; NULL: everywhere */
int setter__is_idle(const struct setter *s); /* nothing is under way */
int setter__is_awaited(const struct setter *s); /* 1: an awaited setting is under way */
int setter__is_watching(const struct setter *s); /* 1: may_begin watches a process's steps, or is about to */

#endif
