/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Operators, regions, and native stacks: where blocks were allocated. */
#ifndef MT_TIMELINE_REPORT_OPS_H
#define MT_TIMELINE_REPORT_OPS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Operators, backward nodes and regions. dev-spanning; at_peak is summed over each device's own peak.
 * One layer is counted: the framework's devices, or MT_DEV_HOST where no other was seen (its blocks
 * hold the framework's, and would count them twice). The same for peak_blocks and live_at_exit.
 */
struct report_op {
	char *name;
	uint8_t is_node; /* in regions[]: a backward node, which counts as a region; in ops[]: 0 */
	uint64_t count;	 /* entries */
	uint64_t alloc_count, alloc_bytes; /* blocks allocated with this one innermost */
	uint64_t live_count, live;
	uint64_t at_peak;
};

struct report_ops {
	struct report_op *rows; /* by at_peak, then alloc_bytes; `top` at most */
	size_t cnt, total;	/* total: all there are */
	struct report_op none;	/* blocks allocated outside of any */
};

struct report_frame {
	char *function, *file;
	uint32_t line; /* 0: not known */
	uint8_t kind;  /* enum ev_frame_kind */
};

/* Where blocks of --stack-size and more were allocated. */
struct report_stack {
	uint32_t node; /* its number in this recording */
	struct report_frame *frames; /* innermost first */
	size_t frames_cnt;
	uint64_t alloc_count, alloc_bytes, live_count, live, at_peak; /* as in report_op */
};

struct report_stacks {
	struct report_stack *rows; /* by at_peak, then alloc_bytes; `top` at most */
	size_t cnt, total;	   /* total: all there are */
	struct report_stack none;  /* of the blocks without one; without frames */
};

#endif
