/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * threads: what each thread has open: its frames, rebuilt from depth and seq (memtrace/event.h), and
 * its regions.
 *
 * Depth and seq come with every event, so nothing has to be closed here: a frame is trusted if its
 * seq is the one that the event names. After a lost frame (a hole in seq) the frames below the next
 * one are not trusted until an event names them. So attribution is right or unknown, never guessed;
 * regions carry no seq, and a lost region record does misattribute until the stack is reported anew.
 *
 * Bounded: past THREADS_MAX the thread without events for the longest time gives its place up, and
 * that is a loss if it had anything open. A thread is good until the next threads__get().
 */
#ifndef MT_MODEL_THREADS_H
#define MT_MODEL_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"

#define THREADS_MAX 32768

struct proc;

struct frame {
	uint32_t row; /* of the op tally; of the region tally for a node */
	uint32_t seq;
	uint32_t node_row; /* innermost node at or under this frame, 0 = none known */
	uint8_t kind;	   /* MT_EV_OP, _OP_BEGIN, _NODE; 0 = it was lost */
	bool unsure;	   /* a later frame was lost, maybe in this one's place */
	uint8_t reported;	   /* kind of its record: _APPLY and _ACC are nodes, too; 0 = not known what is there */
	uint8_t class;	   /* the graph's own: enum op_class */
	uint64_t node_entry; /* that node's place in the thread's order of entries */
};

struct open_region {
	uint32_t row;
	uint64_t entry;
	bool is_optimizer; /* Optimizer.step#…, Optimizer.zero_grad#… */
	bool is_module;	   /* nn.Module#…: tools/python's annotate */
	bool is_loader;	   /* enumerate(DataLoader)#… */
};

/* A block that an operator was given. */
struct used_block {
	uint64_t ptr, id;
	uint8_t dev;
};
#define THREAD_USED_MAX 8

struct thread {
	uint32_t tid, pid;
	uint32_t num; /* its place, which another thread may get after it */
	struct proc *proc; /* borrowed; the owner drops a process's threads before the process */
	uint32_t last_seq; /* of the last frame reported */
	uint8_t depth;	   /* after the last event that had one */
	uint8_t regions_cnt;
	bool recent; /* had an event since the clock hand passed */
	bool in_use;
	uint64_t entries; /* nodes and regions entered so far */
	uint32_t module;      /* row: whose forward runs, as last reported */
	uint32_t module_seq;  /* innermost frame when that was reported */
	uint32_t node_module; /* row: whose backward the nodes are, as last reported */
	uint32_t forward_no;  /* proc.forward_no when it was in a forward last */
	uint8_t phase;	      /* enum phase, as seen last */
	uint8_t optimizers;   /* open regions of optimizers */
	uint8_t module_regions; /* open ones of modules */
	uint8_t loaders;	/* open ones of DataLoaders */
	uint8_t phase_around;	/* of the outermost optimizer's region */
	bool is_over, is_over_around; /* its step() has ended, and nothing was seen since: the time is no phase's */
	bool has_trained;     /* a forward, a backward or an optimizer was in it */
	bool no_grad;	      /* grad mode is off, as last reported */
	bool is_step;	      /* the outermost of them is its step() */
	uint32_t used_seq;    /* frame of the operator that was given … */
	uint8_t used_cnt;
	struct used_block used[THREAD_USED_MAX]; /* … these, and its module is not known yet */
	uint64_t phase_ts_ns; /* since when; 0: was never looked at */
	uint64_t stack_ptr; /* the address of the next block allocated, whose stack was reported: … */
	uint32_t stack;	    /* … its node, 0 = none */
	struct frame frames[MT_FRAMES_MAX];
	struct open_region regions[MT_REGIONS_MAX];
};

struct attribution {
	uint32_t op, region; /* rows, 0 = none */
	bool lost;	     /* the op itself is not known */
};

struct threads;

struct threads *threads__new(size_t max); /* NULL: no memory */
void threads__free(struct threads *ths);
/* The thread, made if new or if its tid was another process's. NULL: no memory.
 * *ret_lost (optional) is set when another one with something open had to go. */
struct thread *threads__get(struct threads *ths, uint32_t pid, uint32_t tid, bool *ret_lost);
/* One by one, *pos starts at 0, NULL ends it. */
const struct thread *threads__next(const struct threads *ths, uint32_t *pos);
void threads__drop_pid(struct threads *ths, uint32_t pid);
size_t threads__count(const struct threads *ths);
void threads__check(const struct threads *ths);

/* OP, OP_BEGIN, NODE, APPLY, ACC. `row` as in struct frame. */
void thread__enter(struct thread *t, const struct event *ev, uint32_t row);
/* REGION_BEGIN; REGION_END returns the row of the region that ended (0 = not known). */
void thread__region_begin(struct thread *t, const struct event *ev, uint32_t row);
uint32_t thread__region_end(struct thread *t, const struct event *ev);
/* It has `depth` frames open, the innermost being `seq` (0: not known): all others are over. */
static inline void thread__settle(struct thread *t, unsigned depth, uint32_t seq)
{
	struct frame *leaf = depth && seq && depth <= MT_FRAMES_MAX ? &t->frames[depth - 1] : NULL;

	if (depth > MT_FRAMES_MAX)
		depth = MT_FRAMES_MAX;
	for (; t->depth < depth; t->depth++)
		t->frames[t->depth].reported = t->frames[t->depth].class = 0; /* what was there is over */
	t->depth = (uint8_t)depth;
	if (leaf && leaf->seq != seq)
		*leaf = (struct frame){ .seq = seq }; /* its record was lost */
}

/* The stack that STACK_AT reported for this address just before; returned once, 0 if there was none. */
static inline uint32_t thread__stack(struct thread *t, uint64_t ptr)
{
	uint32_t stack = t->stack_ptr == ptr ? t->stack : 0;

	t->stack = 0;
	return stack;
}
/* A node is open at the event. */
bool thread__in_node(const struct thread *t, const struct event *ev);
/* The event's innermost op, and innermost region or node. */
struct attribution thread__attribute(struct thread *t, const struct event *ev);
/* Its innermost region or node, with `depth` frames open, the innermost being `seq`. Changes nothing. */
uint32_t thread__region(const struct thread *t, unsigned depth, uint32_t seq);

#endif
