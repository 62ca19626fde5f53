/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tracker: the memory of a graph while its nodes run in some other order: MemoryTracker of torch's memory_estimator.py.
 *
 * Unlike the profile, a storage is freed when the last of all nodes that use it has run, whichever that is.
 * Time and memory are linear in the graph, for the whole schedule.
 */
#ifndef MT_ESTIMATE_TRACKER_H
#define MT_ESTIMATE_TRACKER_H

#include "estimate/profile.h"

struct est_tracker;

/* Borrows all of it. NULL: no memory. */
struct est_tracker *est_tracker__new(const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
				     const struct est_rules *rules);
void est_tracker__free(struct est_tracker *t);
/* 0; -EEXIST: it ran before; -ENOENT: *ret_input, a node that it uses, is not there yet (any more). */
int est_tracker__run(struct est_tracker *t, uint32_t node, uint32_t *ret_input);
int64_t est_tracker__high(const struct est_tracker *t); /* of the node that ran last, before it freed anything */
int64_t est_tracker__now(const struct est_tracker *t);
int64_t est_tracker__peak(const struct est_tracker *t);
size_t est_tracker__ran(const struct est_tracker *t); /* nodes that ran */

#endif
