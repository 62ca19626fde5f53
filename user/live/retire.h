/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * retire: which operators keep their probes. Looks from time to time which are called (live/idle.h), removes the probes of the
 * others when nothing new has come for a while, and sets them again when they are called after all.
 */
#ifndef MT_LIVE_RETIRE_H
#define MT_LIVE_RETIRE_H

#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

struct followed;
struct plan;
struct retire;
struct keeper;
struct model;
struct setter;

struct retire_env {
	const struct followed *followed;
	struct keeper *keeper;
	struct setter *setter; /* calls retire__set_done for each setting requested here */
	struct tell tell;
	const struct model *model; /* for the steps that a process has begun or ended */
};

struct retire *retire__new(const struct retire_env *env); /* NULL: no memory */
void retire__free(struct retire *rt);
/* A byte per site of the plan, from idle__wanted. */
const uint8_t *retire__wanted(struct retire *rt, const struct plan *plan);
/* An operator was called for the first time, or all probes of a plan are being set: the quiet time starts again. */
void retire__news(struct retire *rt);
/*
 * Operators are removed for a while (live/levels.h), until retire__come_back: what is called meanwhile is noticed, and is among
 * the wanted when they come back. retire__come_back looks first.
 */
void retire__go_away(struct retire *rt);
void retire__come_back(struct retire *rt);
void retire__turn(struct retire *rt);
void retire__set_done(struct retire *rt); /* a setting requested from the setter is over */
/* Sets operators called for the first time since, at once: for each wake of the tracer. */
void retire__late_ops(struct retire *rt);

#endif
