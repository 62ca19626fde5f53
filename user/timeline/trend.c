/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "timeline/trend.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

#define TAU_MIN 0.7
#define Z_MIN 3.0

static double difference(uint64_t a, uint64_t b)
{
	return a > b ? (double)(a - b) : -(double)(b - a);
}

static double middle(double *v, size_t cnt)
{
	qsort(v, cnt, sizeof(*v), double_cmp);
	return cnt % 2 ? v[cnt / 2] : (v[cnt / 2 - 1] + v[cnt / 2]) / 2;
}

static uint64_t deepest_fall(const uint64_t *p, size_t cnt)
{
	uint64_t high = 0, fall = 0;

	for (size_t i = 0; i < cnt; i++) {
		high = p[i] > high ? p[i] : high;
		fall = high - p[i] > fall ? high - p[i] : fall;
	}
	return fall;
}

static uint64_t rise(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

struct trend trend_of(const uint64_t *p, size_t cnt)
{
	double slopes[TREND_POINTS_MAX * (TREND_POINTS_MAX - 1) / 2], n = (double)cnt;
	struct trend t = { 0 };
	size_t pairs = 0;
	int64_t score = 0;

	if (cnt < TREND_POINTS_MIN || cnt > TREND_POINTS_MAX)
		return t;
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = i + 1; k < cnt; k++) {
			score += (p[k] > p[i]) - (p[k] < p[i]);
			slopes[pairs++] = difference(p[k], p[i]) / (double)(k - i);
		}
	t.slope = middle(slopes, pairs);
	t.tau = (double)score / (double)pairs;
	t.z = (double)score / sqrt(n * (n - 1) * (2 * n + 5) / 18);
	t.growth = rise(p[0], p[cnt - 1]);
	t.fall = deepest_fall(p, cnt);
	t.recent = rise(p[cnt - 1 - cnt / 4], p[cnt - 1]);
	return t;
}

/* Over: the last quarter added less than a third of what a quarter adds on average. */
int trend__grows(const struct trend *t, uint64_t least)
{
	return t->tau >= TAU_MIN && t->z >= Z_MIN && t->growth >= least && t->fall <= t->growth / 4 &&
	       t->recent >= t->growth / 12 && t->recent > 0;
}
