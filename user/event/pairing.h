/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * pairing: whose backward a node is: the module whose forward made it. Between order and the model, where forward comes
 * before backward.
 *
 * Autograd numbers the nodes that a thread makes, one by one. MT_EV_MODULE says which module's forward runs on a thread, and
 * from which number on; MT_EV_NODE says the number of the node that is evaluated. So of each thread the last changes
 * are kept, by number. A node is looked up at the thread that evaluates it (a CPU's backward runs where it was asked for)
 * or, if that has no forward, as a GPU's backward thread, at the thread of the process that had the last one. What such a
 * thread computes again inside a node (a checkpoint) has numbers of its own: those of the last time are its own nodes. An
 * AccumulateGrad has no number: it is of the node before it.
 *
 * MT_EV_MODULE becomes EV_MODULE_AT; before a MT_EV_NODE of another module than the one before it an EV_MODULE_AT with
 * EV_MODULE_BACKWARD is made. Numbers go no further: recordings do not have them.
 *
 * Holds PAIRING_THREADS_MAX threads, PAIRING_CHANGES_MAX changes of each and PAIRING_ALL_MAX of all: 16 bytes each, taken as
 * they are needed; older ones go, and their nodes are nobody's. A process has half of what the others leave at most, and
 * what it has too much are its own older ones.
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
 * An event in order: changed as said above. 1: *ret_before is to be passed on before it; 0: it is not set.
 */
int pairing__event(struct pairing *p, struct event *ev, struct event *ret_before);
void pairing__end(struct pairing *p, uint32_t pid); /* the process is gone, or runs another program */

#endif
