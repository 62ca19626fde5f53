/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * order: an order of a graph's nodes with a lower peak, by greedy list scheduling: of the nodes whose inputs are there, the one
 * with the least bytes made minus freed runs next. Two rules are tried beside the recorded order; neither need find the best
 * order (that is NP-hard), or a better one.
 *
 * Inputs come before their users; `before` has all other dependencies (a read before the write that follows it).
 * O((nodes + edges) log nodes).
 */
#ifndef MT_ESTIMATE_ORDER_H
#define MT_ESTIMATE_ORDER_H

#include "estimate/profile.h"

struct est_pair_of {
	uint32_t first, then; /* nodes */
};

struct est_order_opts {
	const struct est_pair_of *before; /* borrowed, as all of it */
	size_t before_cnt;
	const uint64_t *scratch; /* by node: bytes that it takes and frees while it runs; NULL: none */
};

struct est_order {
	uint32_t *nodes; /* the best order that was found; without an `output` */
	size_t cnt;
	int64_t peak_there_is, peak; /* scratch included */
	const char *rule;	     /* that found it; "recorded": none was better */
};

/* 0, -ENOMEM, or -EINVAL: `before` makes a cycle. */
int est_order__init(struct est_order *o, const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
		    const struct est_rules *rules, const struct est_order_opts *opts);
void est_order__done(struct est_order *o);

#endif
