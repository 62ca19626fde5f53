/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * answers: `serve`'s answers to requests, made from the last report, by a thread of its own.
 *
 *	the loop ── answers__tell(report) ──► [ one report ] ──► the thread: /metrics, /healthz, the page's documents
 *	the loop ◄── answers__wants_fd: somebody began to listen, a report with tables is wanted soon
 *
 * The thread never waits for the loop: it answers from the report that it has, with its age. No client waits for what holds
 * up the loop (a core beside busy jobs, a process that blocks its readers, its own keeper).
 */
#ifndef MT_SERVE_ANSWERS_H
#define MT_SERVE_ANSWERS_H

#include <stddef.h>

struct answers;
struct err;
struct gate;
struct report;

#define ANSWERS_OLD_S 60 /* with older numbers /healthz is 503 */

/* fd listens; owned by *ret from here on, also after a failure; gate is borrowed. No thread yet: rights may be given away. */
int answers__new(struct answers **ret, int fd, const struct gate *gate, struct err *err);
/* From here on requests are answered. Signals not for the thread are blocked by now. Again: nothing more. 0 or -errno. */
int answers__begin(struct answers *a);
/* The newest report, theirs from here on. is_over: the last one, all that was traced has ended. */
void answers__tell(struct answers *a, struct report *r, int is_over);
/* Rows of tables that listeners need in the next report; 0: none. */
size_t answers__rows(const struct answers *a);
int answers__wants_fd(const struct answers *a); /* an eventfd: can be read when there should be a next report soon */
void answers__free(struct answers *a); /* NULL is fine */

#endif
