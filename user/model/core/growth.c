/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Whether a block is older than a boundary follows from its id: ids rise with allocations, and a clock keeps the first one
 * after its last boundary. So a block needs no room for it, and a row needs two sums: of all its blocks, and of those since
 * the last boundary.
 */
#include "model/core/growth.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/seed.h"
#include "event/event.h"
#include "model/core/blocks.h"

_Static_assert(EV_STACKS_MAX < 1u << 24, "struct growth_key");

void growth__done(struct growth *g)
{
	free(g->rows);
	index__done(&g->by_key);
	*g = (struct growth){ 0 };
}

/* --- boundaries ------------------------------------------------------------------------------------------ */

static void growth_clock__pass(struct growth_clock *c, uint64_t cnt, uint64_t last_id)
{
	c->tick += cnt;
	while ((c->tick - 1) >> c->shift >= GROWTH_SLOTS)
		c->shift++;
	c->young_id = last_id + 1;
}

void growth_clock__count(struct growth_clock *c, uint64_t last_id)
{
	growth_clock__pass(c, 1, last_id);
}

static void growth_clock__begin(struct growth_clock *c, enum growth_kind kind, uint64_t last_id, uint64_t now_ns)
{
	*c = (struct growth_clock){ .kind = (uint8_t)kind, .era = c->era + 1, .young_id = last_id + 1,
				    .from_ns = now_ns, .last_ns = now_ns };
}

void growth_clock__step(struct growth_clock *c, enum growth_kind kind, uint64_t last_id, uint64_t now_ns)
{
	if (kind > c->kind) {
		growth_clock__begin(c, kind, last_id, now_ns);
	} else if (kind == c->kind) {
		c->steps++;
		c->last_ns = now_ns;
	}
}

void growth_clock__anew(struct growth_clock *c, uint64_t last_id, uint64_t now_ns)
{
	if (!c->from_ns)
		return;
	c->era++;
	c->tick = 0;
	c->shift = 0;
	c->young_id = last_id + 1;
	c->from_ns = now_ns;
	if (c->kind == GROWTH_BY_TIME)
		c->last_ns = now_ns;
}

void growth_clock__time(struct growth_clock *c, uint64_t last_id, uint64_t now_ns)
{
	uint64_t cnt;

	if (c->kind != GROWTH_BY_TIME || now_ns - c->last_ns < GROWTH_TICK_NS)
		return;
	if (!c->from_ns) {
		growth_clock__begin(c, GROWTH_BY_TIME, last_id, now_ns);
		return;
	}
	cnt = (now_ns - c->last_ns) / GROWTH_TICK_NS;
	growth_clock__pass(c, cnt, last_id);
	c->last_ns += cnt * GROWTH_TICK_NS;
}

/* --- a row ------------------------------------------------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint32_t growth_row__used(const struct growth_row *r)
{
	return (uint32_t)((r->tick + (1ull << r->shift) - 1) >> r->shift);
}

static void growth_row__widen(struct growth_row *r, uint8_t shift)
{
	for (; r->shift < shift; r->shift++) {
		uint32_t used = growth_row__used(r);

		for (uint32_t i = 0; 2 * i < used; i++) {
			uint32_t a = 2 * i, b = a + 1 < used ? a + 1 : a;

			r->low[i] = least(r->low[a], r->low[b]);
			r->low_cnt[i] = (uint32_t)least(r->low_cnt[a], r->low_cnt[b]);
		}
	}
}

/* The same at the boundaries from `r->tick` up to `tick`. */
static void growth_row__put(struct growth_row *r, uint64_t tick, uint64_t bytes, uint32_t cnt)
{
	while (r->tick < tick) {
		uint64_t slot = r->tick >> r->shift;

		if (!(r->tick & ((1ull << r->shift) - 1))) {
			r->low[slot] = bytes;
			r->low_cnt[slot] = cnt;
		} else {
			r->low[slot] = least(r->low[slot], bytes);
			r->low_cnt[slot] = (uint32_t)least(r->low_cnt[slot], cnt);
		}
		r->tick = least((slot + 1) << r->shift, tick);
	}
}

void growth_row__settle(struct growth_row *r, const struct growth_clock *c)
{
	if (r->era != c->era) {
		r->era = c->era;
		r->tick = r->young = 0;
		r->young_cnt = 0;
		r->shift = 0;
	}
	if (r->tick == c->tick)
		return;
	growth_row__widen(r, c->shift);
	growth_row__put(r, r->tick + 1, r->live - r->young, r->cnt - r->young_cnt);
	r->young = 0;
	r->young_cnt = 0;
	growth_row__put(r, c->tick, r->live, r->cnt);
	r->half = r->cnt / 2;
}

/* --- finding rows ----------------------------------------------------------------------------------------- */

static struct growth_key growth_key_of(const struct block *b, uint32_t stack)
{
	return (struct growth_key){ .pid = b->pid, .op = (uint32_t)b->op, .region = (uint32_t)b->region,
				    .dev = (uint32_t)b->dev & 0xff, .stack = stack & 0xffffff };
}

static inline uint64_t growth_key__hash(const struct growth_key *k)
{
	return hash_two((uint64_t)k->pid << 32 | (uint32_t)k->stack << 8 | k->dev, (uint64_t)k->op << 32 | k->region);
}

static inline struct growth_row *growth__find(const struct growth *g, const struct growth_key *k)
{
	uint32_t row = index_find(&g->by_key, growth_key__hash(k), i, growth_key__is(&g->rows[i].key, k));

	return row == INDEX_NONE ? NULL : &g->rows[row];
}

struct growth_row *growth__row_of(const struct growth *g, const struct block *b, uint32_t stack)
{
	struct growth_key k = growth_key_of(b, stack);
	struct growth_row *r = growth__find(g, &k);

	return r && !b->late && !b->unlisted && !b->unwatched && b->id >= r->first_id ? r : NULL;
}

/* A row that has no blocks now; looks at some only, so that a full table does not cost a walk an allocation. */
static struct growth_row *growth__recycle(struct growth *g)
{
	for (int i = 0; i < 16 && g->cnt; i++) {
		uint32_t row = g->hand++ % g->cnt;

		if (!g->rows[row].cnt) {
			index__remove(&g->by_key, growth_key__hash(&g->rows[row].key), row);
			return &g->rows[row];
		}
	}
	return NULL;
}

static struct growth_row *growth__add(struct growth *g, const struct growth_key *k, const struct growth_clock *c)
{
	bool has_room = g->cnt < GROWTH_ROWS_MAX && array_has_room(g->rows, g->cnt, g->cap, 512);
	struct growth_row *r = has_room ? &g->rows[g->cnt] : growth__recycle(g);

	if (!r || index__add(&g->by_key, growth_key__hash(k), (uint32_t)(r - g->rows)) < 0) {
		g->not_watched++;
		return NULL;
	}
	g->cnt += has_room;
	*r = (struct growth_row){ .key = *k, .era = c->era };
	return r;
}

void growth__drop_pid(struct growth *g, uint32_t pid)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < g->cnt; i++) {
		if (g->rows[i].key.pid == pid)
			continue;
		if (kept != i)
			g->rows[kept] = g->rows[i];
		kept++;
	}
	if (kept == g->cnt)
		return;
	g->cnt = kept;
	index__clear(&g->by_key);
	for (uint32_t i = 0; i < kept; i++)
		(void)index__add(&g->by_key, growth_key__hash(&g->rows[i].key), i); /* there is room for more */
}

/* --- blocks ----------------------------------------------------------------------------------------------- */

void growth__allocated(struct growth *g, const struct block *b, uint32_t stack, struct growth_clock *c, uint64_t now_ns)
{
	struct growth_key k = growth_key_of(b, stack);
	struct growth_row *r = growth__find(g, &k);

	growth_clock__time(c, b->id - 1, now_ns);
	if (!r) {
		r = growth__add(g, &k, c);
		if (!r)
			return;
		r->first_id = b->id;
	}
	growth_row__settle(r, c);
	r->live += b->size;
	r->young += b->size;
	r->cnt++;
	r->young_cnt++;
}

void growth__freed(struct growth *g, const struct block *b, uint32_t stack, struct growth_clock *c, uint64_t last_id,
		  uint64_t now_ns)
{
	struct growth_row *r = growth__row_of(g, b, stack);

	if (!r)
		return;
	growth_clock__time(c, last_id, now_ns);
	growth_row__settle(r, c);
	r->live -= b->size;
	r->cnt--;
	if (r->cnt == r->half)
		r->fell_ns = now_ns;
	if (b->id < c->young_id)
		return;
	r->young -= b->size;
	r->young_cnt--;
}
