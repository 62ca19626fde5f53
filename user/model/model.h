/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * model: ordered events in, the state of every process's memory out. A pure function of the event
 * sequence: no clock, no /proc, no libbpf; live and replay are the same calls.
 *
 * Glossary (one word a concept):
 *   block     one live (pid, device, pointer); allocated by ALLOC, ends by FREE; its id is never reused
 *   op        operator call, named; the innermost open one at a block's allocation is the block's op
 *   node      backward node (torch::autograd::Node) being evaluated; a frame like an op
 *   frame     an op or node on a thread's stack, rebuilt from depth and seq (memtrace/event.h)
 *   region    record_function or USDT region of a thread: "Optimizer.step#Adam.step"
 *   preexisting  block first seen by its FREE: allocated before the attach, size unknown
 *   peak      highest live bytes of a device (or process), and what was live then
 *   series    live bytes over time at a bounded resolution
 */
#ifndef MT_MODEL_MODEL_H
#define MT_MODEL_MODEL_H

#include "event/event.h"
#include "timeline/timeline.h"

struct report;
struct model;

/*
 * A block as the events that report it to a replay: EV_WAS, EV_WAS_FLOW, EV_WAS_MODULE, EV_TENSOR_OF, EV_TENSOR. Their ts_ns is
 * its allocation; seq is not set yet, except EV_TENSOR's, which is another field.
 */
struct model_was { /* begins with id: u64_cmp */
	uint64_t id;
	struct event ev[5];
	unsigned cnt;
	uint32_t stack; /* where it was allocated, an EV_STACK_AT before them; 0: not known */
	uint32_t caught; /* the same, an EV_CAUGHT */
};

struct model_opts {
	size_t blocks_max;    /* 0: default (64 M) */
	timeline_fn timeline; /* may be NULL; an error it returns ends model__handle with it */
	void *timeline_ctx;
	int timeline_ops; /* also TL_OP and TL_REGION* */
	int timeline_nodes; /* also TL_NODE, TL_FINAL and TL_NAME */
	enum classes classes;
	int learns_nothing; /* from traced steps, for what is allocated between them: that is not seen, or not asked for */
	/* Blocks that lived at the last model__mark, when they end. May be NULL. */
	void (*was_freed)(void *ctx, const struct model_was *was);
	void *was_freed_ctx;
};

#define OOM_RETRY_NS 1000000000ull
/* SEG_FAIL: it was for want of memory. Final unless the same thread gets as much within OOM_RETRY_NS. */
int model_is_refusal(const struct event *ev);

struct model *model__new(const struct names *names, const struct model_opts *opts); /* NULL: no memory */
void model__free(struct model *m);
/* 0, or the timeline's error. Odd events are counted, never errors. An event_fn. */
int model__handle(void *model, const struct event *ev);
/* No more events: reports what was held back (TL_NODE, TL_FINAL). Does not change reports. Returns as model__handle. */
int model__end(struct model *m);
/*
 * Events for a recording that begins now, so that its replay goes on as this model does (together with the
 * events of processes, which the model does not keep). 0, or fn's error.
 */
uint64_t model__mark(struct model *m); /* id of the newest block */
int model__each_open(const struct model *m, event_fn fn, void *ctx); /* regions, frames and modules of all threads */
int model__each_stack(const struct model *m, event_fn fn, void *ctx); /* the whole tree of stacks, at most EV_STACKS_MAX */
int model__each_module(const struct model *m, event_fn fn, void *ctx); /* all that have a name */
/* Live blocks with ids up to id_max. */
int model__each_was(const struct model *m, uint64_t id_max, int (*fn)(void *ctx, const struct model_was *was), void *ctx);
/* Everything views need, as plain data (timeline/report.h). *ret is owned by the caller. -ENOMEM. */
int model__report(const struct model *m, size_t top, struct report **ret);
/* Live bytes now: of the framework's CPU blocks, its blocks on GPUs, and malloc's. */
struct model_live {
	uint64_t cpu, gpu, host;
};
struct model_live model__live(const struct model *m);
/* The n-th device and its peak. 0: there are fewer. */
int model__peak(const struct model *m, unsigned n, uint8_t *ret_dev, uint64_t *ret_peak);
/* ns that the probes took so far by calibration, and that all followed processes used since each one's first EV_CPU. */
void model__overhead(const struct model *m, uint64_t *ret_probe_ns, uint64_t *ret_cpu_ns);
/* The share of its CPU time that the job would lose if allocations and frees were seen in each step (model/core/paid.h). */
double model__share_of_blocks(const struct model *m);
/*
 * Blocks of what grows in a process: of up to MODEL_GROWING_SETS growing places (docs/leaks.md), the largest first. By address;
 * malloc'ed. 0; -ENOMEM.
 */
#define MODEL_GROWING_SETS 4
#define MODEL_GROWING_BLOCKS 16384 /* of each */
struct model_growing { /* begins with addr: u64_cmp */
	uint64_t addr;
	uint32_t set;
	uint8_t dev;
};
int model__growing(const struct model *m, uint32_t pid, struct model_growing **ret, size_t *ret_cnt);
/*
 * Live blocks in a process's own memory that were allocated in traced steps: after a gap it is checked whether they are still
 * there (EV_STAYED). MODEL_STAYS_MAX at most; malloc'ed. 0; -ENOMEM, with only some of them.
 */
#define MODEL_STAYS_MAX 16384
struct model_stay {
	uint64_t addr, size;
	uint32_t pid;
	uint8_t dev;
};
int model__stays(const struct model *m, struct model_stay **ret, size_t *ret_cnt);
/*
 * Allocations to be caught, to find where growing blocks are made: of up to MODEL_GROWING_SETS growing places of which neither
 * a stack nor WANTED_ENOUGH caught blocks (EV_CAUGHT) are known, the largest first. 0; -ENOMEM.
 */
#define MODEL_WANTED_MAX 8
#define WANTED_ENOUGH 8
struct model_wanted {
	uint64_t min, max; /* bytes */
	name_id op;	   /* innermost operator; 0: any, or none */
	uint8_t dev;
};
int model__wanted(const struct model *m, uint32_t pid, struct model_wanted *ret /* MODEL_WANTED_MAX */, size_t *ret_cnt);
/*
 * 1: the name that Python has for the block at an address, or for a storage that is waited for there. 0: none yet; -ENOENT: the
 * block there has another size. Saves EV_TENSORs whose contents are known already.
 */
struct tensor;
int model__tensor_at(const struct model *m, uint32_t pid, uint64_t addr, uint64_t bytes, struct tensor *ret);
/* Boundaries of steps that a process has passed: marks, else its optimizers' steps. 0: none yet. */
uint64_t model__steps_of(const struct model *m, uint32_t pid);
/* Its steps are compared with untraced ones (core/price.h). */
bool model__has_price(const struct model *m, uint32_t pid);
/* Whether an event, which need not be of the trace, is a boundary of the same kind. */
bool model__is_boundary(const struct model *m, const struct event *ev);
/* Signs that it trains, MODEL_TRAINS_*: a compiled optimizer's steps have no marks of their own. */
#define MODEL_TRAINS_BACKWARD 1u
#define MODEL_TRAINS_STEPS 2u
unsigned model__trains(const struct model *m, uint32_t pid);
/* The latest of them by the optimizer's own count (EV_STEPS), which is the same for all ranks of a job; 0: not known. */
uint64_t model__step_no(const struct model *m, uint32_t pid);
/* Reasons to trace: the most that GPUs' drivers and allocators had; how often memory was refused. */
uint64_t model__gpu_high(const struct model *m);
uint64_t model__refusals(const struct model *m);
int model__each_level(const struct model *m, event_fn fn, void *ctx); /* EV_LEVEL, for a recording that begins now */
/* enum ev_level_state, and the number of the window. TRACED if no level was reported. */
uint8_t model__level_of(const struct model *m, uint64_t *ret_window);
/* What windows of tracing have cost so far, of the only machine (model/core/paid.h). NULL: there are none. */
struct paid;
const struct paid *model__paid(const struct model *m);
/* Walks every invariant; aborts with a message when one is broken. For tests, sim and fuzz. */
void model__check(const struct model *m);

#endif
