/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines of generated code that allocated, for the report: what each is, and how much. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/reports.h"
#include "model/state.h"

static int by_bytes(const void *pa, const void *pb)
{
	const struct place_row *a = *(struct place_row *const *)pa, *b = *(struct place_row *const *)pb;

	return cmp_down(a->bytes, b->bytes) ?: cmp_up(a->key, b->key);
}

static int fill(struct report_place *r, const struct model *m, const struct place_row *at)
{
	*r = (struct report_place){ .bytes = at->bytes, .count = at->count, .made = at->made };
	r->op = strdup(names__get(m->names, at->op));
	r->buffer = strdup(names__get(m->names, at->buffer));
	r->nodes = strdup(names__get(m->names, at->nodes));
	r->where = strdup(names__get(m->names, at->where));
	return r->op && r->buffer && r->nodes && r->where ? 0 : -ENOMEM;
}

int model__report_places(const struct model *m, struct report_places *r)
{
	const struct map *places = &m->places.map;
	const struct place_row **rows = places->cnt ? calloc(places->cnt, sizeof(*rows)) : NULL;
	int err = places->cnt && !rows ? -ENOMEM : 0;

	*r = (struct report_places){ 0 };
	for (uint32_t i = 0; rows && i < places->cnt; i++) {
		const struct place_row *at = map__at(places, i);

		if (at->op.v && at->count)
			rows[r->total++] = at;
	}
	if (r->total) {
		qsort(rows, r->total, sizeof(*rows), by_bytes);
		r->rows = calloc(r->total < REPORT_PLACES_MAX ? r->total : REPORT_PLACES_MAX, sizeof(*r->rows));
		err = r->rows ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < r->total && i < REPORT_PLACES_MAX && !err; i++)
		err = fill(&r->rows[r->cnt++], m, rows[i]);
	free(rows);
	return err;
}
