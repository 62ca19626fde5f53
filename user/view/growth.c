/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/growth.h"

#include <stdlib.h>
#include <string.h>

#define LAST (GROWTH_SLOTS - 1)

void growth__init(struct growth *g, uint64_t from_ns, uint64_t to_ns)
{
	*g = (struct growth){ .from_ns = from_ns, .to_ns = to_ns };
}

void growth__done(struct growth *g)
{
	numbering__done(&g->keys);
	free(g->rows);
	g->rows = NULL;
}

static uint32_t growth__slot(const struct growth *g, uint64_t ts_ns)
{
	if (ts_ns <= g->from_ns || g->to_ns <= g->from_ns)
		return 0;
	if (ts_ns >= g->to_ns)
		return LAST;
	return (uint32_t)((unsigned __int128)(ts_ns - g->from_ns) * GROWTH_SLOTS / (g->to_ns - g->from_ns));
}

/* Slots that passed without a change had what there was all the time. */
static void growth__advance(struct growth_row *r, uint32_t slot)
{
	while (r->slot < slot) {
		r->slot++;
		r->low[r->slot] = r->live;
		r->low_count[r->slot] = r->count;
	}
}

static struct growth_row *growth__add(struct growth *g)
{
	if (g->cnt == g->room) {
		uint32_t room = g->room ? 2 * g->room : 256;
		struct growth_row *more = realloc(g->rows, room * sizeof(*more));

		if (!more)
			return NULL;
		g->rows = more;
		g->room = room;
	}
	memset(&g->rows[g->cnt], 0, sizeof(*g->rows));
	return &g->rows[g->cnt++];
}

uint32_t growth__born(struct growth *g, uint64_t ts_ns, name_id op, name_id region, uint8_t dev, uint64_t size)
{
	int is_new;
	/* NAMES_MAX is 2^20. */
	uint32_t idx = numbering__get(&g->keys, (uint64_t)op.v << 36 | (uint64_t)region.v << 8 | dev, &is_new);
	struct growth_row *r;

	while (idx < GROWTH_MAX && idx >= g->cnt && growth__add(g))
		;
	if (idx >= g->cnt) {
		g->not_watched++;
		return UINT32_MAX;
	}
	r = &g->rows[idx];
	r->op = op;
	r->region = region;
	r->dev = dev;
	growth__advance(r, growth__slot(g, ts_ns));
	r->live += size;
	r->count++;
	return idx;
}

void growth__freed(struct growth *g, uint64_t ts_ns, uint32_t row, uint64_t size)
{
	struct growth_row *r;

	if (row >= g->cnt)
		return;
	r = &g->rows[row];
	growth__advance(r, growth__slot(g, ts_ns));
	r->live -= size;
	r->count--;
	if (r->live < r->low[r->slot])
		r->low[r->slot] = r->live;
	if (r->count < r->low_count[r->slot])
		r->low_count[r->slot] = r->count;
}

int growth__watches(const struct growth *g, uint64_t ts_ns)
{
	uint32_t slot = growth__slot(g, ts_ns);

	return slot >= GROWTH_FIRST && slot < LAST;
}

uint64_t growth_row__bytes(const struct growth_row *r)
{
	return r->low[LAST] > r->low[GROWTH_FIRST] ? r->low[LAST] - r->low[GROWTH_FIRST] : 0;
}

uint64_t growth_row__blocks(const struct growth_row *r)
{
	return r->low_count[LAST] - r->low_count[GROWTH_FIRST];
}

static int growth_row__is_suspect(const struct growth_row *r)
{
	unsigned rises = 0;

	for (unsigned i = GROWTH_FIRST + 1; i < GROWTH_SLOTS; i++) {
		if (r->low_count[i] < r->low_count[i - 1])
			return 0;
		rises += r->low_count[i] > r->low_count[i - 1];
	}
	return rises > (GROWTH_SLOTS - GROWTH_FIRST) / 2 && growth_row__blocks(r) >= GROWTH_MIN && growth_row__bytes(r);
}

static int by_growth(const void *a, const void *b)
{
	const struct growth_row *x = a, *y = b;
	int sx = growth_row__is_suspect(x), sy = growth_row__is_suspect(y);
	uint64_t bx = growth_row__bytes(x), by = growth_row__bytes(y);

	if (sx != sy)
		return sy - sx;
	return bx != by ? (bx < by) - (bx > by) : (x->op.v > y->op.v) - (x->op.v < y->op.v);
}

size_t growth__end(struct growth *g)
{
	size_t cnt = 0;

	for (uint32_t i = 0; i < g->cnt; i++)
		growth__advance(&g->rows[i], LAST);
	if (g->cnt)
		qsort(g->rows, g->cnt, sizeof(*g->rows), by_growth);
	while (cnt < g->cnt && growth_row__is_suspect(&g->rows[cnt]))
		cnt++;
	return cnt;
}
