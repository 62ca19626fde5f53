/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Events of devices: SEG_*, TOTALS, REQUEST*, NVML. Which of them make blocks is in model_gpu.c. */
#ifndef MT_MODEL_MODEL_GPU_H
#define MT_MODEL_MODEL_GPU_H

struct event;
struct model;

void model__handle_gpu(struct model *m, const struct event *ev);
void model__gpu_check(const struct model *m);

#endif
