/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * counters: what PyTorch's CUDA caching allocator counts of each device (c10's DeviceStats), found in a process's memory by its
 * shape and read from there, without a probe: bytes given out and reserved, now and at most.
 *
 * A Stat is four signed words: current, peak, allocated, freed. A StatArray is three of them: all, small blocks, large ones.
 * DeviceStats begins with six StatArrays: four counts, then allocated and reserved bytes (torch 2.13). Of each array the
 * first Stat is the sum of the others, in all but peak. Where the object is follows from the allocator's exported global: it
 * has a vector of pointers to what each device has, and those begin with the statistics, or nearly. No offset is needed.
 *
 * Everything read is hostile: a shape proves nothing by itself. Who shows the numbers has compared them with what was traced.
 */
#ifndef MT_TARGET_COUNTERS_H
#define MT_TARGET_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#define COUNTERS_GLOBAL "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
#define COUNTERS_DEVICES_MAX 64

#define COUNTERS_READS_MAX 2000 /* of one look; torch 2.13 needs some twenty */

struct target;

struct counters_mem {
	/* 0: all of it; -ETIMEDOUT: it took too long, as does the whole look: nothing more is read. */
	int (*read)(void *ctx, uint64_t addr, void *buf, size_t len);
	void *ctx;
};

/* Of each device where its statistics are; 0: it has none. */
struct counters_places {
	uint64_t at[COUNTERS_DEVICES_MAX];
	size_t cnt;
};

struct counters {
	uint64_t allocated, allocated_peak, reserved, reserved_peak;
};

/*
 * Where in the process the allocator's global is, by its mapped files as of target__refresh; 0: it has none. only_new: the
 * library is to be one of those that were new then. Reads files, which may keep it waiting: not for the loop.
 */
uint64_t counters__global(const struct target *t, int only_new);
/*
 * `object`: what the global points to. -ENOENT: nothing, or more than one place, has the shape and counted something yet: an
 * allocator that is of another kind, or was not used. -ETIMEDOUT: given up, after COUNTERS_READS_MAX reads or as `read` said.
 */
int counters__find(struct counters_places *ret, const struct counters_mem *mem, uint64_t object);
/* -EFAULT, -ETIMEDOUT: cannot be read; -EAGAIN: it does not fit, as when it is being written just now. */
int counters__read(struct counters *ret, const struct counters_mem *mem, uint64_t at);

#endif
