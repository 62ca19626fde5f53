/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * series: how a series of a report grows: a value over time in at most REPORT_SERIES_MAX buckets of
 * equal width. When they are used up, neighbours are merged and the width doubles: for ever bounded,
 * the maximum of each bucket exact. A bucket's maximum includes the value that it began with.
 *
 * Buckets start at t0; times never decrease. The value is 0 until it is first set.
 */
#ifndef MT_TIMELINE_SERIES_H
#define MT_TIMELINE_SERIES_H

#include "timeline/report.h"

#define SERIES_BUCKET_NS 1000000u /* at first: a second in all */

struct series_acc {
	uint64_t t0_ns;
	uint64_t end_ns; /* of the last bucket, after t0 */
	uint64_t live;	 /* value now */
	uint64_t bucket_ns;
	size_t cnt; /* buckets begun, at least 1 */
	struct {
		uint64_t max, end;
	} buckets[REPORT_SERIES_MAX];
};

void series_acc__init(struct series_acc *s, uint64_t t0_ns);
void series_acc__advance(struct series_acc *s, uint64_t rel_ns);
/* A copy whose last bucket holds until_ns. 0 or -ENOMEM; points is the caller's. */
int series_acc__copy(const struct series_acc *s, uint64_t until_ns, struct series *ret);

/* The value is `live` from ts on. */
static inline void series_acc__set(struct series_acc *s, uint64_t ts_ns, uint64_t live)
{
	uint64_t rel = ts_ns - s->t0_ns;

	if (__builtin_expect(rel >= s->end_ns, 0))
		series_acc__advance(s, rel);
	s->live = live;
	if (live > s->buckets[s->cnt - 1].max)
		s->buckets[s->cnt - 1].max = live;
	s->buckets[s->cnt - 1].end = live;
}

#endif
