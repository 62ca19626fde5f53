/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * capture: stacks on the user side: records of them in, EV_STACK and EV_STACK_AT or EV_CAUGHT out.
 *
 * In two steps, like names: what has to be read from the process is read at once (capture__record), what needs all rings'
 * records is done in time order (capture__resolve): the Python frames of a hash may be in another CPU's ring than its first
 * use.
 *
 * The bytes of a stack are not kept: they are unwound and dropped.
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
	/* Sends the kernel side how to find a process's Python frames; NULL: Python frames are not wanted. */
	int (*python)(void *ctx, pid_t pid, const struct mt_py_proc *how);
	int native; /* native frames are wanted: symbols are loaded when a process begins, before there is anything to drain */
	/* A sentence for the report, once per process. */
	void (*note)(void *ctx, pid_t pid, const char *text);
	void *ctx;
};

/* What the kernel side needs to find Python's frames. */
struct mt_py_proc capture_how(const struct py_frame_offsets *at, const struct py_tsd *tsd);

struct capture *capture__new(const struct capture_env *env); /* NULL: no memory */
void capture__free(struct capture *c);
/* A process is followed now, or runs another program. */
void capture__begin(struct capture *c, pid_t pid);
void capture__end(struct capture *c, pid_t pid);
int capture__has(struct capture *c, pid_t pid); /* capture__begin was called for it */
int capture__reads_python(struct capture *c, pid_t pid); /* … and the kernel side knows how to find its Python frames */
/* Now and then: for interpreters that were not ready when their process began. */
void capture__retry(struct capture *c);
/* Is it a record of stacks? */
int capture__wants(const void *rec, size_t len);
/* 1: *ret is to be put in order; 0: nothing more to do, or a malformed record (counted). */
int capture__record(struct capture *c, const void *rec, size_t len, struct event *ret);
/*
 * In time order: EV_STACK_AT or EV_CAUGHT gets its node, after new nodes were passed to `fn`. 1: pass *ev on; 0: its stack is
 * unknown; or fn's error.
 */
int capture__resolve(struct capture *c, struct event *ev, event_fn fn, void *ctx);
pid_t capture__next_over(struct capture *c); /* a process over its share of stacks that was not returned yet; 0: none */
uint64_t capture__bad_cnt(const struct capture *c);  /* malformed records */
uint64_t capture__lost_cnt(const struct capture *c); /* stacks lost for want of room or of their Python frames */

#endif
