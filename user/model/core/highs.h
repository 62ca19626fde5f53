/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * highs: a device's memory by category at the highest moment of each of the last stretches of time. Without it a live view
 * knows only the moments at which reports were made, and steps and windows are shorter than the time between two. A caller
 * that reads them less often than the duration of all stretches misses some.
 *
 * A late label is applied to the moments at which the block was live, as long as they are kept.
 */
#ifndef MT_MODEL_HIGHS_H
#define MT_MODEL_HIGHS_H

#include <stdint.h>

#include "timeline/report_memory.h"
#include "timeline/timeline.h"

struct device;

struct high_moment {
	uint64_t ts_ns, clock_ns; /* the second by the clock of gaps */
	uint64_t live;
	uint64_t cats[CAT_MAX];
};

/* All 0 at first. */
struct highs {
	struct high_moment v[REPORT_HIGHS]; /* a ring; the stretch under way is v[at] */
	unsigned at;
	uint64_t end_ns; /* of the stretch under way */
};

/* Live bytes are more than seen in this stretch, or another stretch has begun. In a gap: nothing. clock_ns: of gaps. */
void highs__take(struct device *d, uint64_t ts_ns, uint64_t clock_ns);
/* Relabels `size` bytes that were live from a to b (UINT64_MAX: still live), by the clock of gaps. */
void highs__relabel(struct highs *h, uint8_t from, uint8_t to, uint64_t size, uint64_t a_ns, uint64_t b_ns);
/* Those within the duration of all stretches, by time; how many. */
unsigned highs__report(const struct highs *h, uint64_t now_ns, struct report_high ret[REPORT_HIGHS]);
void highs__check(const struct highs *h);

#endif
