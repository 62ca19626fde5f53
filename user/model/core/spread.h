/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * spread: a mean over steps that were traced in windows, and its error. Neighbouring steps of one window are alike, so windows
 * are counted, not steps: a ratio over clusters, and Student's t with one degree of freedom less than windows (Cochran,
 * Sampling Techniques, 9.3). This assumes windows at random times, which they have with a budget.
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
