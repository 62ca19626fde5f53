/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Phases and their marks; the module whose forward or backward made a block: EV_MODULE, EV_MODULE_AT, EV_WAS_MODULE. */
#ifndef MT_MODEL_MODEL_MODULES_H
#define MT_MODEL_MODEL_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "timeline/timeline.h"

struct block;
struct event;
struct model;
struct proc;
struct tensor;
struct thread;

void model__module(struct model *m, const struct event *ev);
void model__module_at(struct model *m, const struct event *ev);
void model__module_was(struct model *m, const struct event *ev);
bool model__module_memory(const struct model *m, const struct block *b, struct event *ret); /* its EV_WAS_MODULE; false: none */
/*
 * Gradients are cleared: an optimizer's zero_grad() begins, or one is freed outside of backward. The step of a compiled
 * optimizer, which no region shows, is over by then.
 */
void model__phase_cleared(struct model *m, const struct thread *t);
/* Of a block that is being allocated: its module and phase, before it is counted. graph: enum ev_place, of generated code. */
void model__module_alloc(struct model *m, struct thread *t, const struct event *ev, struct block *b,
			 uint8_t graph);
enum phase model__phase_of_op(const struct thread *t, bool in_node);
/* The module whose forward or backward was refused memory: its row; 0: none, or not known. */
uint32_t model__module_refused(const struct thread *t, const struct event *ev, enum phase *ret_phase);
void model__phase_node(struct model *m, struct thread *t);
void model__phase_region(struct model *m, struct thread *t, const struct event *ev, bool begin);
void model__phase_step(struct model *m, const struct event *ev, struct proc *p);
/* An operator was given a block. */
void model__module_used(struct model *m, struct thread *t, const struct event *ev, const struct block *b);
uint32_t model__module_of_name(const struct model *m, uint32_t pid, const struct tensor *t); /* row; 0: none */

#endif
