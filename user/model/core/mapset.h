/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mapset: the anonymous mappings of one process made since the attach, as disjoint ranges. munmap
 * may cover other memory, too; the ranges give exactly the counted bytes that it removes.
 * Holds MAPSET_MAX ranges. Ranges that wrap around the end of the address space are cut there.
 */
#ifndef MT_MODEL_MAPSET_H
#define MT_MODEL_MAPSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPSET_MAX 16384

struct mapset {
	struct map_range {
		uint64_t start, end;
	} *ranges; /* sorted, neither overlapping nor touching */
	size_t cnt, cap;
	uint64_t bytes;
};

void mapset__init(struct mapset *s);
void mapset__done(struct mapset *s);
void mapset__clear(struct mapset *s);
/* Nothing in the range may be in the set: remove it first. false: full or no memory. */
bool mapset__add(struct mapset *s, uint64_t start, uint64_t size);
/* false: no room for the range after a hole, which was removed, too. *ret_gone: bytes that were in the set. */
bool mapset__remove(struct mapset *s, uint64_t start, uint64_t size, uint64_t *ret_gone);
void mapset__check(const struct mapset *s);

#endif
