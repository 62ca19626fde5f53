/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * open_frames: the frames and regions that each thread has open, from the timeline's TL_OP and TL_REGION*: the base of
 * every view with stacks (stacks, optrace). The user pushes those that it needs, each with a value of its own.
 *
 * An operator has no end event: it is over at the thread's next event that lies outside of it; a region that was opened
 * in a frame that is over is over, too. Holds at most OPEN_THREADS_MAX threads, and of each OPEN_DEPTH_MAX entries.
 */
#ifndef MT_VIEW_FOLD_OPEN_FRAMES_H
#define MT_VIEW_FOLD_OPEN_FRAMES_H

#include <stdbool.h>
#include <string.h>

#include "base/names.h"
#include "event/event.h"
#include "timeline/timeline.h"

#define OPEN_THREADS_MAX (1u << 16)
#define OPEN_DEPTH_MAX 64

/* Allocations in a frame or region and in its callees. */
struct open_made {
	uint64_t bytes;
	name_id module, root; /* owner (timeline.h): of its first allocation that has one; root none: of none */
	uint8_t phase;	      /* enum phase, of its first allocation */
	uint8_t has_phase;
};

/*
 * A line of generated code that allocates: nothing is entered there, so it is an operator for this moment. The model
 * reports one of these only with none open.
 */
static inline bool is_line_of_generated(const struct tl_event *ev, const struct names *names)
{
	return ev->kind == TL_CREATE && !strncmp(names__get(names, ev->op), EV_GENERATED, strlen(EV_GENERATED));
}

enum open_kind { OPEN_OP = 1, OPEN_NODE /* backward */, OPEN_REGION };

struct open_frame {
	uint64_t ts_ns;
	uint64_t value; /* for the one that pushed it */
	struct open_made made;
	uint8_t depth; /* frames under it */
	uint8_t kind;  /* enum open_kind */
};

struct open_thread {
	uint32_t pid, tid;
	uint32_t cnt;
	uint32_t value; /* for the one that first asked for it */
	struct open_frame open[OPEN_DEPTH_MAX]; /* outermost first */
};

struct open_frames;

struct open_frames *open_frames__new(void); /* NULL: no memory */
void open_frames__free(struct open_frames *o); /* NULL is fine */
/* The thread, made if need be (*ret_new). NULL: there are too many, or no memory. */
struct open_thread *open_frames__thread(struct open_frames *o, uint32_t pid, uint32_t tid, int *ret_new);
struct open_thread *open_frames__next(const struct open_frames *o, uint32_t *pos); /* *pos starts at 0; NULL ends it */

/* The number of entries still open at an event with `depth` frames under it. */
uint32_t open_thread__staying(const struct open_thread *t, unsigned depth);
/* 0; -1: it is too deep. */
int open_thread__push(struct open_thread *t, const struct tl_event *ev, enum open_kind kind, uint64_t value);
/* Ends the innermost one; its allocations count in the one around it, too. The result is valid until the next push. */
const struct open_frame *open_thread__pop(struct open_thread *t);
void open_thread__allocated(struct open_thread *t, const struct tl_event *ev); /* in the innermost one */

#endif
