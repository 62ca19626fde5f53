/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * whatif: the peak of the last whole step of a recording with another batch, optimizer or dtype, sharded or checkpointed:
 * each block of the step keeps its life and gets another size, and the step is summed again.
 *
 * Batch: from two recordings of the same job with two sizes of batch, block by block (estimate/mates.h). A block without a
 * mate keeps its size; such bytes are reported. From one recording: activations, inputs and temporaries outside of the
 * optimizer go with the batch, all else stays. The result has a lower and an upper bound: from each block's doubt, and from
 * how much the peaks of the last steps differ, scaled by how far the batch lies beyond the two. Optimizer: bytes of state for
 * each byte of a parameter.
 * Dtype: the model and its inputs in another precision (`.to(torch.bfloat16)`). All blocks scale by its bytes except: scratch
 * memory of libraries; blocks that no operator of the step was given (a copy that is no part of it); results that are no
 * floats (comparisons, indices); attention in plain operators, which computes in float32.
 * Shard: estimate/shard.h. Checkpoint: estimate/recompute.h.
 */
#ifndef MT_ESTIMATE_WHATIF_H
#define MT_ESTIMATE_WHATIF_H

#include "estimate/mates.h"
#include "estimate/recompute.h"
#include "estimate/recorded.h"
#include "estimate/shard.h"

enum whatif_optimizer { WHATIF_AS_RECORDED = 0, WHATIF_SGD, WHATIF_MOMENTUM, WHATIF_ADAMW, WHATIF_8BIT };

struct whatif_opts {
	const struct recorded *a, *b; /* b: NULL without a batch */
	const struct recorded_kept *a_kept, *b_kept;
	uint64_t batch_a, batch_b, batch; /* batch 0: as recorded; batch_b 0: one recording */
	enum whatif_optimizer optimizer;
	double dtype;	 /* bytes against recorded ones: 0.5; 0: as recorded */
	uint64_t budget; /* 0: none asked */
	uint32_t ranks;	 /* 0: as recorded */
	const char *units;
	int no_reshard, is_cpu;
	const char *checkpoint; /* modules; NULL: none. Without batches, `budget` is of their choice */
};

struct whatif {
	uint64_t recorded, peak; /* of the process in its step */
	struct mates mates;	   /* with a batch */
	uint64_t between[2];	   /* … the least and the most that the peak can be */
	uint64_t largest_batch;	   /* that fits into the budget; 0: none does */
	uint64_t at_largest;	   /* its peak */
	uint64_t largest_between[2];
	double variation_a, variation_b; /* bytes by which the peaks of the steps before the last one differ from it */
	uint64_t second, second_fitted; /* with two recordings: the second one's peak, and its value by the fit */
	uint64_t parameters, state; /* bytes at the step's beginning */
	struct shard_result shard;
	struct recompute_result recompute;
};

/*
 * 0, -ENOMEM, or -EINVAL: nothing of the two steps is alike; -EDOM: a batch of the same size twice; an error of shard__apply;
 * -ENODATA: another optimizer of no parameter; -ESRCH: no module to checkpoint. whatif__done is needed in any case.
 */
int whatif__run(struct whatif *w, const struct whatif_opts *opts);
void whatif__done(struct whatif *w);

#endif
