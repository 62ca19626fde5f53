/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* report_steps: the memory of a traced step of a sampled recording on average, with its error (docs/sampling.md). */
#ifndef MT_TIMELINE_REPORT_STEPS_H
#define MT_TIMELINE_REPORT_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

#define REPORT_STEPS_SURE 0.95 /* that what steps are made of lies within the errors */

/* An average over steps: it lies within ± error. Below 0: not known, from one window it cannot be estimated. */
struct report_estimate {
	double mean, error;
};

/* Bytes: on average over a step's time, and at its own peak. */
struct report_step_cat {
	struct report_estimate mean, at_peak;
};

struct report_step_dev {
	uint8_t dev;
	struct report_step_cat all, cats[CAT_MAX];
	uint64_t near; /* of the steps, those whose own peak is no more than 1 % below the device's */
};

/* Devices are those that had any bytes in these steps. */
struct report_steps {
	uint64_t steps, windows; /* whole traced steps behind these numbers; the windows that they are from */
	struct report_step_dev *devs;
	size_t devs_cnt;
};

/* Kinds of steps by their marks, also where nothing is traced (model/core/kinds.h). */
struct report_step_kind {
	uint64_t regions;  /* that begin in such a step; not known if has_regions is 0 */
	uint8_t has_regions;
	uint64_t watched, traced; /* steps */
	uint64_t took_ns, traced_took_ns; /* medians; 0: there was none */
	uint64_t peaks;	   /* that differ by more than a fiftieth, among those that `made` is of: marks do not see that */
	struct report_steps made;
};

#endif
