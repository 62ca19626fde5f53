/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * trend: does a row of numbers, taken at equal distances, grow and go on growing?
 *
 * No average: one early jump, a plateau or a queue that grows and shrinks must not look like a leak. So the slope is Theil's
 * and Sen's (the median of the slopes of all pairs), its significance Mann's and Kendall's (how many pairs rise, less those
 * that fall), and rows that fall back, or stand still at the end, are distinguished.
 */
#ifndef MT_TIMELINE_TREND_H
#define MT_TIMELINE_TREND_H

#include <stddef.h>
#include <stdint.h>

#define TREND_POINTS_MAX 32
#define TREND_POINTS_MIN 8 /* fewer may rise by chance, however they rise: z is below 3 */

struct trend {
	double slope;	 /* a point */
	double tau;	 /* -1 to 1 */
	double z;	 /* tau in standard deviations of chance */
	uint64_t growth; /* last - first, 0 if it fell */
	uint64_t fall;	 /* the deepest below an earlier point */
	uint64_t recent; /* growth over the last quarter */
};

/* At most TREND_POINTS_MAX points; of fewer than TREND_POINTS_MIN everything is 0. */
struct trend trend_of(const uint64_t *points, size_t cnt);
/* By at least `least`: mostly rising, hardly falling, and not over. */
int trend__grows(const struct trend *t, uint64_t least);

#endif
