/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * idle: the operators that followed processes have called, according to their guards (arch/guard.h). An operator that none of
 * them has called needs no probe. A call in one process counts for all: a place in a file is one place to the kernel.
 */
#ifndef MT_LIVE_IDLE_H
#define MT_LIVE_IDLE_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

struct idle;
struct target;

/* torch 2.13 has 3,101 operators; several versions may run at once. One library has half of what others leave. */
#define IDLE_CALLED_MAX 16384

struct idle *idle__new(void); /* NULL: no memory */
void idle__free(struct idle *i);

/*
 * Reads the guards of a plan in a process; fn gets each site of an operator that was not yet known to be called. seen: a byte a
 * guard, zeroed at first, kept by the caller with the plan. 0, or -errno: it is unknown, all its probes stay; -ENOSPC: no room.
 */
int idle__look(struct idle *i, const struct target *t, const struct plan *plan, uint8_t *seen,
	       void (*fn)(void *ctx, const struct site *s), void *ctx);
/* A byte a site: 1 = no operator's, unknown, or called. Valid until the next call; NULL: no memory, or no sites. */
const uint8_t *idle__wanted(struct idle *i, const struct plan *plan);
/* Drops those of libraries that is_used rejects: no process has them any more. */
void idle__prune(struct idle *i, int (*is_used)(void *ctx, uint64_t dev, uint64_t ino), void *ctx);
/* Operators of the plan that nobody has called. */
uint32_t idle__cnt(const struct idle *i, const struct plan *plan);

#endif
