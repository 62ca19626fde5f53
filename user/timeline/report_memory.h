/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Devices, the driver's layer of them, and blocks. */
#ifndef MT_TIMELINE_REPORT_MEMORY_H
#define MT_TIMELINE_REPORT_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "event/event.h"
#include "memtrace/event.h"
#include "timeline/timeline.h"

#define REPORT_SERIES_MAX 1024 /* points a series has at most */
#define REPORT_LANES_MAX 1024

#define POINT_UNKNOWN UINT64_MAX /* nothing was traced */

struct point {
	uint64_t ts_ns;	   /* start of the bucket */
	uint64_t live_max; /* highest in the bucket */
	uint64_t live_end; /* at its end */
};

struct series {
	struct point *points;
	size_t cnt;
	uint64_t bucket_ns;
};

struct report_cat {
	uint64_t live, at_peak, byte_ns;
	int64_t plain; /* more (or less) at the peak by plain category, where torch.profiler's mislead (graph__plain()) */
};

static inline uint64_t report_cat__plain(const struct report_cat *c)
{
	return c->at_peak + (uint64_t)c->plain;
}

/* What the driver gave of one kind (enum mt_seg). PHYSICAL memory counts from creation to its real end. */
struct report_seg {
	uint64_t live, peak;
	uint64_t allocs, frees, dropped; /* dropped: with a context, a reset or the process */
	uint64_t fails, fail_bytes_last;
	uint32_t fail_code_last;
};

/* The allocator of a device's blocks, as far as its calls were seen. */
enum report_backend {
	BACKEND_UNKNOWN = 0, BACKEND_CACHING, BACKEND_EXPANDABLE, BACKEND_ASYNC, BACKEND_NO_CACHING, BACKEND_MAX,
};

/* The driver's layer of a device, and how the caching allocator uses it. Bytes. */
struct report_segments {
	uint8_t seen;	  /* a driver call was seen: kinds, live, peak mean something */
	uint8_t totals;	  /* the caching allocator reported its own: allocated, reserved */
	uint8_t requests; /* … and the sizes asked for: requested */
	uint8_t backend;  /* enum report_backend */
	struct report_seg kinds[MT_SEG_MAX];
	uint64_t live, peak, peak_ts_ns; /* of the device's own memory: without PINNED, REGISTERED, IMPORTED, RESERVED */
	uint64_t cached, other;		 /* live segments by whether the caching allocator uses them; cached + other = live */
	uint64_t allocated, allocated_peak; /* as reported */
	uint64_t allocated_before;	    /* of it, in blocks from before the attach that nothing has used since */
	uint64_t reserved, reserved_peak;   /* as reported, segments freed since taken off */
	uint64_t reserved_before;	    /* of it, in segments from before the attach */
	uint64_t requested, requested_peak; /* of live blocks, before rounding */
	uint64_t rounding;		    /* of live blocks whose request was seen: their bytes beyond it */
	uint64_t inactive;		    /* free, in cached segments that hold a block */
	uint64_t free_cached;		    /* in cached segments that hold none */
	uint64_t largest_free;		    /* longest free range of the cached segments */
	uint64_t late, late_peak, late_blocks; /* freed, but another stream may use it yet: now, at most; how many blocks */
	uint64_t resets, trims;
	uint64_t comm, comm_peak;		/* live bytes for communication, of every kind */
	uint64_t comms_made, comms_ended;	/* communicators */
	uint64_t graphs, launches, graph_peak;	/* CUDA graphs that have memory of their own; the most that one needs */
	/* layers that add up: driver = allocator + others, allocator = tensors + rounding + late + private_free + unused */
	uint64_t driver;    /* live, and reserved before the attach */
	uint64_t allocator; /* of it, the framework's */
	uint64_t tensors, unused, others;
	uint64_t private_free; /* of the allocator's, in no block, in private pools in use: not available to others */
	uint64_t private_reserved, private_used; /* the segments of all private pools; blocks in them */
	uint64_t communication; /* of others */
	/* the caching allocator's own counters, read from its process's memory: of how many, resets, the highest */
	uint32_t counted;
	uint64_t counted_resets, counted_allocated_peak, counted_reserved_peak;
	/* NVML's last values: the whole device, and of it the followed processes */
	uint8_t nvml;
	uint8_t nvml_procs; /* it reports bytes of processes, too */
	uint64_t nvml_used, nvml_used_peak, nvml_own, nvml_own_peak;
	uint64_t nvml_total; /* memory that the device has */
	uint64_t residual; /* nvml_own - driver, never negative: contexts, code, what was there before the attach */
};

/* A segment, or mapped pieces side by side as one. */
struct report_seg_row {
	uint64_t addr, size, used, largest_free; /* used: by the blocks in it */
	uint32_t pid, blocks;
	uint8_t dev, kind; /* enum mt_seg */
	uint8_t is_cached; /* the caching allocator's */
	uint8_t is_comm;   /* for communication */
	uint8_t is_private; /* of the private pool of this number, of the process */
	uint64_t pool_id[2];
};

/* The highest moment of a stretch of REPORT_HIGH_NS, of those in which the device's memory changed. */
#define REPORT_HIGHS 64 /* sixteen seconds: reports should not come less often */
#define REPORT_HIGH_NS 250000000ull

struct report_high {
	uint64_t ts_ns;
	uint64_t cats[CAT_MAX];
};

struct report_dev {
	uint8_t dev;
	struct report_segments segs;
	uint64_t live, peak, peak_ts_ns;
	uint64_t allocs, frees;		/* of blocks seen from their allocation on; frees of these and of late ones */
	uint64_t alloc_bytes, free_bytes;
	uint64_t preexisting_frees;	/* frees of blocks never seen allocated (bytes unknown) */
	uint64_t unseen_blocks, unseen_bytes; /* that ended in a gap */
	uint64_t dropped, dropped_bytes; /* blocks that were live when their process went away */
	uint64_t ooms, oom_bytes_last;
	uint64_t byte_ns;		/* integral of live over time; kept in 128 bits, UINT64_MAX if more */
	uint64_t preexisting_blocks;	/* first seen as an operator's tensor: part of live from then on */
	uint64_t preexisting_bytes;
	uint64_t carried_blocks, carried_bytes; /* lived before the window of a flight recorder began; reported there */
	struct report_cat cats[CAT_MAX];
	struct series series;
	struct series between; /* of time that was not traced, but in which allocations were seen */
	struct report_high highs[REPORT_HIGHS]; /* of the last 16 seconds, by time, with categories, which series lack */
	unsigned highs_cnt;
};

/* A graph that was captured, by its number: captures of its process that were seen to end, in that order, from 1. */
struct report_graph {
	uint64_t captured_ns; /* 0: not seen, before a window */
	uint64_t launches;
	uint32_t number;
};

#define REPORT_POOL_GRAPHS 16

/* A private pool of the caching allocator, CUDA graphs' or torch.cuda.MemPool's, that has segments. */
struct report_pool {
	uint64_t id[2];
	uint64_t reserved, used, launches; /* of graphs that were captured into it */
	uint64_t begun_ns; /* when it was opened first; 0: not seen */
	uint32_t pid, segments, graphs, uses; /* uses 0: unused, its segments are freed when the cache is emptied */
	uint8_t dev;
	struct report_graph first[REPORT_POOL_GRAPHS], last; /* of `graphs` that were captured: the first ones, and the last */
};

/* Segments, and memory whose device is not known. */
struct report_driver {
	struct report_seg unknown[MT_SEG_MAX]; /* of no known device: host memory, and devices that were not reported */
	uint64_t unknown_comm, unknown_comm_peak; /* of them for communication: pinned memory */
	struct report_seg_row *rows; /* largest segments live at the end, by size; `top` (and 1024) at most */
	size_t cnt;
	struct report_pool *pools; /* by what they reserve; `top` (and 1024) at most */
	size_t pools_cnt;
};

struct report_block {
	uint64_t id, ptr, size;
	uint64_t allocated_ts_ns, freed_ts_ns; /* freed 0: live at the end */
	char *op, *region;
	char *module, *root; /* whose forward or backward made it, as in report_module; NULL: no module's, or not known */
	char *name; /* in Python: "layers.0.weight", "exp_avg layers.0.weight"; NULL: none that is known now */
	uint32_t pid, tid;
	uint8_t dev, cat;
	uint8_t has_stream;
	uint32_t stream; /* folded to 32 bits (event/event.h); 0: the default one */
};

struct report_blocks {
	struct report_block *rows; /* by size; `top` (and 1024) at most */
	size_t cnt;
};

/* What a process holds on a device now, by category. */
struct report_lane {
	uint32_t pid;
	uint8_t dev;
	uint64_t cats[CAT_MAX];
};

struct report_lanes {
	struct report_lane *rows; /* those that hold a block, by pid and device; of a process too many: pid 0 */
	size_t cnt;
};

#endif
