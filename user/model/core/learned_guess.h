/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* learned_guess: guesses the label of an allocation in a step under way, by its place. For learned.c alone. */
#ifndef MT_MODEL_LEARNED_GUESS_H
#define MT_MODEL_LEARNED_GUESS_H

#include "model/core/learned.h"

uint8_t learned_proc__lane(struct learned_proc *p, uint32_t tid); /* the thread's place in the step */
/* The kind's lane for a thread of the step. New threads are matched by order. */
const struct learned_lane *kind__lane(const struct learned_kind *k, const uint32_t *tids, uint32_t cnt, uint32_t number);
/* Its label, if it has one, by its place in the kind that this step seems to be. */
void learned_proc__guess(struct learned_proc *p, struct learned_place *at, struct learned_alloc *b);

#endif
