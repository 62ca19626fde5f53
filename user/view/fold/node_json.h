/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* node_json: a node of the data-flow graph as one line of JSON, the same in every view that has one. */
#ifndef MT_VIEW_FOLD_NODE_JSON_H
#define MT_VIEW_FOLD_NODE_JSON_H

#include "timeline/timeline.h"
#include "view/fold/name_cache.h"

/* Roles of a node's blocks, as in torch.profiler's memory profiler. */
enum node_role {
	NODE_INPUT,	   /* was there before it */
	NODE_OUTPUT,	   /* made or written in it, and there after it */
	NODE_INTERMEDIATE, /* allocated and freed in it */
	NODE_DELETED,	   /* an input freed in it */
};
int node_has_role(const struct tl_edge *e, enum node_role role);

/* step 0: none is written. names quote as JSON does (json_quote). */
void node_json(struct outbuf *o, struct name_cache *names, const struct tl_event *ev, int64_t epoch_off_ns,
	       uint64_t step);

#endif
