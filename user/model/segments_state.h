/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* segments_state: what a struct segments holds; for segments*.c alone. */
#ifndef MT_MODEL_SEGMENTS_STATE_H
#define MT_MODEL_SEGMENTS_STATE_H

#include "model/segments.h"

#define DEVS_MAX 66 /* every device and the unknown one */
#define PROCS_MAX 4096
#define ASKED_MAX (1u << 22)
#define GRAPHS_MAX 4096 /* and executables of them, a process; the oldest go */
#define POOLS_MAX 256
#define SIZE_BELIEVED (1ull << 57)

/* Memory at an address: a segment by itself, or a mapped piece of what a handle stands for. */
struct seg {
	uint64_t addr, size;
	uint32_t object; /* id of the struct object that this piece maps; 0: of none that was seen */
	uint32_t ctx;	 /* the driver's context, folded; 0: the primary one, or not seen */
	uint8_t kind, dev;
	bool piece, cached;
	bool comm;    /* for communication */
	bool waits;   /* a node of a graph that was not launched yet: no memory */
	uint32_t graph; /* id of its struct graph; 0: not known */
};

/* What has a handle instead of an address: PHYSICAL, ARRAY, RESERVED, IMPORTED. */
struct object {
	uint64_t handle, size;
	uint32_t id, refs, maps, ctx;
	uint8_t kind, dev;
	uint8_t counts_as; /* PHYSICAL memory may be the host's: PINNED */
	bool cached, comm;
};

struct asked {
	uint64_t ptr, size; /* ptr 0: free */
	uint8_t dev; /* as its sums': MT_DEV_NONE if not known */
};

/* A graph, or the stream that one is captured from, with what its nodes hold as it runs. */
struct graph {
	uint32_t id, handle; /* folded */
	uint8_t dev;	     /* of its nodes */
	bool captures;
	uint32_t waiting; /* nodes that were not launched yet */
	uint64_t live, peak;
};

struct exec {
	uint32_t handle, graph; /* folded; id */
};

struct pool {
	uint32_t handle; /* folded */
	uint8_t dev;
};

/* Of one device, over all processes. */
struct sums {
	uint8_t dev;
	bool seen, totals, requests;
	struct report_seg kinds[MT_SEG_MAX];
	uint64_t live, peak, peak_ts_ns;
	uint64_t allocated, allocated_peak, reserved, reserved_peak;
	uint64_t requested, requested_peak;
	uint64_t resets, trims;
	uint64_t comm, comm_peak; /* of its live bytes, pinned ones among them: those for communication */
	uint64_t comms_made, comms_ended;
	uint64_t graphs, launches, graph_peak; /* that have memory of their own; the most that one needs */
};

/* What the caching allocator of a process told of a device. */
struct told_totals {
	uint64_t allocated, reserved;
	uint8_t dev;
};

struct seg_proc {
	uint32_t pid;
	struct seg *segs; /* by address, disjoint */
	size_t cnt, cap;
	struct object *objects;
	size_t objects_cnt, objects_cap;
	uint32_t last_object;
	struct asked *asked;
	size_t asked_cnt, asked_mask;
	struct told_totals totals[DEVS_MAX];
	unsigned totals_cnt;
	struct graph *graphs;
	size_t graphs_cnt, graphs_cap;
	uint32_t last_graph;
	struct exec *execs;
	size_t execs_cnt, execs_cap;
	struct pool pools[POOLS_MAX];
	unsigned pools_cnt;
};

struct segments {
	struct sums *sums[DEVS_MAX];
	unsigned sums_cnt;
	struct seg_proc **procs;
	size_t procs_cnt;
};

static inline bool is_device_memory(uint8_t kind)
{
	return kind != MT_SEG_PINNED && kind != MT_SEG_REGISTERED && kind != MT_SEG_IMPORTED && kind != MT_SEG_RESERVED;
}

static inline bool has_handle(uint8_t kind)
{
	return kind == MT_SEG_PHYSICAL || kind == MT_SEG_ARRAY || kind == MT_SEG_RESERVED || kind == MT_SEG_IMPORTED;
}

struct sums *segments__find_sums(const struct segments *s, uint8_t dev); /* NULL: none */
const struct asked *seg_proc__find_asked(const struct seg_proc *p, uint64_t ptr); /* NULL: none */

#endif
