/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * diff_before: rows that may differ by nothing but blocks from before the attach.
 *
 * What allocated those is not known. A recording from the start of a job has them in rows, so against one from an attach
 * these rows seem to have grown. Bytes that only one of the two has so are assigned to rows with more at the peak but the same
 * allocations a step, the smallest first, as far as they reach: any of these rows may be the same blocks. Categories and names
 * compare them, as they are the same however a recording began.
 */
#ifndef MT_TIMELINE_DIFF_BEFORE_H
#define MT_TIMELINE_DIFF_BEFORE_H

#include "timeline/diff.h"

/* Such rows are marked, and come last, in their order. 0 or -ENOMEM. */
int diff__before(struct diff *d, const struct diff_side *a, const struct diff_side *b, enum diff_by by);

#endif
