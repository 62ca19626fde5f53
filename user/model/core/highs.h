/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * highs: what a device's memory was made of when most of it lived, in each of the last stretches of time. Without it a live
 * view knows only the moments at which reports were made, and steps and windows are shorter than the time between two.
 * Whoever asks less often than all stretches together last misses some.
 *
 * A label that comes late goes to the moments at which the block lived, as long as they are kept.
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

/* What lives now is more than was seen in this stretch, or another stretch has begun. In a gap: nothing. clock_ns: of gaps. */
void highs__take(struct device *d, uint64_t ts_ns, uint64_t clock_ns);
/* So many bytes that lived from a to b (UINT64_MAX: they live), by the clock of gaps, had another label. */
void highs__relabel(struct highs *h, uint8_t from, uint8_t to, uint64_t size, uint64_t a_ns, uint64_t b_ns);
/* Those that are not older than all stretches together, by time; how many. */
unsigned highs__report(const struct highs *h, uint64_t now_ns, struct report_high ret[REPORT_HIGHS]);
void highs__check(const struct highs *h);

#endif
