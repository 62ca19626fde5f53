/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * nvml: the device's own truth, from libnvidia-ml.so.1 if the machine has one (dlopen'ed: never a
 * dependency). What it says becomes EV_NVML events: bytes used of a device, and of it by a process.
 *
 * NVML numbers the machine's devices, a process those that it sees: CUDA_VISIBLE_DEVICES of its environment
 * says which (numbers or UUIDs), and without it all in NVML's order are taken to be its own.
 */
#ifndef MT_LIVE_NVML_H
#define MT_LIVE_NVML_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

#define NVML_DEVICES_MAX 64

struct nvml;

/* NULL: no library, no driver, or no device: nothing is lost but this. */
struct nvml *nvml__open(void);
void nvml__close(struct nvml *n); /* NULL is fine */
/* What is known of these processes now. Devices that none of them uses are left out. */
void nvml__read(struct nvml *n, const pid_t *pids, size_t cnt, const struct tell *tell);

/* The process's number for NVML's device `index`; -1: it does not see it. `visible` NULL: not set. */
int nvml_ordinal(const char *visible, unsigned index, const char *uuid);

#endif
