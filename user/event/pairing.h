/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * pairing: whose backward a node is: the module whose forward made it. Between order and the model, where forward comes
 * before backward.
 *
 * Autograd numbers the nodes that a thread makes, one by one. MT_EV_MODULE gives the module whose forward runs on a thread, and
 * the number from which on it does; MT_EV_NODE gives the number of the node that is evaluated. So the last changes of each
 * thread are kept, by number. A node is looked up at the thread that evaluates it (on a CPU backward runs on the thread that
 * called it) or, if that has no forward, as a GPU's backward thread, at the thread of the process that had the last one. What
 * such a thread computes again inside a node (a checkpoint) has numbers of its own: those of the last time are its own nodes.
 * An AccumulateGrad has no number: it belongs to the node before it.
 *
 * MT_EV_MODULE becomes EV_MODULE_AT; before a MT_EV_NODE of another module than the one before it an EV_MODULE_AT with
 * EV_MODULE_BACKWARD is made. Numbers go no further: recordings do not have them.
 *
 * Holds PAIRING_THREADS_MAX threads, PAIRING_CHANGES_MAX changes of each and PAIRING_ALL_MAX of all: 16 bytes each, taken as
 * they are needed; the oldest ones are dropped, and their nodes belong to no module. A process has half of what the others
 * leave at most; beyond that its own oldest ones are dropped.
 */
#ifndef MT_EVENT_PAIRING_H
#define MT_EVENT_PAIRING_H

#include <stddef.h>

#include "event/event.h"

#define PAIRING_THREADS_MAX 1024
#define PAIRING_CHANGES_MAX 65536u
#define PAIRING_ALL_MAX (8u << 20) /* 128 MiB */

struct pairing;

struct pairing *pairing__new(void); /* NULL: no memory */
void pairing__free(struct pairing *p);
/*
 * An event in order: changed as described above. 1: *ret_before is to be passed on before it; 0: it is not set.
 */
int pairing__event(struct pairing *p, struct event *ev, struct event *ret_before);
void pairing__end(struct pairing *p, uint32_t pid); /* the process is gone, or runs another program */

#endif
