/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * closer: closes probe links without holding up the event loop. Closing one waits for a grace period
 * of the kernel (measured: 35 to 90 ms each on 6.18), but many can wait for the same one: so a few
 * threads that do nothing else. The only second threads of memtrace; they touch descriptors alone.
 */
#ifndef MT_TRACE_CLOSER_H
#define MT_TRACE_CLOSER_H

#include <stddef.h>

struct closer;

struct closer *closer__new(void); /* NULL: no memory; then closer__add closes at once */
void closer__free(struct closer *c); /* waits until all are closed */
/* Copies the descriptors and closes them in the background, each pair in the order given. */
void closer__add(struct closer *c, const int *fds, size_t cnt);

#endif
