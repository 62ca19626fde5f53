/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mates: pairs the blocks of a step of one recording with those of a step of another one, made with another batch, and gives
 * each block's size at a third batch.
 *
 * Blocks that are allocated in the step come in the same order in both, so they are paired by order, operator, phase and
 * module. Those that are there when it begins have no order: after an attach in mid-run they are seen in the order in which the
 * job uses them from there on. They are paired by Python's names, then by the same kind and size (such do not go with the
 * batch), and at last by size within their kind, the largest first.
 *
 * A size is a line through its two sizes, or a square where the two fit one exactly (a matrix of each with each). Blocks that
 * no line explains have a doubt: a block without its mate, one that shrinks with the batch (it keeps the size nearest), one
 * that grows faster than the batch and is no square.
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

/* Gives a's items their slopes. Blocks of b alone are counted in b's items, whose factors this changes. 0 or -ENOMEM. */
int mates__fit(struct mates *m, struct items *a, struct items *b);

/* Of one recording with a batch of batch_a: a block's kind decides whether it goes with the batch. */
void mates__guess(struct mates *m, struct items *a);

/*
 * The least and the most that the peak can be with this batch, as far as doubts go: each block in doubt is as small, or as
 * large, as its doubt allows. 0 or -ENOMEM.
 */
int mates__bounds(const struct mates *m, const struct items *a, double batch, double *ret_low, double *ret_high);

#endif
