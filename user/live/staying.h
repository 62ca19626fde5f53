/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * staying: what of the blocks that a window of traced steps left behind is still there when the next one begins. Between
 * windows no free is seen, so the process's memory is asked (target/heap.h): once before probes go, and again when all are set.
 * Where the same block has the same in it, EV_STAYED says so. So what grows adds up over windows (docs/sampling.md).
 *
 * A look takes memtrace's own time, a quarter of a second at most, and of MODEL_STAYS_MAX blocks at most: what was not
 * looked at has ended unseen, as others have.
 */
#ifndef MT_LIVE_STAYING_H
#define MT_LIVE_STAYING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_block;
struct model;
struct model_stay;
struct tell;

struct staying {
	struct model_stay *v;
	struct heap_block *then; /* of each, before probes went */
	size_t cnt;
	bool is_gap; /* they are remembered, and were not looked for yet */
};

void staying__done(struct staying *s);
/* All is still set. In a gap, in which something new came and went, nothing: what there is was remembered when it began. */
void staying__remember(struct staying *s, const struct model *m);
/* All is set again, before that is told; what is there is said after it, as of the same moment. */
void staying__look(struct staying *s);
void staying__tell(struct staying *s, const struct tell *tell, uint64_t ts_ns);

#endif
