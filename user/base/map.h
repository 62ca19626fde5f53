/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * map: rows by a key of 64 bits, which is the first field of each.
 *
 *	struct row {
 *		uint64_t key;
 *		…
 *	} *row;
 *	struct map m = MAP_OF(struct row);
 *
 *	row = map__put(&m, key);
 *
 * The rows are adjacent, in the order in which they were added, so a walk through them is the same in each run; the last row
 * moves to the place of a removed one. Any key is valid, also 0. Like an index (base/index.h), it grows without bound.
 */
#ifndef MT_BASE_MAP_H
#define MT_BASE_MAP_H

#include "base/seed.h"
#include "base/index.h"

struct map {
	struct index index;
	void *rows;
	size_t size; /* of a row */
	uint32_t cnt, cap;
};

#define MAP_OF(type) ((struct map){ .size = sizeof(type) })

/* The row of this number, from 0 to cnt - 1. */
static inline void *map__at(const struct map *m, uint32_t number)
{
	return (char *)m->rows + number * m->size;
}

static inline uint64_t map__key(const struct map *m, uint32_t number)
{
	return *(const uint64_t *)map__at(m, number);
}

/* NULL: not found. Valid until the next put or remove. */
static inline void *map__find(const struct map *m, uint64_t key)
{
	uint32_t at = index_find(&m->index, hash_u64(key), i, map__key(m, i) == key);

	return at == INDEX_NONE ? NULL : map__at(m, at);
}

void *map__put(struct map *m, uint64_t key); /* the row of that key, or a new one of zeros; NULL: no memory */
void map__remove(struct map *m, void *row);
void map__clear(struct map *m); /* empty; keeps its memory */
void map__done(struct map *m);
size_t map__bytes(const struct map *m);
/* The number of bytes that the next new key will take. */
size_t map__growth(const struct map *m);

#endif
