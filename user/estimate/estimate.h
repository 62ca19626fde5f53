/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* estimate: all results for a document: a profile a graph, schedules, and forward with backward. */
#ifndef MT_ESTIMATE_ESTIMATE_H
#define MT_ESTIMATE_ESTIMATE_H

#include "estimate/profile.h"

#define EST_FORWARD "forward"
#define EST_BACKWARD "backward"

struct est_schedule {
	int64_t *now; /* after each node of the schedule */
	int64_t start, peak;
	size_t cnt, left; /* left: nodes that it does not run */
};

struct est_result {
	const struct est_doc *d; /* borrowed */
	uint64_t counts;	 /* devices: bits of indexes of dev_names */
	struct est_profile profiles[EST_GRAPHS_MAX];
	struct est_schedule schedules[EST_GRAPHS_MAX]; /* cnt 0: the graph has none */
	const struct est_graph *fwd, *bwd; /* graphs of these names, NULL: not both are there */
	struct est_pair pair;
	int64_t pair_peak; /* of both, one after the other */
};

/* 0, -ENOMEM, or -EINVAL with a message: a schedule that cannot run, a forward graph without an end. */
int est_result__init(struct est_result *r, const struct est_doc *d, uint64_t counts, struct err *err);
void est_result__done(struct est_result *r);

#endif
