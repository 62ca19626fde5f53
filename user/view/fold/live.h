/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * live: which blocks are there, and how many bytes of which category each process has on each device,
 * rebuilt from the decisions, for formats that write more than a line a decision.
 *
 * With final labels (timeline/labels.h) a block counts under its version's final category; without,
 * under the last one reported. Blocks of unknown size are left out, as in the report.
 * While no operator is seen, a block without a category can count under the one that it has learned from a
 * traced step (docs/sampling.md): gap_from and gap_to of a change. Holds 48
 * bytes for each live block, and LANES_MAX lanes at most: further processes share a lane of pid 0
 * for each device.
 */
#ifndef MT_VIEW_FOLD_LIVE_H
#define MT_VIEW_FOLD_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "timeline/timeline.h"

#define LANES_MAX 4096

struct labels;

/* A process's part of a device. */
struct lane {
	uint32_t idx; /* from 0, in order of appearance */
	uint32_t pid;
	uint8_t dev;
	uint64_t cats[CAT_MAX], learned[CAT_MAX], live; /* learned: cats, where blocks without one count as learned */
	const uint64_t *shown; /* one of both: live__show */
};

struct live_block {
	uint64_t id, ptr, size;
	uint32_t pid, lane, tag; /* tag: the format's own */
	uint32_t version;
	uint8_t dev, cat, late, learned; /* learned: CAT_UNKNOWN: nothing */
};

/* A decision's effect. */
struct live_change {
	struct live_block *b; /* in the table; a copy if it was freed. Valid until the next call. */
	struct lane *lane;
	uint8_t from, to; /* enum category; CAT_MAX: was not there, is not there any more */
	uint8_t gap_from, gap_to; /* the same with what was learned */
	uint8_t is_new_lane;
};

struct live;

struct live *live__new(const struct labels *labels); /* NULL: no memory. labels may be NULL, borrowed. */
void live__free(struct live *l);
/* 1: *ret is the change; 0: none; -ENOMEM. */
int live__event(struct live *l, const struct tl_event *ev, struct live_change *ret);
/* Blocks that are there now, in no order: NULL at the end. *pos starts at 0. */
struct live_block *live__next(const struct live *l, size_t *pos);
/* Which categories lanes show from now on; at first those without what was learned. */
void live__show(struct live *l, bool learned);
size_t live__lanes(const struct live *l);
struct lane *live__lane(const struct live *l, size_t idx);

#endif
