/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Recompiles, and what they added: EV_COMPILED. */
#ifndef MT_MODEL_MODEL_COMPILES_H
#define MT_MODEL_MODEL_COMPILES_H

#include "model/state.h"

void model__compiled(struct model *m, const struct event *ev);
void model__lately_turn(struct model *m, struct proc *p);

/* Before and after live bytes of a process on framework devices change (core/lately.h). */
static inline void model__lately_until(struct model *m, struct proc *p)
{
	if (!p->lately || __builtin_expect(m->now_ns >= p->lately->end_ns, 0))
		model__lately_turn(m, p);
}

static inline void model__lately_now(struct proc *p)
{
	if (p->lately)
		lately__now(p->lately, p->fw.live);
}

#endif
