/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * nvml: the devices' memory as the driver reports it, from libnvidia-ml.so.1 if the machine has one (dlopen'ed: never a
 * dependency). It becomes EV_NVML events: bytes used of a device, and by each process.
 *
 * NVML numbers the machine's devices, a process those that it sees: CUDA_VISIBLE_DEVICES of its environment selects them
 * (numbers or UUIDs), and without it all of them in NVML's order are taken to be its own.
 */
#ifndef MT_LIVE_NVML_H
#define MT_LIVE_NVML_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/tell.h"

#define NVML_DEVICES_MAX 64

struct nvml;

/* NULL: no library, no driver, or no device: only these events are missing. */
struct nvml *nvml__open(void);
void nvml__close(struct nvml *n); /* NULL is fine */
/* Current readings for these processes. Devices that none of them uses are left out. */
void nvml__read(struct nvml *n, const pid_t *pids, size_t cnt, const struct tell *tell);

/* The process's number for NVML's device `index`; -1: it does not see it. `visible` NULL: not set. */
int nvml_ordinal(const char *visible, unsigned index, const char *uuid);

#endif
