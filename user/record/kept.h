/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * kept: the rare events of a stretch of a trace that matter after it: those that add up (processes, sites, segments), in
 * order, and the last of those that replace each other (counters, losses).
 */
#ifndef MT_RECORD_KEPT_H
#define MT_RECORD_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/index.h"
#include "event/event.h"

struct events {
	struct event *v;
	size_t cnt, cap;
};

int events__add(struct events *e, const struct event *ev, size_t max); /* 0, or -ENOMEM: also when there are max */
void events__done(struct events *e);

struct kept {
	struct events all, last; /* events of kind 0 are holes */
	struct index segments, things; /* where which event is */
	size_t holes;
};

int kept_wants(uint8_t kind);
/* Of any kind; what is not wanted is passed over. At most max of each of the two. 0 or -ENOMEM. */
int kept__add(struct kept *k, const struct event *ev, size_t max);
/* Adds later events, in order; removes those of processes that ended meanwhile. Returns how many events found no room. */
uint64_t kept__append(struct kept *k, const struct kept *later, size_t max);
void kept__done(struct kept *k);
static inline size_t kept__bytes(const struct kept *k)
{
	return (k->all.cap + k->last.cap) * sizeof(struct event) + index__bytes(&k->segments) + index__bytes(&k->things);
}

#endif
