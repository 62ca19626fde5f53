/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * diff_before: rows that may differ by nothing but blocks from before the attach.
 *
 * Who allocated those is not known. A recording that was there from the start has them in rows, so against one that was not
 * these rows seem to have grown. What only one of the two has of that is dealt out to rows that have more at the peak though
 * they allocate as much a step, the smallest first, as far as it reaches: any of them may be the same blocks. Whoever wants to
 * know what became of them asks for categories or names, which are the same however a recording began.
 */
#ifndef MT_TIMELINE_DIFF_BEFORE_H
#define MT_TIMELINE_DIFF_BEFORE_H

#include "timeline/diff.h"

/* Such rows are marked, and come last, in their order. 0 or -ENOMEM. */
int diff__before(struct diff *d, const struct diff_side *a, const struct diff_side *b, enum diff_by by);

#endif
