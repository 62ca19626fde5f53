/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * step: the graph of one recorded step of one process on one device, as torch's estimator takes it: blocks live at its
 * beginning are placeholders, its nodes are operators in the order in which they ended, blocks live at its end are returned.
 *
 * Collected in a second replay, between two times that the first one found (recorded.h), from which the sizes and lives of
 * blocks come. An operator with several new blocks gets a `getitem` node for each, as in torch.fx: a node uses all that its
 * inputs hold.
 */
#ifndef MT_ESTIMATE_STEP_H
#define MT_ESTIMATE_STEP_H

#include "estimate/order.h"
#include "estimate/recorded.h"

#define STEP_NODES_MAX (1u << 20)
#define STEP_EDGES_MAX (1u << 23)

struct step {
	const struct recorded *r;	/* borrowed */
	const struct recorded_kept *k;
	struct step_node *nodes;
	struct tl_edge *edges;
	size_t nodes_cnt, nodes_cap, edges_cnt, edges_cap;
	uint64_t left_out; /* nodes past the caps */
};

void step__init(struct step *s, const struct recorded *r, const struct recorded_kept *k);
void step__done(struct step *s);
int step__event(struct step *s, const struct tl_event *ev); /* 0 or -ENOMEM */

struct step_result {
	struct est_doc d; /* one graph */
	struct est_profile profile;
	struct est_order order;
	uint64_t measured;    /* that process's peak on that device in the step */
	uint64_t scratch_max; /* the most that one operator took and gave back */
	uint64_t unseen;      /* bytes, at most at once, of blocks allocated and freed in it that no operator was given */
	size_t operators;
};

/* 0, -ENOMEM, -ENODATA: no node; -E2BIG. */
int step_result__init(struct step_result *res, const struct step *s);
void step_result__done(struct step_result *res);

#endif
