/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * highest: the moment of a device's peak (or of a process's part of it), by the report's rule (model/core/device.h), for views
 * that go through the decisions once more:
 * - no moment in a gap is (TL_GAP, docs/sampling.md); where one ends, live bytes may be higher than ever;
 * - of several as high it is the last one up to around_ns, the report's: the one of which most is known.
 */
#ifndef MT_VIEW_FOLD_HIGHEST_H
#define MT_VIEW_FOLD_HIGHEST_H

#include <stdbool.h>
#include <stdint.h>

struct highest {
	uint64_t live, peak, ts_ns; /* ts_ns: of the peak; 0: there was never a byte */
	bool in_gap;
};

/* From ts on, this many bytes more live, and as many less. True: this is the peak from now on. */
static inline bool highest__move(struct highest *h, uint64_t allocated, uint64_t died, uint64_t ts_ns, uint64_t around_ns)
{
	h->live += allocated - died;
	if (h->in_gap || h->live < h->peak || !h->live || (h->live == h->peak && (!allocated || ts_ns > around_ns)))
		return false;
	h->peak = h->live;
	h->ts_ns = ts_ns;
	return true;
}

/* A gap begins, or ends. True: this is the peak from now on. */
static inline bool highest__gap(struct highest *h, bool begins, uint64_t ts_ns)
{
	h->in_gap = begins;
	return !begins && h->live > h->peak && highest__move(h, 0, 0, ts_ns, ts_ns);
}

#endif
