/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * capture: stacks on the user side: records of them in, EV_STACK and EV_STACK_AT or EV_CAUGHT out.
 *
 * In two steps, as names are: what has to be read from the process is read at once (capture__record), what
 * needs all rings' records is done in order (capture__resolve): the Python frames of a hash may lie in
 * another CPU's ring than its first use.
 *
 * Nothing of a stack's bytes is kept: they are unwound and forgotten.
 */
#ifndef MT_STACK_CAPTURE_H
#define MT_STACK_CAPTURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"

struct capture;
struct mt_py_proc;
struct py_frame_offsets;
struct py_tsd;

#define CAPTURE_PROCS_MAX 1024

struct capture_env {
	struct names *names;
	/* Tells the kernel side how to find a process's Python frames; NULL: no Python frames are wanted. */
	int (*python)(void *ctx, pid_t pid, const struct mt_py_proc *how);
	int native; /* native frames are wanted: symbols are loaded when a process begins, before there is anything to drain */
	/* A sentence for the report, once a process. */
	void (*note)(void *ctx, pid_t pid, const char *text);
	void *ctx;
};

/* What the kernel side needs to find Python's frames. */
struct mt_py_proc capture_how(const struct py_frame_offsets *at, const struct py_tsd *tsd);

struct capture *capture__new(const struct capture_env *env); /* NULL: no memory */
void capture__free(struct capture *c);
/* A process is followed, or runs another program now. */
void capture__begin(struct capture *c, pid_t pid);
void capture__end(struct capture *c, pid_t pid);
int capture__has(struct capture *c, pid_t pid); /* it was begun */
int capture__reads_python(struct capture *c, pid_t pid); /* … and the kernel side knows how its Python frames are found */
/* Now and then: interpreters that were not ready when their process began. */
void capture__retry(struct capture *c);
/* Is it one of ours? */
int capture__wants(const void *rec, size_t len);
/* 1: *ret is to be put in order; 0: nothing more to do, or not a record as it should be (counted). */
int capture__record(struct capture *c, const void *rec, size_t len, struct event *ret);
/*
 * In order: EV_STACK_AT or EV_CAUGHT gets its node, and nodes that are new are told to `fn` before. 1: *ev is to be
 * passed on; 0: its stack is not known; or fn's error.
 */
int capture__resolve(struct capture *c, struct event *ev, event_fn fn, void *ctx);
pid_t capture__next_over(struct capture *c); /* a process over its share of stacks that was not known here yet; 0: none */
uint64_t capture__bad_cnt(const struct capture *c);  /* records that were not as they should be */
uint64_t capture__lost_cnt(const struct capture *c); /* stacks for want of room or of their Python frames */

#endif
