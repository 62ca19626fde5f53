/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/places.h"

void places__init(struct places *p)
{
	p->map = MAP_OF(struct place_row);
	p->backwards = MAP_OF(struct place_code);
}

void places__done(struct places *p)
{
	map__done(&p->map);
	map__done(&p->backwards);
}

static struct place_row *find_or_add(struct places *p, name_id place)
{
	struct place_row *at = map__find(&p->map, place.v);

	return at || p->map.cnt >= PLACES_MAX ? at : map__put(&p->map, place.v);
}

uint32_t places__row(struct places *p, struct tally *ops, name_id place, uint64_t size)
{
	struct place_row *at = find_or_add(p, place);

	if (!at)
		return 0;
	at->count++;
	at->bytes += size;
	if (at->is_reported)
		return tally__row(ops, at->op, false);
	if (!at->row && p->rows_cnt < PLACES_ROWS_MAX) {
		at->row = tally__add_shadow(ops);
		p->rows_cnt += at->row != 0;
	}
	return at->row;
}

bool places__reported(struct places *p, struct tally *ops, const struct event *ev)
{
	struct place_row *at = ev->name.v ? find_or_add(p, ev->name) : NULL;
	name_id op = { (uint32_t)ev->addr };

	if (!at || at->is_reported)
		return false;
	at->is_reported = true;
	at->op = op;
	at->made = op.v ? ev->flags & EV_PLACE_ALL : 0;
	at->code = ev->size;
	at->buffer = ev->key;
	at->nodes = ev->type;
	at->where = ev->root;
	if (at->row && op.v)
		tally__name_shadow(ops, at->row, op);
	return true;
}

bool places__stands(const struct places *p, name_id op)
{
	for (uint32_t i = 0; i < p->map.cnt; i++)
		if (((const struct place_row *)map__at(&p->map, i))->op.v == op.v)
			return true;
	return false;
}

uint8_t places__made(const struct places *p, name_id place)
{
	const struct place_row *at = map__find(&p->map, place.v);

	return at && at->is_reported ? at->made : EV_PLACE_UNREPORTED;
}

void places__is_backward(struct places *p, name_id place)
{
	const struct place_row *at = map__find(&p->map, place.v);

	if (at && at->code && !map__find(&p->backwards, at->code))
		(void)map__put(&p->backwards, at->code);
}

uint8_t places__graph(const struct places *p, name_id place)
{
	const struct place_row *at = map__find(&p->map, place.v);
	uint8_t graph = at && at->is_reported ? at->made & EV_PLACE_GRAPH : 0;

	return graph == EV_PLACE_INFERENCE && map__find(&p->backwards, at->code) ? EV_PLACE_BACKWARD : graph;
}
