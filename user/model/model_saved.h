/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What autograd keeps from forward to backward. */
#ifndef MT_MODEL_MODEL_SAVED_H
#define MT_MODEL_MODEL_SAVED_H

#include <stdbool.h>
#include <stdint.h>

struct block;
struct event;
struct model;
struct proc;
struct saved_block;
struct thread;

void model__saved_outside(struct model *m, struct thread *t); /* an operator outside of all frames */
void model__saved_node(struct model *m, struct thread *t);    /* a backward node is entered */
/* The node that was just entered, one that Python defined, has saved a block; NULL is fine. */
void model__saved_by_node(struct model *m, const struct event *ev, const struct block *b);
/* In a process with a pass under way: a frame is given a block, a block is freed. */
void model__saved_read(struct model *m, struct thread *t, const struct event *ev, const struct block *b);
void model__saved_freed(struct model *m, struct thread *t, const struct event *ev, const struct block *b);
/*
 * Whether it is a parameter, a buffer, or belongs to one. A block that forward made from a parameter (a copy of another type)
 * is not, though it has the same label: it is newer than `before`.
 */
bool model__is_the_models(const struct block *b, uint64_t before);
const struct block *model__saved_alive(const struct model *m, const struct proc *p, const struct saved_block *k); /* or NULL */
struct module_saved {
	uint64_t made;	 /* kept, and made there */
	uint64_t within; /* kept, and this is the innermost module that, recomputed as a whole, would not keep it */
};
struct module_saved *model__saved_by_module(const struct model *m); /* by row, malloc'ed; NULL: no memory */

#endif
