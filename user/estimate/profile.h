/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * profile: the memory of a graph over its execution, with the same numbers as build_memory_profile, get_fwd_bwd_interactions
 * and get_peak_memory of torch's memory_estimator.py (2.13).
 *
 * Counted are storages on the devices of `counts`. Inputs (placeholder, get_attr) are there from the start; an operator's
 * new storages are added before those that it used last are taken off; a storage is freed only if its allocator may be freed.
 * `output` does neither: returned storages stay.
 */
#ifndef MT_ESTIMATE_PROFILE_H
#define MT_ESTIMATE_PROFILE_H

#include "estimate/alias.h"

/* What to count, and what is kept; borrowed. */
struct est_rules {
	uint64_t counts;     /* bits of devices: 1 << index in dev_names */
	const uint8_t *kept; /* by node: its storages are never freed; NULL: those of primals */
};

/* All devices but the CPU: torch's device_filter. */
uint64_t est_not_cpu(const struct est_doc *d);

static inline int est_rules__counts(const struct est_rules *r, const struct est_doc *d, uint32_t storage)
{
	return r->counts >> d->devs[storage] & 1;
}

static inline int est_rules__keeps(const struct est_rules *r, const struct est_graph *g, uint32_t node)
{
	return r->kept ? r->kept[node] : g->nodes[node].is_primal;
}

struct est_row {
	uint32_t node; /* that made them */
	uint32_t storages;
	uint64_t bytes;
};

struct est_profile {
	int64_t *at; /* the profile: at the start, then two numbers for each operator */
	size_t cnt;
	int64_t start, peak, end;
	size_t peak_idx;     /* the first of the largest */
	uint32_t peak_node;  /* the operator at the peak, EST_NONE: the start is */
	uint64_t never_used; /* bytes that operators made and nothing used: dropped outputs */
	struct est_row *alive; /* at the peak, by node, largest first */
	size_t alive_cnt;
};

/* 0 or -ENOMEM. */
int est_profile__init(struct est_profile *p, const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
		      const struct est_rules *rules);
void est_profile__done(struct est_profile *p);

/* What a backward graph finds when it begins. */
struct est_pair {
	int64_t baseline; /* bytes that the forward graph returns and the backward graph is not given: there all the while */
	uint8_t *kept;	  /* by node of the backward graph: must not be freed (do_not_delete, and primals) */
	uint8_t *named;	  /* by node: in torch's set of names */
};

/* 0, -ENOMEM, or -EINVAL: the forward graph does not end with its output. */
int est_pair__init(struct est_pair *p, const struct est_doc *d, const struct est_graph *fwd, const struct est_alias *fwd_alias,
		   const struct est_graph *bwd, uint64_t counts, struct err *err);
void est_pair__done(struct est_pair *p);

#endif
