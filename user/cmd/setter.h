/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * setter: plans on their way into processes. Whoever hits a probe waits while others are being set in its process, so they are
 * set in slices, one a turn of the loop, and never one right after the other: between them the job goes on, and rings are
 * emptied. What frees, what gives birth and what marks steps goes first, in all processes; the thousands of operators follow.
 */
#ifndef MT_CMD_SETTER_H
#define MT_CMD_SETTER_H

#include <stdint.h>

#include "trace/trace.h"

struct keeper;
struct plan_ref; /* cmd/followed.h */
struct process;
struct setter;

struct setting {
	struct setting *next;
	struct process *p;
	struct plan_ref *ref;
	struct attach_stats st; /* wanted and site_failed are its own */
	int is_inherited; /* the plan of a parent: what became of its symbols was told */
	int is_hasty;	  /* the process has just begun and is not at work yet: shorter pauses */
	int is_named;	  /* the user asked for this one: its failure is the session's */
	int is_awaited;	  /* the session begins when it is set */
	int is_late;	  /* operators that are called although their probes were taken away (cmd/retire.h) */
	uint64_t look_ns, look_steps; /* cmd/follow.c: since when its steps are looked at, how many there were */
	uint64_t begin_ns; /* of its operators; 0: not yet */
};

/* One is over: 0, the error of setting it, or -ECANCELED: it was dropped with some of its sites set. */
typedef void (*setting_done_fn)(void *ctx, struct setting *s, int r, struct err *err);

/* All but the operators of one is set: may they begin? Else it is asked again in the next turn. */
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
int setter__is_awaited(const struct setter *s); /* 1: one of those is under way */

#endif
