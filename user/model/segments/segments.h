/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * segments: what the driver gave, and where the caching allocator's blocks lie in it.
 *
 *   segment   one allocation of the driver or runtime: cudaMalloc, a mapped piece of cuMemCreate, pinned
 *             host memory … (enum mt_seg). Keyed by process and address or handle.
 *   cached    a segment out of which the caching allocator has given a block; the others are those of
 *             libraries: workspaces, communication buffers
 *   inactive  free bytes of cached segments that hold a block: they cannot go back to the driver
 *
 * PHYSICAL memory lives until all references to it were given back and its last mapping is gone, in either
 * order: mapped pieces carry its number. Arrays, reserved addresses and imported memory have handles, too.
 * A segment of unknown device (attached in mid-run, so the thread's cudaSetDevice was not seen) gets it
 * from the first block in it; until then it counts for no device.
 *
 * Memory nodes of a graph (kind GRAPH; added by hand, or ASYNC calls on a stream while it is captured) are addresses
 * until the graph's first launch. What a graph frees itself ends when that is captured; the most that its nodes
 * hold at once is what the driver needs to run it, and keeps until a trim: graph_peak, which no layer contains.
 *
 * Nothing here is an estimate: segments from before the attach are not here at all; the caching allocator's
 * reserved bytes (TOTALS) minus the cached segments here are theirs.
 */
#ifndef MT_MODEL_SEGMENTS_H
#define MT_MODEL_SEGMENTS_H

#include <stdbool.h>

#include "event/event.h"
#include "timeline/report.h"

#define SEGMENTS_MAX 65536 /* a process */

struct block;
struct blocks;
struct segments;

struct segments *segments__new(void); /* NULL: no memory */
void segments__free(struct segments *s); /* NULL is fine */
/* The driver has pinned memory of the host, or (is_end) it is pinned no more. Numbers from 1, never reused. */
struct pinned {
	uint64_t number, addr, size;
	uint32_t pid;
	bool is_end;
};
typedef void (*pinned_fn)(void *ctx, const struct pinned *p);
void segments__on_pinned(struct segments *s, pinned_fn fn, void *ctx);

/* The device of an ASYNC segment's pool, by its folded handle; MT_DEV_NONE: not known. */
uint8_t segments__pool_dev(const struct segments *s, uint32_t pid, uint32_t pool);
/* SEG_*, TOTALS, REQUEST, REQUEST_FREE, STREAM but for WAITS. false: full or no memory, the event is lost. */
bool segments__event(struct segments *s, const struct event *ev);
/* A STREAM event: a block that is being freed waits for another stream. Its device and size, 0: known from the next TOTALS. */
bool segments__waits(struct segments *s, const struct event *ev, uint8_t dev, uint64_t size);
/* A framework block of a device was allocated: the segments under it are the caching allocator's. */
void segments__allocated(struct segments *s, const struct block *b);
void segments__drop_pid(struct segments *s, uint32_t pid); /* all of it is given back */

/* Fills a report's part of the device (MT_DEV_NONE: memory of unknown device). `blocks`: the live ones. */
int segments__report(const struct segments *s, uint8_t dev, const struct blocks *blocks, struct report_segments *ret);
/* The rest of it, from the bytes of the device's live blocks and NVML's numbers in it. */
void segments__layers(struct report_segments *r, uint64_t blocks_live);
/*
 * The `top` largest by size, of a process (0: all) on a device (-1: all); *ret is the caller's to free. -ENOMEM.
 */
int segments__rows(const struct segments *s, const struct blocks *blocks, uint32_t pid, int dev, size_t top,
		   struct report_seg_row **ret, size_t *ret_cnt);
/* Private pools that have segments, the `top` largest of all processes; *ret is the caller's to free. -ENOMEM. */
int segments__pools(const struct segments *s, const struct blocks *blocks, uint64_t start_ns, size_t top,
		    struct report_pool **ret, size_t *ret_cnt);

/* The caching allocator of this process reported its totals: it gives out the blocks there. */
bool segments__has_totals(const struct segments *s, uint32_t pid, uint8_t dev);
/* Stream-ordered segments of the device are not the framework's after all. */
void segments__disown_async(struct segments *s, uint32_t pid, uint8_t dev);
/* A segment or mapped piece begins or goes on at this address. */
bool segments__has(const struct segments *s, uint32_t pid, uint64_t addr);
/* The only device that the process has memory on; MT_DEV_NONE if there are several, or none is known. */
uint8_t segments__only_dev(const struct segments *s, uint32_t pid);

void segments__check(const struct segments *s); /* aborts when broken */

/* Peaks so far, added up over all devices: of the driver's memory, and of the allocators' totals. */
uint64_t segments__high(const struct segments *s);

#endif
