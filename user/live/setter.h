/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * setter: plans on their way into processes. Whoever hits a probe waits while others are being set in its process, so they are
 * set in slices, one a turn of the loop, and never one right after the other: between them the job goes on, and rings are
 * emptied. What marks steps goes first, in all processes, so that steps are timed before anything else costs them time; then
 * what frees and what allocates; the thousands of operators follow.
 */
#ifndef MT_LIVE_SETTER_H
#define MT_LIVE_SETTER_H

#include <stdint.h>

#include "trace/trace.h"

/*
 * How long a turn may set, and the least rest after it, also where sites are set anew (live/retire.h). Threads that wait for
 * the lock of their address space wait a slice, a little more where it is found too long when it is over; and all that they can
 * wait in a step of 57 ms is 10 ms.
 */
#define SLICE_NS 2000000ull
#define REST_NS	 9500000ull
/*
 * On a machine where memtrace hardly gets a turn (seen: one in 0.2 s, at nice 15 beside two busy loops) the keeper sets what
 * was missed with the same rests, since it is awake; so many slices at most, for nothing is drained meanwhile.
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
	int is_inherited; /* the plan of a parent: what became of its symbols was told */
	int is_hasty;	  /* its operators begin at once; the process has just begun, so pauses are shorter … */
	int is_at_work;	  /* … but not where these are libraries that one loads which makes steps */
	int is_named;	  /* the user asked for this one: its failure is the session's */
	int is_awaited;	  /* the session begins when it is set */
	int is_again;	  /* it was set before, and taken away for a while (live/levels.h) */
	int is_late;	  /* operators that are called although their probes were taken away (live/retire.h) */
	uint64_t places, file_places; /* that its process was charged with for it (live/followed.h) */
	uint64_t look_ns, look_steps; /* live/follow.c: since when its steps are looked at, how many there were */
	uint64_t begin_ns; /* of its operators; 0: not yet */
};

/* One is over: 0, the error of setting it, or -ECANCELED: it was dropped with some of its sites set. */
typedef void (*setting_done_fn)(void *ctx, struct setting *s, int r, struct err *err);

/* The marks of one are set, if it has any: may the rest begin? Else it is asked again in the next turn. */
typedef int (*setting_may_fn)(void *ctx, struct setting *s);

/* NULL: no memory */
struct setter *setter__new(struct keeper *keeper, setting_may_fn may_begin, setting_done_fn done, void *ctx);
void setter__free(struct setter *s); /* those under way are forgotten */
/* wanted: NULL, or a byte a site, copied. A user of ref. The setter's until it is done; NULL: no memory. */
struct setting *setter__add(struct setter *s, struct process *p, struct plan_ref *ref, const uint8_t *wanted);
/*
 * Operators that are called already, so they need not wait until they may. One such that was not begun yet has the new `wanted`
 * instead. 1: another one is over later; 0: that one; or -ENOMEM.
 */
int setter__add_late(struct setter *s, struct process *p, struct plan_ref *ref, const uint8_t *wanted);
/* All of it, at once: nobody runs in there. */
void setter__run(struct setter *s, struct setting *one);
/* A slice, if it is time for one. */
void setter__turn(struct setter *s);
/* How long the loop may sleep at most, in ms; -1: for good. */
int setter__sleep_ms(const struct setter *s);
void setter__drop(struct setter *s, const struct process *p); /* what is under way there; NULL: everywhere */
int setter__is_idle(const struct setter *s); /* nothing is under way */
int setter__is_awaited(const struct setter *s); /* 1: one of those is under way */

#endif
