/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Labels of what was allocated while no operator was seen (core/learned.h). */
#ifndef MT_MODEL_MODEL_LEARNED_H
#define MT_MODEL_MODEL_LEARNED_H

#include <stdbool.h>

struct block;
struct device;
struct model;
struct proc;
struct sampler;

void model__learned_level(struct model *m, const struct sampler *s); /* it has changed */
void model__learned_cut(struct proc *p); /* the graph is about to be cut: operators are not seen any more */
void model__learned_step(struct model *m, struct proc *p, bool is_whole, bool is_traced); /* one is over */
void model__learned_drop(struct model *m, struct proc *p); /* it is gone, or another program */
void model__learned_check(const struct model *m);
/* With m->learned only. Of a block: counted as live already, or no longer. p: its process; NULL: none of its own. */
void model__learned_allocated(struct model *m, const struct block *b, struct proc *p, bool is_blind);
void model__learned_freed(struct model *m, const struct block *b, struct proc *p);
void model__learned_live(struct model *m, const struct device *d); /* others came */
/* From now on its label is measured, by data flow or Python. */
void model__learned_measured(struct model *m, const struct block *b, struct proc *p);

#endif
