/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * flow: what every block is for (enum category), from the tensors that operators were given.
 *
 * The data-flow graph of torch.profiler's memory profiler, made online: a leaf node is the topmost
 * open frame that is an operator with storages, a backward node's apply or a Python node; it has an
 * edge to each block that was read, written, allocated or freed in it, and each write makes a version.
 * Nodes are closed when the next event of their thread is not inside them, are labelled then, and
 * stay in a window of the last steps, so that later findings (a parameter, at the first backward pass)
 * can relabel earlier nodes. Labels are back-dated: bytes, byte·time and the share at the peak of a
 * version move with it as a whole.
 *
 * Made by the first block or frame once `flow` is covered, or by the first EV_ARG, APPLY or ACC: without
 * that source nothing of this exists. Uses only what struct flow_env has of the model.
 */
#ifndef MT_MODEL_FLOW_H
#define MT_MODEL_FLOW_H

#include "event/event.h"
#include "model/core/blocks.h"
#include "timeline/timeline.h"

struct device;
struct gaps;
struct graph;
struct modules;
struct procs;
struct sampled;
struct report_flow;
struct tally;
struct thread;

/* All that the graph may read and call. Borrowed: it is freed before them. */
struct flow_env {
	const struct names *names;
	const struct blocks *blocks; /* to check itself */
	struct device *const *devs; /* the graph keeps their sums by category */
	const uint8_t *dev_idx;	    /* + 1, by device */
	struct modules *modules;    /* for gradients without a name */
	struct procs *procs;	    /* which probes there are in a process */
	const struct tally *regions;
	const uint64_t *start_ts_ns, *now_ns;
	const struct gaps *gaps; /* the clock of byte·time */
	const struct sampled *sampled; /* steps whose sums labels change, too */
	uint64_t *lost; /* by enum mt_loss */
	enum classes classes;
	bool nodes; /* TL_NODE and TL_FINAL are asked for */
	void *ctx;
	void (*is_backward)(void *ctx, name_id place); /* the generated graph there has returned a gradient */
	void (*tell)(void *ctx, const struct tl_event *tl);
	void (*tell_block)(void *ctx, uint8_t kind, const struct block *b, uint32_t ver); /* TL_LABEL, TL_VERSION */
};

struct graph *graph__new(const struct flow_env *env); /* NULL: no memory */
void graph__free(struct graph *g);		      /* NULL is fine */

/* `th`: the event's thread, which knows of the event. OP, OP_BEGIN, NODE, APPLY, ACC. */
void graph__frame(struct graph *g, struct thread *th, const struct event *ev);
/* EV_ARG: whether it is a tensor with a storage, and then: of this block; NULL: of none. */
bool graph__takes(struct graph *g, struct thread *th, const struct event *ev);
void graph__arg(struct graph *g, struct thread *th, const struct event *ev, struct block *b);
void graph__region(struct graph *g, struct thread *th, const struct event *ev);
void graph__step(struct graph *g, uint32_t pid); /* a STEP mark */
/* A framework block was allocated: call this before it is reported to the timeline, and after it is counted. */
void graph__allocated(struct graph *g, struct block *b, struct thread *th, const struct event *ev,
		      uint8_t made); /* enum ev_place */
void graph__placed(struct graph *g, name_id place, uint8_t made); /* for blocks allocated there before it was reported */
/*
 * A block with `tracked` is freed: call this before it is counted as freed. b is the copy that is reported and counted, and
 * gets its last label. th, ev: its free, NULL if its process is gone.
 */
void graph__freed(struct graph *g, struct block *b, struct thread *th, const struct event *ev);
/* A late block's mapping is gone; b as in graph__freed. */
void graph__unmapped(struct graph *g, struct block *b, struct thread *th, const struct event *ev);
void graph__close_pid(struct graph *g, uint32_t pid); /* its address space is going: open nodes end */
/* A gap: nothing is carried over for the process, except that blocks keep their labels. */
void graph__cut(struct graph *g, uint32_t pid);
void graph__drop_pid(struct graph *g, uint32_t pid); /* its address space is gone, its blocks have ended */
/* The last event: findings of an unfinished step count, too, and guesses about freed blocks do not. */
void graph__finish(struct graph *g);
void graph__end(struct graph *g); /* no more events: reports what was held back, changes no label */

/* What is known of a block, for EV_WAS_FLOW; false: nothing any more. And the reverse, for an EV_WAS_FLOW. */
bool graph__memory(const struct graph *g, uint64_t id, struct event *ret);
void graph__was(struct graph *g, struct block *b, const struct event *ev);
/*
 * For a recording that begins now: an open frame of a thread (0: the outermost). Calls fn with ev, its event, and then with
 * an EV_ARG for each tensor of it that the graph still needs. 0, or fn's error.
 */
int graph__each_of_frame(const struct graph *g, const struct thread *th, unsigned frame, struct event ev, event_fn fn,
			 void *ctx);

/* Python's word on a block: its kind, and bits of enum ev_tensor. */
void graph__named(struct graph *g, struct block *b, uint8_t kind, uint8_t bits);

/* The label that a block has, or had until its end, for the longest time, without guesses. CAT_MAX: not known any more. */
uint8_t graph__lasting(const struct graph *g, uint64_t id);
uint32_t graph__version(const struct graph *g, uint64_t id); /* 0: none, or not known */

/*
 * Plain categories, where torch.profiler's mislead, at the device's peak: how many bytes more (or less) each category has.
 * Blocks that generated code made, and that are PARAMETER or INPUT for want of a better category, have the one from its file;
 * those that lived within one operator, without a category, are WORKSPACE. A row a device; all 0 in the extended classes.
 */
void graph__plain(const struct graph *g, struct device *const *devs, unsigned cnt, int64_t (*moved)[CAT_MAX]);
void graph__report(const struct graph *g, struct report_flow *ret);
size_t graph__bytes(const struct graph *g); /* memory in use */
void graph__check(const struct graph *g);   /* aborts when broken */

#endif
