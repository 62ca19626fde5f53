/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * closer: closes probe links without holding up the event loop or the job. Closing one removes its sites, for which threads of
 * the job wait, and then waits itself for a grace period of the kernel (measured: 35 to 95 ms each on 6.18). So a few threads
 * that do nothing else begin one after the other, with pauses in which the job goes on, and wait side by side. They use only
 * descriptors.
 */
#ifndef MT_TRACE_CLOSER_H
#define MT_TRACE_CLOSER_H

#include <stddef.h>
#include <stdint.h>

struct closer;

struct closing {
	int fd;
	uint64_t work_ns; /* about how long others may wait for it */
};

struct closer *closer__new(void); /* NULL: no memory; then closer__add closes at once */
void closer__free(struct closer *c); /* waits until all are closed; all pauses together take two seconds at most */
int closer__is_idle(struct closer *c); /* all that were added are closed */
#define CLOSER_THREADS 64
/* Closes them in the background, at most this many at one time; each pair is begun in the order given. */
void closer__add(struct closer *c, const struct closing *v, size_t cnt, size_t threads);

#endif
