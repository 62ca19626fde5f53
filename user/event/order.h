/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * order: merges events of several rings into one sequence by time, in a bounded window.
 *
 * Ring order is the order of reserves, not of time, and each ring is only nearly sorted (a program
 * can be preempted between reading the clock and reserving). Events wait for order__flush with
 * a time before which nothing can still come. Equal times keep the order of push. An event that comes
 * after its time was flushed is not dropped (a lost free would be worse): it is passed on with the time
 * of the last event, and counted as late.
 */
#ifndef MT_EVENT_ORDER_H
#define MT_EVENT_ORDER_H

#include "event/event.h"

struct order;

/* window_max: events that may wait; when full, the oldest half is flushed early. NULL: no memory. */
struct order *order__new(size_t window_max, event_fn fn, void *ctx);
void order__free(struct order *o); /* what still waits is dropped: flush first */
/* 0 or the consumer's error. */
int order__push(struct order *o, const struct event *ev);
/* Passes on everything with ts_ns <= until_ns (UINT64_MAX: all). 0 or the consumer's error. */
int order__flush(struct order *o, uint64_t until_ns);
/* The same for at most `max` events. 1: there are more. */
int order__flush_some(struct order *o, uint64_t until_ns, size_t max);
uint64_t order__late_cnt(const struct order *o);
size_t order__waiting(const struct order *o);

#endif
