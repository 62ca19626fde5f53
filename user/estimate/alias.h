/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * alias: the allocator and the last user of each storage of a graph: GraphAliasTracker of torch's
 * torch/_inductor/fx_passes/memory_estimator.py (2.13), in time and memory linear in the graph.
 *
 * The node that first has a storage in its outputs is its allocator. A node uses all storages of its input nodes. The
 * last node that does is the storage's last user; a storage without users has none, and is never freed.
 */
#ifndef MT_ESTIMATE_ALIAS_H
#define MT_ESTIMATE_ALIAS_H

#include "estimate/graph.h"

struct est_alias {
	uint32_t *allocator; /* by storage: a node, or EST_NONE: it is not in this graph */
	uint32_t *last_user; /* by storage: a node or EST_NONE */
};

int est_alias__init(struct est_alias *a, const struct est_doc *d, const struct est_graph *g); /* 0 or -ENOMEM */
void est_alias__done(struct est_alias *a);

#endif
