/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recorded: the least memory that a recorded job needed. Decisions of a replay go in one by one (with nodes, operators and
 * regions); for one device out come bytes kept past their last use, and the lowest peak that any freeing could have reached in
 * the recorded order.
 *
 * A block is in use from its allocation to the end of the last node that made, was given or wrote it; a node ends when its
 * thread begins the next one. A block that was freed later was kept; had all been freed then, the peak would be the lowest. A
 * block that lives at the end of the recording may be used again, one that no node was given may be used unseen: both stay as
 * they were. So the bound is never too low for the uses that were seen.
 *
 * 88 bytes a block, RECORDED_BLOCKS_MAX of them; later ones are counted and left out.
 */
#ifndef MT_ESTIMATE_RECORDED_H
#define MT_ESTIMATE_RECORDED_H

#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "event/event.h"
#include "timeline/timeline.h"

#define RECORDED_BLOCKS_MAX (1u << 23)
#define RECORDED_THREADS_MAX 4096
#define RECORDED_STEPS_MAX (1u << 20)
#define RECORDED_DEVS 256

struct recorded_block {
	uint64_t size, alloc_ns, free_ns; /* free_ns 0: lives; alloc_ns 0: no such block */
	uint64_t used_ns;		   /* the end of its last use; 0: no node had it */
	uint64_t forward_used_ns;	   /* … that was not in backward nor in an optimizer */
	name_id op, region, last_op;	   /* made by; used last by */
	name_id module, root;		   /* whose forward or backward made it; root none: of none, or not known */
	name_id path, type;		   /* what Python calls it: "layers.0.weight", "float32[512,512]"; none: nothing */
	uint32_t pid, line;		   /* line: frame of the stack that is Python's, 0: not known */
	uint8_t dev, cat;		   /* enum category, of its last version */
	uint8_t phase, kind;		   /* enum phase; enum ev_tensor, 0: no name */
	uint8_t is_wide;		   /* made where operators compute in float32 whatever they are given */
};

struct recorded_frame {
	name_id function, file;
	uint32_t line, parent;
	uint8_t kind;
};

struct recorded_row {
	name_id op, region, last_op, module, root;
	uint32_t line;
	uint64_t at_peak; /* bytes */
	uint64_t blocks, bytes;
	double byte_ns; /* bytes × time past the last use */
};

struct recorded {
	struct recorded_block *blocks; /* by id */
	size_t blocks_cap;
	uint64_t last_id, left_out;
	struct recorded_frame *frames; /* by number */
	size_t frames_cnt, frames_cap;
	uint32_t wide_op, ops_seen; /* that operator, once it was seen; highest name that was looked at */
	struct recorded_thread *threads;
	size_t threads_cnt, thread_at;
	uint64_t *steps; /* pid, time: two numbers each */
	size_t steps_cnt, steps_cap;
	int has_marks;
	struct {
		uint64_t now, peak, peak_ns;
	} devs[RECORDED_DEVS];
	uint64_t first_ns, last_ns, nodes; /* first_ns: when the recording began (recorded__began) */
	const struct names *names;
};

void recorded__init(struct recorded *r);
void recorded__done(struct recorded *r);
int recorded__event(struct recorded *r, const struct tl_event *ev); /* 0 or -ENOMEM */
void recorded__end(struct recorded *r); /* no more events */

/* From the report: when the recording began, and which of several equal maxima is a device's peak. */
void recorded__began(struct recorded *r, uint64_t ts_ns);
void recorded__peak_was(struct recorded *r, uint8_t dev, uint64_t bytes, uint64_t ts_ns);
/* The device with the highest peak, GPUs before the CPU; 0: nothing was recorded. */
uint8_t recorded__dev(const struct recorded *r);

struct recorded_kept {
	uint8_t dev;
	uint64_t peak, peak_ns;		/* measured */
	uint64_t lowest;
	uint64_t kept_at_peak, kept_bytes, kept_blocks;
	double kept_byte_ns;
	uint64_t never_used;	     /* bytes of blocks that no node but their maker had, freed or not */
	uint32_t pid;		     /* that has most at the peak */
	uint64_t step_from, step_to; /* of that process, around the peak: a step, or all of it */
	int has_step;
	struct recorded_row *rows;   /* most at the peak first */
	size_t rows_cnt;
};

int recorded_kept__init(struct recorded_kept *k, const struct recorded *r, uint8_t dev); /* 0 or -ENOMEM */
/* The last whole step of the process instead of that of the peak: how it goes on. 0, or -ENOENT: there is none. */
int recorded_kept__last_step(struct recorded_kept *k, const struct recorded *r);
/* The step before it, of the same process: bounds alone. 0, or -ENOENT: there is none. */
int recorded_kept__step_before(struct recorded_kept *k, const struct recorded *r);
void recorded_kept__done(struct recorded_kept *k);

/* When a block could have been freed: its last use's end, or its free if it must be left alone; 0: it lives. */
uint64_t recorded_block__free_ns(const struct recorded_block *b);

#endif
