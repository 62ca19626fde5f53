/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * optrace: memory after each operator, in the order in which they were entered, as
 * torch.distributed._tools.memory_tracker draws it: allocated, reserved, and marks where forward and backward begin.
 *
 * One device of one process: --device, else cuda:0 or the CPU; the process that had most there. A value is that of the
 * moment at which the operator was left: just before its thread's next action outside of it. Blocks seen late (from before
 * the attach) count from the beginning. A caching allocator's own totals are used if it reported them; the CPU's has none:
 * reserved is allocated. Phases and marks are the model's. In a part of a recording blocks seen late count from there on; of
 * some blocks only (--category …) the sum is theirs.
 *
 * Lines wait until the operators before them are over: OPTRACE_WAIT at most, then the oldest gets the value of now.
 * Operators of more threads than open_frames holds are left out, and counted.
 */
#ifndef MT_VIEW_FOLD_OPTRACE_H
#define MT_VIEW_FOLD_OPTRACE_H

#include "view/view.h"

#define OPTRACE_WAIT (1u << 16)

enum optrace_kind {
	OPTRACE_OP = 1, OPTRACE_NODE /* backward */, OPTRACE_REGION, OPTRACE_REGION_END,
	OPTRACE_FW_START, OPTRACE_FW_BW_BOUNDARY, OPTRACE_STEP, /* marks */
};

struct optrace_line {
	uint64_t ts_ns;
	uint64_t index;	/* operators entered before it */
	uint64_t number; /* OPTRACE_STEP: of the step that is over */
	uint64_t allocated, reserved; /* OP, NODE: when it was left; else at that moment */
	uint64_t created; /* OP, NODE: bytes allocated in it and in what it called */
	name_id name;
	uint32_t tid;
	uint8_t kind;  /* enum optrace_kind */
	uint8_t phase; /* OP, NODE: enum phase */
	uint8_t depth; /* operators around it */
	uint8_t is_open;
};

struct optrace;
typedef int (*optrace_fn)(void *ctx, const struct optrace_line *l); /* 0 or -errno */

/* 0 or -ENOMEM. Goes by to->report and to->labels (EXPORT_LABELS). */
int optrace__new(struct optrace **ret, const struct export_to *to, optrace_fn line, void *ctx);
void optrace__free(struct optrace *t);
int optrace__event(struct optrace *t, const struct tl_event *ev);
int optrace__end(struct optrace *t); /* ends open operators */
uint32_t optrace__pid(const struct optrace *t);
uint8_t optrace__dev(const struct optrace *t);
int optrace__has_totals(const struct optrace *t); /* reserved was reported */
uint64_t optrace__left_out(const struct optrace *t); /* operators without a line, or with a line whose value is too early */

#endif
