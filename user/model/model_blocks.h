/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The ledger: every way in which a block begins and ends. */
#ifndef MT_MODEL_MODEL_BLOCKS_H
#define MT_MODEL_MODEL_BLOCKS_H

#include "model/core/blocks.h"

struct device;
struct event;
struct model;
struct proc;

/* ALLOC and FREE, also those that model_gpu.c makes of other events. */
struct block *model__give(struct model *m, const struct event *ev, enum block_from from); /* NULL: none was made */
void model__take(struct model *m, const struct event *ev);
/* A block ends without a free: its process or its mapping is gone. */
void model__drop(struct model *m, const struct block *b, struct proc *p);
/* The block of a tensor argument, seen late now if need be; NULL: none, or not one of its own. */
struct block *model__begin_late(struct model *m, const struct event *ev);
/*
 * The block of a storage that is known from Python and that no operator was given yet: pid, dev, addr, size of an EV_TENSOR.
 * NULL: no memory, or another block lies there.
 */
struct block *model__late_by_name(struct model *m, struct proc *p, const struct event *ev);
/* Counts a block that is live from now on, but no allocation, in all sums. */
void model__counts_late(struct model *m, struct block *b, struct device *d, struct proc *p);
/* A carried block ended in a gap. */
void model__ended_unseen(struct model *m, const struct block *b, struct proc *p);
/* MUNMAP: late blocks in it are gone. */
void model__unmapped(struct model *m, const struct event *ev, struct proc *p);
/* model_memory.c: to the listener for blocks that end. */
void model__tell_was_freed(struct model *m, const struct block *b);

#endif
