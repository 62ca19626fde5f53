/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mates: which block of a step of one recording is which of a step of another one, made with another batch, and what each
 * block's size is at a third batch.
 *
 * Blocks that are allocated in the step come in the same order in both, so they are paired by order, operator, phase and
 * module. Those that are there when it begins have no order: a tracer that was attached in mid-run meets them as the job uses
 * them, from wherever it was just then. They are paired by what Python calls them, then by being of the same kind and size
 * (such do not go with the batch), and at last by size within their kind, the largest first.
 *
 * A size is a line through its two sizes, or a square where the two say exactly that (a matrix of each with each). What no
 * line of a batch explains is told as a doubt: a block without its mate, one that shrinks with the batch (it keeps the size
 * nearest), one that grows faster than the batch and is no square.
 */
#ifndef MT_ESTIMATE_MATES_H
#define MT_ESTIMATE_MATES_H

#include "estimate/items.h"

struct mates {
	double batch_a, batch_b;    /* b 0: one recording, no mates */
	uint64_t paired, alone;	    /* bytes of a's blocks */
	uint64_t unsure;	    /* of the paired ones: bytes that no line explains */
	double only_b;		    /* bytes of b's blocks without a mate, as many as were there at once */
};

/* Gives a's items their slopes. What is b's alone is counted with b's items, whose factors are spent on that. 0 or -ENOMEM. */
int mates__fit(struct mates *m, struct items *a, struct items *b);

/* Of one recording with a batch of batch_a: what kind a block is decides whether it goes with the batch. */
void mates__guess(struct mates *m, struct items *a);

/*
 * The least and the most that the peak can be with this batch, as far as doubts go: each block in doubt is as small, or as
 * large, as its doubt allows. 0 or -ENOMEM.
 */
int mates__bounds(const struct mates *m, const struct items *a, double batch, double *ret_low, double *ret_high);

#endif
