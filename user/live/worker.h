/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * worker: a second thread beside the loop, which does one piece of work after the other and signals each end on a descriptor
 * that the loop sleeps on. Called by planner.c, naming.c and placing.c, which know the work; each piece is a struct that begins
 * with struct work, and is the worker's until it is taken back.
 */
#ifndef MT_LIVE_WORKER_H
#define MT_LIVE_WORKER_H

struct err;
struct worker;

struct work {
	struct work *next;
};

/* do_work runs on the thread. `what`: the thread's work, for the error. 0 or -errno. */
int worker__new(struct worker **ret, void (*do_work)(void *ctx, struct work *w), void *ctx, const char *what, struct err *err);
/*
 * Ends the thread after its present piece; wait_s: the longest wait; 0: as long as it takes. 1: it did not end: what it was
 * given stays its own, because memtrace is about to end. NULL is fine.
 */
int worker__end(struct worker *wk, unsigned wait_s);
void worker__free(struct worker *wk); /* only after worker__end; NULL is fine */
int worker__fd(const struct worker *wk); /* readable when worker__done has something */
const int *worker__stop(const struct worker *wk); /* atomic: long work gives up when it is not 0 */
void worker__add(struct worker *wk, struct work *w);
/* The next piece that is done, the caller's again; NULL: none. */
struct work *worker__done(struct worker *wk);

#endif
