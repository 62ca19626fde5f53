/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * counters: the counts of PyTorch's CUDA caching allocator for each device (c10's DeviceStats), found in a process's memory by
 * their shape and read from there, without a probe: bytes given out and reserved, now and at most.
 *
 * A Stat is four signed words: current, peak, allocated, freed. A StatArray is three of them: all, small blocks, large ones.
 * DeviceStats begins with six StatArrays: four counts, then allocated and reserved bytes (torch 2.13). In each array the first
 * Stat is the sum of the others, except for the peak. The object is found through the allocator's exported global: it has a
 * vector of pointers to each device's data, which begins with the statistics, or nearly. No offset is needed.
 *
 * Everything read is hostile: a shape proves nothing by itself. The numbers are compared with what was traced before they are
 * shown.
 */
#ifndef MT_TARGET_COUNTERS_H
#define MT_TARGET_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#define COUNTERS_GLOBAL "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
#define COUNTERS_DEVICES_MAX 64

#define COUNTERS_READS_MAX 2000 /* per look; torch 2.13 needs some twenty */

struct target;

struct counters_mem {
	/* 0: all of it; -ETIMEDOUT: it took too long, and so does the whole look: nothing more is read. */
	int (*read)(void *ctx, uint64_t addr, void *buf, size_t len);
	void *ctx;
};

/* The address of each device's statistics; 0: it has none. */
struct counters_places {
	uint64_t at[COUNTERS_DEVICES_MAX];
	size_t cnt;
};

struct counters {
	uint64_t allocated, allocated_peak, reserved, reserved_peak;
};

/*
 * The address in the process of the allocator's global, from its mapped files as of target__refresh; 0: it has none. only_new:
 * the library must be one of those that were new then. Reads files, which may hold it up: not for the loop.
 */
uint64_t counters__global(const struct target *t, int only_new);
/*
 * `object`: what the global points to. -ENOENT: no place, or more than one, has the shape and counted something yet: an
 * allocator of another kind, or an unused one. -ETIMEDOUT: given up, after COUNTERS_READS_MAX reads or because `read` timed
 * out.
 */
int counters__find(struct counters_places *ret, const struct counters_mem *mem, uint64_t object);
/* -EFAULT, -ETIMEDOUT: cannot be read; -EAGAIN: inconsistent, for example while it is being written. */
int counters__read(struct counters *ret, const struct counters_mem *mem, uint64_t at);

#endif
