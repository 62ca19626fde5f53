/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * shard: a recorded step as a rank of N would run it under fully_shard (torch.distributed.fsdp, torch 2.13). Each rank works on
 * a batch of the recorded size; activations stay as they are.
 *
 * - Parameters, gradients and optimizer state: the largest rank's part of dimension 0, padding included.
 * - Units: modules whose parameters are gathered together; all others are the root's. The times of a unit's forward and
 *   backward are taken from its allocations. Its parameters are whole while it runs, those of the root until backward is over;
 *   with no_reshard all of them until the end of the unit's backward.
 * - An all-gather's output is there until the next one's parameters are copied out (forward), or its own (backward), where
 *   the next unit's is fetched ahead; gradients are whole until the unit's backward is over, then they are copied to a
 *   buffer that stays until the next unit's. On the CPU gloo takes a buffer as large as the output of each all-gather.
 */
#ifndef MT_ESTIMATE_SHARD_H
#define MT_ESTIMATE_SHARD_H

#include "estimate/items.h"

#define SHARD_UNITS_MAX 4096
#define SHARD_RANKS_MAX (1u << 20)

struct shard_opts {
	const struct recorded *r;
	uint32_t ranks;
	const char *units; /* patterns of module paths, by commas; NULL: the members of numbered lists of modules */
	int no_reshard, is_cpu;
};

struct shard_result {
	size_t units; /* without the root */
	uint64_t parameters, sharded; /* of all, and of a rank, padding included */
	uint64_t largest; /* unit, gathered */
	uint64_t root;	  /* gathered */
	int is_guess;	  /* units were not asked for */
};

/* The items of a step are changed and added to. 0, -ENOMEM; -ENODATA: no parameter was used; -ENOENT: no module is like the
   patterns; -E2BIG: too many units. */
int shard__apply(struct shard_result *res, struct items *i, const struct shard_opts *o);

#endif
