/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * world: processes that never ran: what they really do, what is seen of it, and what goes wrong.
 *
 * world__next() makes one event, says whether it is delivered, and what is true of it: which op and
 * which region an allocation belongs to. Frames are opened and closed as the BPF side does it: most
 * closings are silent, no frame past MT_FRAMES_MAX is kept.
 */
#ifndef MT_TESTS_SIM_WORLD_H
#define MT_TESTS_SIM_WORLD_H

#include "event/event.h"

#define W_PROCS 3
#define W_THREADS 3
#define W_BLOCKS 4096
#define W_OPS 24
#define W_REGIONS 6

struct w_frame {
	name_id name;
	uint32_t seq;
	uint64_t entry; /* place among the delivered nodes and regions of the thread */
	uint8_t kind;
	int delivered;
};

struct w_region { /* as far as can be known from what was delivered */
	name_id name;
	uint64_t entry;
};

struct w_thread {
	uint32_t tid, seq;
	uint64_t entries;
	int frames_lost;
	uint32_t depth, true_regions;
	struct w_frame frames[MT_FRAMES_MAX];
	uint32_t regions_cnt;
	struct w_region regions[MT_REGIONS_MAX];
};

struct w_proc {
	uint32_t pid;
	int alive;
	struct w_thread threads[W_THREADS];
};

struct w_block {
	uint64_t ptr;
	uint32_t proc;
	uint8_t dev;
};

struct w_truth {
	name_id op;
	name_id region;	    /* right if no frame of the thread was ever lost … */
	name_id region_alt; /* … else this may be said instead */
	int lost;	    /* the op's record was not delivered */
	int exact;	    /* region_alt is not allowed */
	int unchecked;	    /* nonsense was sent: nothing is known */
};

struct world {
	uint64_t rng, ts;
	/* what this run is like */
	uint32_t loss, alloc_bias, nonsense, sizes; /* of 1000; sizes: distinct ones, 0 = many */
	int regions_lost;
	name_id ops[W_OPS], nodes[W_OPS], region_names[W_REGIONS], comms[4];
	struct w_proc procs[W_PROCS];
	struct w_block blocks[W_BLOCKS];
	uint32_t blocks_cnt;
	uint64_t starts;
};

void world__init(struct world *w, uint64_t seed, struct names *names);
/* 1: delivered, 0: lost on the way. */
int world__next(struct world *w, struct event *ev, struct w_truth *truth);
uint32_t world__below(struct world *w, uint32_t n);

#endif
