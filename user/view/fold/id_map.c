/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/id_map.h"

#include <errno.h>
#include <stdlib.h>

#include "base/seed.h"

#define ROWS_MIN 1024u

int id_map__init(struct id_map *m)
{
	*m = (struct id_map){ .rows = calloc(ROWS_MIN, sizeof(*m->rows)), .mask = ROWS_MIN - 1 };
	return m->rows ? 0 : -ENOMEM;
}

void id_map__done(struct id_map *m)
{
	free(m->rows);
	*m = (struct id_map){ 0 };
}

/* Its row, or the free one where it belongs. */
static struct id_row *id_map__row(const struct id_map *m, uint64_t id)
{
	size_t i = (size_t)hash_u64(id) & m->mask;

	while (m->rows[i].id && m->rows[i].id != id)
		i = (i + 1) & m->mask;
	return &m->rows[i];
}

static int id_map__grow(struct id_map *m)
{
	size_t old = m->mask + 1, cnt = 2 * old;
	struct id_row *from = m->rows, *to = calloc(cnt, sizeof(*to));

	if (!to)
		return -ENOMEM;
	m->rows = to;
	m->mask = cnt - 1;
	for (size_t i = 0; i < old; i++)
		if (from[i].id)
			*id_map__row(m, from[i].id) = from[i];
	free(from);
	return 0;
}

struct id_row *id_map__find(const struct id_map *m, uint64_t id)
{
	struct id_row *row = id_map__row(m, id);

	return id && row->id ? row : NULL;
}

struct id_row *id_map__put(struct id_map *m, uint64_t id)
{
	struct id_row *row = id_map__row(m, id);

	if (row->id || !id)
		return row->id ? row : NULL;
	if (4 * (m->cnt + 1) > 3 * (m->mask + 1)) {
		if (id_map__grow(m) < 0)
			return NULL;
		row = id_map__row(m, id);
	}
	*row = (struct id_row){ .id = id };
	m->cnt++;
	return row;
}

void id_map__remove(struct id_map *m, struct id_row *row)
{
	size_t i = (size_t)(row - m->rows);

	row->id = 0;
	m->cnt--;
	/* Those behind it that it had pushed on move up. */
	for (i = (i + 1) & m->mask; m->rows[i].id; i = (i + 1) & m->mask) {
		struct id_row moved = m->rows[i];

		m->rows[i].id = 0;
		*id_map__row(m, moved.id) = moved;
	}
}
