/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * growth: which operator in which region holds more and more. The trace is cut into GROWTH_SLOTS equal times;
 * of each, the lowest number of live blocks (and bytes) that a pair ever had in it is kept: what a step
 * makes and frees again does not show in the lowest, what is never freed does.
 *
 * A pair is a suspect when that lowest number, over the last three quarters (the first is warming up), rises in
 * most slots, falls in none, and by GROWTH_MIN blocks or more. GROWTH_MAX pairs; further ones are counted, not watched.
 */
#ifndef MT_VIEW_GROWTH_H
#define MT_VIEW_GROWTH_H

#include <stddef.h>

#include "timeline/timeline.h"
#include "view/numbering.h"

#define GROWTH_SLOTS 16
#define GROWTH_FIRST (GROWTH_SLOTS / 4)
#define GROWTH_MIN 4
#define GROWTH_MAX (1u << 14)

struct growth_row {
	name_id op, region;
	uint8_t dev;
	uint32_t slot;
	uint64_t live, count; /* now */
	uint64_t low[GROWTH_SLOTS], low_count[GROWTH_SLOTS];
};

struct growth {
	struct numbering keys;
	struct growth_row *rows;
	uint32_t cnt, room;
	uint64_t from_ns, to_ns;
	uint64_t not_watched; /* births of pairs that found no room */
};

void growth__init(struct growth *g, uint64_t from_ns, uint64_t to_ns);
void growth__done(struct growth *g);
/* The number that the block's death needs; UINT32_MAX: not watched. */
uint32_t growth__born(struct growth *g, uint64_t ts_ns, name_id op, name_id region, uint8_t dev, uint64_t size);
void growth__freed(struct growth *g, uint64_t ts_ns, uint32_t row, uint64_t size);
/* Suspects by growth in bytes, the worst first: sorts the rows and returns how many of them are. */
size_t growth__end(struct growth *g);
/* Does this moment lie between the two that growth is measured between? */
int growth__watches(const struct growth *g, uint64_t ts_ns);
/* Of a suspect, over its watched time. */
uint64_t growth_row__bytes(const struct growth_row *r);
uint64_t growth_row__blocks(const struct growth_row *r);

#endif
