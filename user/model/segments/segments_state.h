/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* segments_state: what a struct segments holds; for segments*.c alone. */
#ifndef MT_MODEL_SEGMENTS_STATE_H
#define MT_MODEL_SEGMENTS_STATE_H

#include "base/map.h"
#include "model/segments/segments.h"

#define DEVS_MAX 66 /* every device and the unknown one */
#define PROCS_MAX 4096
#define ASKED_MAX (3u << 20)
#define GRAPHS_MAX 4096 /* and executables of them, a process; the oldest go */
#define POOLS_MAX 256
#define PRIVATE_POOLS_MAX 4096 /* a process */
#define LATE_MAX 4096 /* events that keep freed blocks, a process */
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
	uint16_t pool;	/* number of its private pool; 0: of none that is known */
	uint32_t graph; /* id of its struct cuda_graph; 0: not known */
	uint64_t pinned; /* its number, of PINNED ones; 0: none of them */
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
	uint64_t ptr, size;
	uint8_t dev; /* as its sums': MT_DEV_NONE if not known */
};

/* A block that was freed and is kept by an event of CUDA's; another event may keep it, too. */
struct late {
	uint64_t event, ptr;
	uint64_t size; /* 0: not known, or counted with another event of the block */
	uint32_t tid;  /* that freed it; 0: its totals were reported */
	uint8_t dev;
};

/* A graph, or the stream that one is captured from, with what its nodes hold as it runs. */
struct cuda_graph {
	uint32_t id, handle; /* folded */
	uint8_t dev;	     /* of its nodes */
	bool captures;
	uint16_t pool; /* number of the private pool that was open as it was captured; 0: none */
	uint32_t number; /* of the captures that ended, in their order; 0: it goes on, or it was not captured */
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

/*
 * A private pool of the caching allocator's: only its users get blocks of its segments. CUDA graphs write there at each replay,
 * also where no tensor is live any more. It has the number index + 1, and stays when it is over until the
 * table is full.
 */
struct private_pool {
	uint64_t id[2];
	uint64_t begun_ns; /* when it was opened first: graphs are captured then; 0: not seen */
	uint64_t launches;
	uint32_t uses;	 /* by graphs and torch.cuda.MemPool; 0: its segments go when the cache is emptied */
	uint32_t graphs; /* that were captured into it, the first ones and the last: */
	struct report_graph first[REPORT_POOL_GRAPHS], last;
	uint64_t opened; /* the number of that beginning in its process */
	uint32_t tid;	 /* what this thread asks for comes out of it now; 0: it is not open */
	bool captures;	 /* … and what any other asks for, whose work is captured, too */
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
	uint64_t late, late_peak, late_blocks; /* freed, and used by another stream yet; how many there ever were */
	uint64_t resets, trims;
	uint64_t comm, comm_peak; /* of its live bytes, pinned ones among them: those for communication */
	uint64_t comms_made, comms_ended;
	uint64_t graphs, launches, graph_peak; /* that have memory of their own; the most that one needs */
};

/* The totals that a process's caching allocator reported for a device. */
struct reported_totals {
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
	struct map asked; /* struct asked */
	struct reported_totals totals[DEVS_MAX];
	unsigned totals_cnt;
	struct cuda_graph *graphs;
	size_t graphs_cnt, graphs_cap;
	uint32_t last_graph, last_captured; /* an id; a number */
	struct exec *execs;
	size_t execs_cnt, execs_cap;
	struct late *late;
	size_t late_cnt, late_cap;
	struct pool pools[POOLS_MAX];
	unsigned pools_cnt;
	struct private_pool *private_pools;
	size_t private_cnt, private_cap;
	uint64_t last_opened;
};

struct segments {
	struct sums *sums[DEVS_MAX];
	unsigned sums_cnt;
	struct seg_proc **procs;
	size_t procs_cnt;
	uint64_t pinned_last;
	pinned_fn pinned; /* NULL: not wanted */
	void *pinned_ctx;
};

static inline bool is_device_memory(uint8_t kind)
{
	return kind != MT_SEG_PINNED && kind != MT_SEG_REGISTERED && kind != MT_SEG_IMPORTED && kind != MT_SEG_RESERVED;
}

static inline bool has_handle(uint8_t kind)
{
	return kind == MT_SEG_PHYSICAL || kind == MT_SEG_ARRAY || kind == MT_SEG_RESERVED || kind == MT_SEG_IMPORTED;
}

/* How a piece of memory ended. */
enum end { END_FREED, END_DROPPED };

/* segments_sums.c */
struct sums *segments__find_sums(const struct segments *s, uint8_t dev); /* NULL: none */
struct sums *segments__sums(struct segments *s, uint8_t dev); /* no device's are MT_DEV_NONE's; NULL: no memory */
struct seg_proc *segments__proc(const struct segments *s, uint32_t pid); /* NULL: none */
struct seg_proc *segments__add_proc(struct segments *s, uint32_t pid); /* NULL: full, no memory */
void seg_proc__free(struct seg_proc *p);
void sums__add(struct sums *u, uint8_t kind, bool comm, uint64_t size, uint64_t ts_ns);
void segments__count_out(struct segments *s, uint8_t dev, uint8_t kind, bool comm, uint64_t size, enum end how);
/* The device is known now: what was counted for none moves there. */
void segments__move_dev(struct segments *s, uint8_t kind, bool comm, uint64_t size, uint8_t dev, uint64_t ts_ns);

/* segments_requests.c */
bool segments__request(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev); /* false: lost */
void segments__unask(struct segments *s, struct seg_proc *p, uint64_t ptr);
void segments__over(struct segments *s, struct seg_proc *p, uint64_t event);
void segments__clear_late(struct segments *s, struct seg_proc *p, uint64_t addr, uint64_t size); /* blocks that begin there */
void segments__size_late(struct segments *s, struct seg_proc *p, const struct event *totals, uint64_t fell);
const struct asked *seg_proc__find_asked(const struct seg_proc *p, uint64_t ptr); /* NULL: none */

/* segments_table.c */
size_t seg_proc__at(const struct seg_proc *p, uint64_t addr); /* first segment that ends after addr */
bool seg_proc__insert(struct seg_proc *p, const struct seg *seg); /* false: full, no memory */
/* Of a handle that was not given back yet. `folded`: as a MAP names it. NULL: none. */
struct object *seg_proc__object(const struct seg_proc *p, uint8_t kind, uint64_t handle, bool folded);
struct object *seg_proc__object_by_id(const struct seg_proc *p, uint32_t id);
void segments__end_object(struct segments *s, struct seg_proc *p, struct object *o, enum end how);
void segments__end_at(struct segments *s, struct seg_proc *p, size_t i, enum end how);
void segments__clear(struct segments *s, struct seg_proc *p, uint64_t addr, uint64_t size); /* it was freed unseen */
struct cuda_graph *seg_proc__graph(const struct seg_proc *p, uint32_t id);

/* segments_graphs.c; false: lost */
struct cuda_graph *seg_proc__graph_of(const struct seg_proc *p, uint32_t handle, bool captures); /* NULL: not known */
struct cuda_graph *seg_proc__add_graph(struct seg_proc *p, uint32_t handle, bool captures);
bool segments__alloc_node(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev, struct cuda_graph *g);
bool segments__graph(struct segments *s, struct seg_proc *p, const struct event *ev);
bool seg_proc__set_pool(struct seg_proc *p, uint32_t handle, uint8_t dev);

/* segments_private.c */
bool seg_proc__private(struct seg_proc *p, const struct event *ev); /* of a private pool; false: lost */
/* The number of the pool that memory of the device is given to which this thread asks for; 0: none, or not known which. */
uint16_t seg_proc__open_pool(const struct seg_proc *p, uint8_t dev, uint32_t tid);
struct private_pool *seg_proc__pool(const struct seg_proc *p, uint16_t number); /* NULL: 0 */
void seg_proc__captures(struct seg_proc *p, struct cuda_graph *g, uint32_t tid); /* the thread captures from now on */
void seg_proc__captured(struct seg_proc *p, const struct cuda_graph *g, uint64_t ts_ns);
void private_pool__launched(struct private_pool *v, const struct cuda_graph *g);

#endif
