/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* snapframes: the words of a snapshot (snapwrite.h), and the origins of its blocks, as frames that are written once. */
#ifndef MT_VIEW_EXPORT_SNAPFRAMES_H
#define MT_VIEW_EXPORT_SNAPFRAMES_H

#include "timeline/labels.h"
#include "view/export/snapwrite.h"
#include "view/fold/numbering.h"
#include "view/fold/stacks.h"

enum word {
	W_ACTION, W_ADDR, W_SIZE, W_STREAM, W_TIME_US, W_CATEGORY, W_FRAMES, W_FILENAME, W_LINE, W_NAME, W_ALLOC,
	W_FREE_REQUESTED, W_FREE_COMPLETED, W_OOM, W_SNAPSHOT, W_DEVICE_FREE, W_OPERATOR, W_REGION, W_PROCESS,
	W_SEGMENTS, W_DEVICE_TRACES, W_ALLOCATOR_SETTINGS, W_ANNOTATIONS, W_DEVICE, W_ADDRESS, W_TOTAL_SIZE,
	W_ALLOCATED_SIZE, W_ACTIVE_SIZE, W_REQUESTED_SIZE, W_SEGMENT_TYPE, W_LARGE, W_POOL_ID, W_EXPANDABLE, W_BLOCKS,
	W_STATE, W_ACTIVE, W_INACTIVE, W_RECORDER, W_MEMTRACE, W_DEVICES, W_LEFT_OUT, W_MODULE,
	W_ANNOTATE, W_USER_METADATA, W_HOST_SEGMENTS, W_HOST_TRACES, W_SEGMENT_ALLOC, W_SEGMENT_FREE,
	W_STAGE, W_MARK, W_START, W_END, W_NUMBER, W_MARKS, W_CATS = W_MARKS + MARK_MAX - 1, W_MAX = W_CATS + CAT_MAX,
};

void snap_key(struct snapwrite *w, enum word k);
void snap_word(struct snapwrite *w, enum word k, enum word v);
void snap_u64(struct snapwrite *w, enum word k, uint64_t v);
void snap_cat(struct snapwrite *w, uint8_t cat);

/* The sources of a block's frames, innermost first: its name in Python, the stack of its allocation, its module. */
struct where {
	uint32_t stack;
	name_id module, root; /* root none: of no module */
	name_id path, key;    /* path none: it has no name */
	uint8_t kind;	      /* enum ev_tensor */
};

struct snapframes {
	const struct names *names;
	const struct labels *labels;
	struct stacks *stacks;		 /* ours */
	struct numbering places, wheres; /* (stack, module) and (place, name); each place a `where` */
	struct where *where;		 /* by number - 1 */
	uint32_t where_room;
};

void snapframes__done(struct snapframes *f);
/* The number of these frames, from 1; 0: none are known, or there is no room. */
uint32_t snapframes__number(struct snapframes *f, const struct where *from);
/* Of a block, allocated at this event (NULL: it was seen late). */
uint32_t snapframes__of(struct snapframes *f, uint64_t id, const struct tl_event *ev);
/* Innermost first; the module stands outside of all but the process. 0: none. */
void snapframes__put(struct snapframes *f, struct snapwrite *w, uint32_t number);
int snapframes__is_named(const struct snapframes *f, uint32_t number); /* has it a name in Python? */
/*
 * "user_metadata", a text as torch has it: the category unless that is CAT_MAX, the block's name in Python, its module:
 * "name: exp_avg fc.weight; module: Net.fc". Nothing where nothing is known.
 */
void snapframes__metadata(struct snapframes *f, struct snapwrite *w, uint32_t number, uint8_t cat);

#endif
