/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * spread: the mean of something over steps that were looked at in windows, and how far off it may be. Steps of one window lie
 * side by side and are alike, so it is windows that are counted, not steps: a ratio over clusters, and Student's t of one
 * less than there are windows (Cochran, Sampling Techniques, 9.3). It is as if windows were at random: they are with a budget.
 */
#ifndef MT_MODEL_SPREAD_H
#define MT_MODEL_SPREAD_H

#include <stddef.h>
#include <stdint.h>

#include "timeline/report_steps.h"

struct spread_step {
	uint64_t window; /* steps of a window stand side by side */
	double v;
};

double spread__t(size_t windows); /* the half of an interval that is 95 % sure, in standard errors; 2 windows at least */
struct report_estimate spread__of(const struct spread_step *v, size_t cnt);

#endif
