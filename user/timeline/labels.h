/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * labels: every block's final category, by version. Collected from TL_FINAL in a first pass over a
 * recording, looked up in a second one: categories are back-dated, so an exporter that writes a block's
 * allocation cannot know its final category yet.
 *
 * One byte a block in an unlinked file (ids are dense, from 1), so that memory does not grow with the
 * recording's length, and a sorted list of the few blocks whose label changes with a version.
 */
#ifndef MT_TIMELINE_LABELS_H
#define MT_TIMELINE_LABELS_H

#include <stdbool.h>

#include "timeline/timeline.h"

struct labels;
struct err;

int labels__new(struct labels **ret, struct err *err); /* -errno: no room for the file */
void labels__free(struct labels *l);		       /* NULL is fine */
/* TL_FINAL, TL_PREEXISTING, TL_NAME, TL_LEARNED, TL_MODULE, and where gaps are, is taken, others left alone. A timeline_fn */
int labels__event(void *labels, const struct tl_event *ev);
/* What Python called a block at last; false: it had no name. */
struct labels_name {
	uint64_t id;
	uint64_t order; /* of coming */
	name_id path, root, type, key;
	uint32_t kind; /* enum ev_tensor */
};
bool labels__name(const struct labels *l, uint64_t id, struct labels_name *ret);
/* The category of a version; of one that has none, what its block has learned. */
enum category labels__likely(const struct labels *l, uint64_t id, uint32_t version);
/* Gives a block's CREATE or DESTROY what it has learned (TL_LEARNED), or nothing: *learned is the caller's. */
void labels__learn(const struct labels *l, struct tl_event *ev, struct tl_learned *learned);
/* Fills in whose forward or backward made a block, where that has a name by now. */
void labels__module(const struct labels *l, struct tl_event *ev);
/* CAT_UNKNOWN for a block that has none. */
enum category labels__get(const struct labels *l, uint64_t id, uint32_t version);
/* Preexisting blocks from before anything was traced, by id: 0 from first to the last, then -ENOENT. *pos starts at 0. */
struct labels_late {
	uint64_t ts_ns; /* when it was seen */
	uint64_t id, ptr, size;
	uint32_t pid;
	uint8_t dev;
};
int labels__next_late(const struct labels *l, size_t *pos, struct labels_late *ret);
/* A preexisting block is one of those; else it was allocated in a gap, perhaps (docs/sampling.md). */
bool labels__was_there(const struct labels *l, uint64_t id);

#endif
