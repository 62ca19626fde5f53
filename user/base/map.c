/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MIN 16u

static uint32_t map__cap_next(const struct map *m)
{
	return m->cap ? 2 * m->cap : ROWS_MIN;
}

static int map__has_room(struct map *m)
{
	uint32_t cap = map__cap_next(m);
	void *rows;

	if (m->cnt < m->cap)
		return 1;
	rows = cap > m->cap ? reallocarray(m->rows, cap, m->size) : NULL;
	if (!rows)
		return 0;
	m->rows = rows;
	m->cap = cap;
	return 1;
}

void *map__put(struct map *m, uint64_t key)
{
	void *row = map__find(m, key);

	if (row)
		return row;
	if (!map__has_room(m) || index__add(&m->index, hash_u64(key), m->cnt) < 0)
		return NULL;
	row = memset(map__at(m, m->cnt++), 0, m->size);
	*(uint64_t *)row = key;
	return row;
}

void map__remove(struct map *m, void *row)
{
	uint32_t number = (uint32_t)((size_t)((char *)row - (char *)m->rows) / m->size), last = --m->cnt;

	index__remove(&m->index, hash_u64(*(const uint64_t *)row), number);
	if (number == last)
		return;
	index__renumber(&m->index, hash_u64(map__key(m, last)), last, number);
	memcpy(row, map__at(m, last), m->size);
}

void map__clear(struct map *m)
{
	index__clear(&m->index);
	m->cnt = 0;
}

size_t map__bytes(const struct map *m)
{
	return m->cap * m->size + index__bytes(&m->index);
}

size_t map__growth(const struct map *m)
{
	return (m->cnt == m->cap ? (map__cap_next(m) - m->cap) * m->size : 0) + index__growth(&m->index);
}

void map__done(struct map *m)
{
	index__done(&m->index);
	free(m->rows);
	*m = (struct map){ .size = m->size };
}
