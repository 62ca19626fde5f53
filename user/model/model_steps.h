/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The boundaries of a process's steps, and what is counted by them (model_steps.c). */
#ifndef MT_MODEL_MODEL_STEPS_H
#define MT_MODEL_MODEL_STEPS_H

struct event;
struct model;
struct proc;

void model__attach(struct model *m, const struct event *ev);	 /* EV_ATTACH */
void model__step(struct model *m, const struct event *ev);	 /* MT_EV_STEP */
void model__step_count(struct model *m, const struct event *ev); /* EV_STEPS */
void model__after(struct model *m, const struct event *ev);	 /* EV_AFTER */
/* A region begins: whether that is a mark of a step, and whether it is the boundary of one. */
void model__step_region(struct model *m, const struct event *ev, struct proc *p);
void model__boundary_region(struct model *m, const struct event *ev, struct proc *p);

#endif
