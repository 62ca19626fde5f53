/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * staying: which of the blocks left behind by a window of traced steps are still there when the next one begins. Between
 * windows no free is seen, so the process's memory is read (target/heap.h): once before probes are removed, and again when all
 * are set. If a block is the same, with the same content, EV_STAYED reports that. So growth adds up over windows
 * (docs/sampling.md).
 *
 * A look takes memtrace's own time, a quarter of a second at most, for MODEL_STAYS_MAX blocks at most: blocks that were not
 * looked at count as ended unseen.
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
	struct heap_block *then; /* of each, before probes were removed */
	size_t cnt;
	bool is_gap; /* blocks are remembered, and were not looked for yet */
};

void staying__done(struct staying *s);
/* All probes are still set. Does nothing within a gap: its blocks were remembered at its beginning. */
void staying__remember(struct staying *s, const struct model *m);
/* All probes are set again, but that is not reported yet; staying__tell reports what remains after it, with the same time. */
void staying__look(struct staying *s);
void staying__tell(struct staying *s, const struct tell *tell, uint64_t ts_ns);

#endif
