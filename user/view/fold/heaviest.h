/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * heaviest: the blocks that weigh most, by bytes × time, each with its whole life; and those that are asked for by
 * name. The source of a map of addresses over time. Holds 88 bytes for each live block and each kept one.
 */
#ifndef MT_VIEW_FOLD_HEAVIEST_H
#define MT_VIEW_FOLD_HEAVIEST_H

#include <stddef.h>

#include "timeline/timeline.h"

struct block_life {
	uint64_t id, ptr, size;
	uint64_t allocated_ns, freed_ns; /* freed 0: it lives */
	double weight;		    /* byte × ns; of a wanted one: infinite */
	name_id op, region, module, root; /* module, root: as in tl_event */
	uint32_t pid;
	uint8_t dev, cat, late;
};

struct heaviest;

struct heaviest *heaviest__new(uint32_t max); /* NULL: no memory */
void heaviest__free(struct heaviest *h);
int heaviest__want(struct heaviest *h, uint64_t id); /* kept whatever it weighs. 0 or -ENOMEM */
/* A block's number while it lives, from 1; 0: no memory. Everything but freed_ns and weight is the caller's. */
uint32_t heaviest__allocated(struct heaviest *h, const struct block_life *b);
struct block_life *heaviest__life(struct heaviest *h, uint32_t number);
void heaviest__freed(struct heaviest *h, uint32_t number, uint64_t ts_ns);
/* The rest are still live. The kept ones by allocation. */
const struct block_life *heaviest__end(struct heaviest *h, uint64_t ts_ns, size_t *ret_cnt);
/* Of all that were allocated: how many, their bytes × time, and that of the kept ones. */
uint64_t heaviest__sums(const struct heaviest *h, double *ret_all, double *ret_kept);

#endif
