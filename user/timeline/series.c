/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One division when a bucket ends, none inside it. Merging halves what is kept, so each bucket is
 * touched once in a halving and the work for any span of time is bounded by its logarithm.
 */
#include "timeline/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void series_acc__init(struct series_acc *s, uint64_t t0_ns)
{
	memset(s, 0, sizeof(*s));
	s->t0_ns = t0_ns;
	s->bucket_ns = SERIES_BUCKET_NS;
	s->end_ns = SERIES_BUCKET_NS;
	s->cnt = 1;
}

static void series_acc__halve(struct series_acc *s)
{
	size_t to = 0;

	for (size_t from = 0; from < s->cnt; from += 2, to++) {
		s->buckets[to] = s->buckets[from];
		if (from + 1 < s->cnt) {
			if (s->buckets[from + 1].max > s->buckets[to].max)
				s->buckets[to].max = s->buckets[from + 1].max;
			s->buckets[to].end = s->buckets[from + 1].end;
		}
	}
	s->cnt = to;
	s->bucket_ns *= 2;
}

/* Makes the bucket that holds t0 + rel the last one. */
void series_acc__advance(struct series_acc *s, uint64_t rel_ns)
{
	size_t idx;

	while (rel_ns / s->bucket_ns >= REPORT_SERIES_MAX)
		series_acc__halve(s);
	for (idx = rel_ns / s->bucket_ns; s->cnt <= idx; s->cnt++) {
		s->buckets[s->cnt].max = s->live;
		s->buckets[s->cnt].end = s->live;
	}
	if (__builtin_mul_overflow((uint64_t)s->cnt, s->bucket_ns, &s->end_ns))
		s->end_ns = UINT64_MAX;
}

int series_acc__copy(const struct series_acc *s, uint64_t until_ns, struct series *ret)
{
	struct series_acc *now = malloc(sizeof(*now));
	struct point *points;

	if (!now)
		return -ENOMEM;
	*now = *s;
	if (until_ns - s->t0_ns >= now->end_ns)
		series_acc__advance(now, until_ns - s->t0_ns);
	points = malloc(now->cnt * sizeof(*points));
	if (!points) {
		free(now);
		return -ENOMEM;
	}
	for (size_t i = 0; i < now->cnt; i++)
		points[i] = (struct point){
			.ts_ns = now->t0_ns + i * now->bucket_ns,
			.live_max = now->buckets[i].max,
			.live_end = now->buckets[i].end,
		};
	*ret = (struct series){ .points = points, .cnt = now->cnt, .bucket_ns = now->bucket_ns };
	free(now);
	return 0;
}
