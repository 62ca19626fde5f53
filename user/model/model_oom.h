/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Post-mortems: the state when memory was refused, or a process was killed. */
#ifndef MT_MODEL_MODEL_OOM_H
#define MT_MODEL_MODEL_OOM_H

#include <stdint.h>

struct attribution;
struct event;
struct model;
struct proc;
struct thread;

/* MT_EV_OOM, of this thread. */
void model__oom_refused(struct model *m, const struct event *ev, const struct thread *t, const struct attribution *a);
void model__oom_failed(struct model *m, const struct event *ev);  /* SEG_FAIL */
void model__oom_retried(struct model *m, const struct event *ev); /* SEG_ALLOC */
void model__oom_death(struct model *m, uint32_t pid, struct proc *p, uint32_t status);
void model__oom_victim(struct model *m, const struct event *ev); /* MT_EV_OOM_VICTIM */
void model__oom_kills(struct model *m, const struct event *ev); /* EV_OOM_KILL */

#endif
