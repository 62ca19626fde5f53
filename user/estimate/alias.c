/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch walks the set of storages that each node uses: nodes × storages of their inputs. The same answer without those sets:
 * the last user of a storage is the latest of the last users of the nodes that have it in their outputs.
 */
#include "estimate/alias.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct est_alias *a, const struct est_graph *g, uint32_t *node_last_user)
{
	for (uint32_t i = 0; i < g->nodes_cnt; i++) {
		EST_FOR_OUTS(g, i, k)
			if (a->allocator[g->outs[k]] == EST_NONE)
				a->allocator[g->outs[k]] = i;
		EST_FOR_INS(g, i, k)
			node_last_user[g->ins[k]] = i;
	}
	for (uint32_t i = 0; i < g->nodes_cnt; i++) {
		if (node_last_user[i] == EST_NONE)
			continue;
		EST_FOR_OUTS(g, i, k) {
			uint32_t *last = &a->last_user[g->outs[k]];

			if (*last == EST_NONE || *last < node_last_user[i])
				*last = node_last_user[i];
		}
	}
}

int est_alias__init(struct est_alias *a, const struct est_doc *d, const struct est_graph *g)
{
	size_t nodes = (g->nodes_cnt + 1) * sizeof(uint32_t), storages = (d->storages_cnt + 1) * sizeof(uint32_t);
	uint32_t *node_last_user = malloc(nodes);

	*a = (struct est_alias){ .allocator = malloc(storages), .last_user = malloc(storages) };
	if (!node_last_user || !a->allocator || !a->last_user) {
		free(node_last_user);
		est_alias__done(a);
		return -ENOMEM;
	}
	memset(node_last_user, 0xff, nodes); /* EST_NONE */
	memset(a->allocator, 0xff, storages);
	memset(a->last_user, 0xff, storages);
	fill(a, g, node_last_user);
	free(node_last_user);
	return 0;
}

void est_alias__done(struct est_alias *a)
{
	free(a->allocator);
	free(a->last_user);
	*a = (struct est_alias){ 0 };
}
