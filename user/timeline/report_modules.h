/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Modules and phases, and what autograd keeps of them. */
#ifndef MT_TIMELINE_REPORT_MODULES_H
#define MT_TIMELINE_REPORT_MODULES_H

#include <stddef.h>
#include <stdint.h>
#include "event/event.h"
#include "timeline/timeline.h"

/*
 * Sums of a module: of it alone (the innermost one), or with all that is in it. live_count, live and at_peak are of blocks
 * that it made, and of those that no module made and it holds by name: parameters, buffers, and the optimizer's state of them.
 */
struct report_module_sum {
	uint64_t alloc_count, alloc_bytes, live_count, live, at_peak; /* as in report_op */
	uint64_t saved; /* made there and kept for backward: of the largest pass (struct report_saved) */
	uint64_t recomputable; /* kept, but made and needed within it (a root: those in it); own: in none in it */
	uint64_t by_phase_count[PHASE_MAX], by_phase_bytes[PHASE_MAX], by_phase_live[PHASE_MAX]; /* allocated in */
};

/*
 * An nn.Module. What it made is known from the Python frames at the allocation, in backward from the module that made the node
 * (docs/modules.md). Highest values are each at its own moment, of the module with all that is in it.
 */
struct report_module {
	uint32_t pid;
	uint32_t parent; /* index in modules + 1; 0: a root. Parents stand before those in them */
	uint32_t depth;
	uint32_t row; /* the same in all reports of one model, also before its name is known */
	char *name;  /* path from its root: "layers.0.linear1"; "" of a root, NULL: not known */
	char *root;  /* label of that root: its class, "#2" after the second of that class; "" not known */
	char *class; /* "Linear" */
	uint64_t calls;
	struct report_module_sum own, all;
	uint64_t activation;	  /* highest of what its forward (and recompute) made and had not freed */
	uint64_t activation_live; /* … now */
	uint64_t kinds[EV_TENSOR_MAX], kinds_live[EV_TENSOR_MAX]; /* named storages, highest and now, by enum ev_tensor */
	uint64_t input, output;	  /* storages given to, and used outside of, one call: of the largest; needs the source flow */
	uint64_t peak_forward, peak_backward; /* of all live bytes of the process while it ran, seen at allocations */
};

/* What an operator allocated in one module, itself and not what it called; in none: has_module 0. */
struct report_op_module {
	char *op;	     /* "": none */
	char *module, *root; /* as name and root of report_module; NULL: none, or not known */
	uint32_t pid;	     /* of the module */
	uint8_t has_module;
	uint64_t alloc_count, alloc_bytes, by_phase[PHASE_MAX]; /* bytes */
};

struct report_phase {
	uint64_t entries, ns; /* ns: of all threads together */
	uint64_t alloc_count, alloc_bytes, live;
	uint64_t peak; /* of all live bytes of a process, seen at allocations in it */
};

struct report_modules {
	struct report_module *rows; /* all that are known or made a block; what has most at the peak first, then those in it */
	size_t cnt;
	struct report_module_sum none; /* of none */
	struct report_op_module *ops;  /* all of them, by alloc_bytes */
	size_t ops_cnt;
	uint64_t ops_rest; /* bytes of pairs that found no room */
	struct report_phase phases[PHASE_MAX];
};

/* What autograd kept of a process's blocks when its largest backward pass began (docs/saved.md). */
struct report_saved_proc {
	uint32_t pid;
	uint64_t passes; /* that are over */
	uint64_t ts_ns, live; /* when it began, and what the process had on framework devices */
	uint64_t bytes, cnt;
	uint64_t rest_bytes, rest_cnt; /* of them: found no room, and are in no row */
	uint64_t last_bytes; /* of the last pass */
};

/* Of blocks made by one operator in modules of one pattern, and kept for one kind of node. */
struct report_saved_row {
	uint32_t pid;
	uint8_t dev, has_module;
	uint32_t modules; /* so many of this pattern */
	char *module;	  /* "layers.*.linear1": that its forward made them; "" a root, NULL: none, or not known */
	char *root, *class; /* root as module; class "": not known */
	char *recompute; /* the innermost module within which they are made and needed: "layers.*"; NULL: none, or not known */
	char *op, *region; /* "" none */
	char *node;	   /* the backward node that used or freed them last */
	uint64_t bytes, cnt, largest;
};

struct report_saved_block {
	uint64_t ptr, size;
	struct report_saved_row of; /* without its sums */
};

struct report_saved {
	struct report_saved_proc *procs; /* with a backward pass, in order of appearance */
	size_t procs_cnt;
	struct report_saved_row *rows; /* of all of them, by bytes; `top` at most */
	size_t cnt, total;
	struct report_saved_block *blocks; /* the largest; `top` (and 1024) at most */
	size_t blocks_cnt;
};

void report_saved_row__done(struct report_saved_row *r); /* its texts */

#endif
