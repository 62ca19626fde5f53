/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stacks: the frames open when a block was allocated: process, regions, backward nodes, operators,
 * outermost first; each distinct stack once, as a tree. Rebuilt from TL_OP and TL_REGION*.
 *
 * If both differ (a frame was lost), the model's innermost frame is used.
 *
 * A block that has a recorded stack (--stacks) is put there instead: process, its frames, the operator.
 *
 * Holds at most STACKS_MAX nodes, and threads as open_frames does; past that, a stack is cut.
 */
#ifndef MT_VIEW_FOLD_STACKS_H
#define MT_VIEW_FOLD_STACKS_H

#include <stddef.h>

#include "timeline/timeline.h"
#include "view/fold/frames.h"
#include "view/fold/open_frames.h"

#define STACKS_MAX (1u << 18)

enum stack_kind {
	STACK_ROOT = 0, STACK_PROCESS, STACK_REGION, STACK_NODE, STACK_OP,
	STACK_PYTHON, STACK_NATIVE, STACK_CUT, /* frames that --stacks recorded; the operator comes after them */
};

struct stack_node {
	uint32_t parent; /* 0: the root, which is its own */
	uint32_t value;	 /* name_id's number; STACK_PROCESS: the pid; STACK_PYTHON … STACK_CUT: stacks__frame */
	uint8_t kind;	 /* enum stack_kind */
	uint8_t depth;	 /* nodes above */
};

struct stacks_opts {
	/* May be NULL. Outer ones begin first and end last. */
	int (*begin)(void *ctx, const struct tl_event *ev, const struct stack_node *n);
	int (*end)(void *ctx, uint32_t pid, uint32_t tid, const struct stack_node *n, const struct open_frame *e,
		   uint64_t ts_ns);
	void *ctx;
};

struct stacks;

struct stacks *stacks__new(const struct stacks_opts *opts); /* NULL: no memory. opts may be NULL. */
void stacks__free(struct stacks *s);
/* Every decision. 0, or the error of begin or end. */
int stacks__event(struct stacks *s, const struct tl_event *ev);
/* Ends all that is open. 0, or the error of end. */
int stacks__end(struct stacks *s, uint64_t ts_ns);
/* The stack at this decision about a block; after stacks__event. */
uint32_t stacks__at(struct stacks *s, const struct tl_event *ev);
int stacks__has_frames(const struct stacks *s); /* were any recorded? */
/* Of a node of kind STACK_PYTHON and those after it. */
const struct ev_frame *stacks__frame(const struct stacks *s, const struct stack_node *n);
/* The text of a node that is no process: a name, or frame_text. As clean_text; its length. */
size_t stacks__text(const struct stacks *s, const struct stack_node *n, const struct names *names, char *buf, size_t size);
const struct stack_node *stacks__node(const struct stacks *s, uint32_t idx);
uint32_t stacks__cnt(const struct stacks *s); /* nodes, root included */

#endif
