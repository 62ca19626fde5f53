/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* regions: names of regions known to several rooms, as torch 1.13 to 2.15 writes them (torch/optim/optimizer.py). */
#ifndef MT_BASE_REGIONS_H
#define MT_BASE_REGIONS_H

#include <string.h>

#define REGION_OPTIMIZER "Optimizer."
#define REGION_STEP REGION_OPTIMIZER "step#"
#define REGION_CLEAR REGION_OPTIMIZER "zero_grad#"
#define REGION_LOADER "enumerate(DataLoader)" /* "#_MultiProcessingDataLoaderIter.__next__" */

/* "Optimizer.step#Adam.step": a step begins with it, unless steps are marked. */
static inline int region_is_step(const char *name)
{
	return !strncmp(name, REGION_STEP, sizeof(REGION_STEP) - 1);
}

/* "Optimizer.zero_grad#Adam.zero_grad": all that is left of a step whose optimizer torch.compile has compiled. */
static inline int region_is_clearing(const char *name)
{
	return !strncmp(name, REGION_CLEAR, sizeof(REGION_CLEAR) - 1);
}

#endif
