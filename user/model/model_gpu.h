/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Whose events make the blocks of a device: SEG_*, TOTALS, REQUEST*, NVML. model_gpu.c says who makes a block. */
#ifndef MT_MODEL_MODEL_GPU_H
#define MT_MODEL_MODEL_GPU_H

struct event;
struct model;

void model__handle_gpu(struct model *m, const struct event *ev);
void model__gpu_check(const struct model *m);

#endif
