/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* regions: names of regions that several rooms know, as torch 1.13 to 2.15 gives them (torch/optim/optimizer.py). */
#ifndef MT_BASE_REGIONS_H
#define MT_BASE_REGIONS_H

#include <string.h>

#define REGION_STEP "Optimizer.step#"
#define REGION_CLEAR "Optimizer.zero_grad#"

/* "Optimizer.step#Adam.step": where nobody marks steps, one begins with it. */
static inline int region_is_step(const char *name)
{
	return !strncmp(name, REGION_STEP, sizeof(REGION_STEP) - 1);
}

/* "Optimizer.zero_grad#Adam.zero_grad": all that is left of a step where torch.compile has made the optimizer's. */
static inline int region_is_clearing(const char *name)
{
	return !strncmp(name, REGION_CLEAR, sizeof(REGION_CLEAR) - 1);
}

#endif
