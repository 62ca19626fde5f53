/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/learned_guess.h"

uint8_t learned_proc__lane(struct learned_proc *p, uint32_t tid)
{
	uint8_t i = 0;

	while (i < p->lanes_cnt && p->tids[i] != tid)
		i++;
	if (i == LEARNED_LANES)
		return LEARNED_LANES - 1;
	if (i == p->lanes_cnt) {
		p->tids[p->lanes_cnt++] = tid;
		p->places[i] = (struct learned_place){ 0 };
	}
	return i;
}

static bool is_among(uint32_t tid, const uint32_t *tids, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (tids[i] == tid)
			return true;
	return false;
}

static const struct learned_lane *kind__lane_of(const struct learned_kind *k, uint32_t tid)
{
	for (uint32_t i = 0; i < k->lanes_cnt; i++)
		if (k->lanes[i].tid == tid)
			return &k->lanes[i];
	return NULL;
}

const struct learned_lane *kind__lane(const struct learned_kind *k, const uint32_t *tids, uint32_t cnt, uint32_t number)
{
	const struct learned_lane *lane = kind__lane_of(k, tids[number]);
	uint32_t before = 0;

	if (lane)
		return lane;
	for (uint32_t i = 0; i < number; i++)
		before += !kind__lane_of(k, tids[i]);
	for (uint32_t i = 0; i < k->lanes_cnt; i++)
		if (!is_among(k->lanes[i].tid, tids, cnt) && !before--)
			return &k->lanes[i];
	return NULL;
}

/* Whether all that this thread allocated in this step is the kind's beginning. */
static bool kind__begins_so(const struct learned_kind *k, const struct learned_proc *p, const struct learned_alloc *b)
{
	const struct learned_lane *lane = kind__lane(k, p->tids, p->lanes_cnt, b->lane);
	uint32_t at = 0;

	for (uint32_t i = 0; lane && i <= p->now.cnt; i++) {
		const struct learned_alloc *was = i < p->now.cnt ? &p->now.v[i] : b;

		if (was->lane != b->lane)
			continue;
		if (at >= lane->cnt || k->items[lane->at + at].size != was->size || k->items[lane->at + at].dev != was->dev)
			return false;
		at++;
	}
	return lane != NULL;
}

#define GUESS_FIRST 64 /* allocations that identify a kind */

static void learned_proc__guess_kind(struct learned_proc *p, const struct learned_alloc *b)
{
	for (uint32_t i = 0; i < p->kinds_cnt && p->now.cnt < GUESS_FIRST; i++)
		if (kind__begins_so(&p->kinds[i], p, b)) {
			p->guess = i;
			return;
		}
}

/* Where the last sizes are found again, the nearest. */
static void place__find_back(struct learned_place *at, const struct learned_kind *k, const struct learned_lane *lane)
{
	for (uint32_t d = 0; d <= 4 * ALIGN_NEAR; d++) {
		uint32_t end = d & 1 ? at->next + (d + 1) / 2 : at->next - d / 2, n = 0; /* below 0 is far above */

		if (end >= lane->cnt || end < ALIGN_RUN || at->cnt + 1 < ALIGN_RUN)
			continue;
		while (n < ALIGN_RUN && k->items[lane->at + end - n].size == at->last[(at->cnt - n) % ALIGN_RUN])
			n++;
		if (n == ALIGN_RUN) {
			at->next = end;
			at->is_off = false;
			return;
		}
	}
}

void learned_proc__guess(struct learned_proc *p, struct learned_place *at, struct learned_alloc *b)
{
	const struct learned_kind *k = &p->kinds[p->guess];
	const struct learned_lane *lane = kind__lane(k, p->tids, p->lanes_cnt, b->lane);
	const struct align_item *it;
	bool fits;

	if (!lane)
		return;
	it = at->next < lane->cnt ? &k->items[lane->at + at->next] : NULL;
	fits = it && it->size == b->size && it->dev == b->dev;
	if (!fits && !at->is_off && !p->by_place) {
		learned_proc__guess_kind(p, b);
		at->is_off = k == &p->kinds[p->guess];
		k = &p->kinds[p->guess];
		lane = kind__lane(k, p->tids, p->lanes_cnt, b->lane);
	} else if (at->is_off && !p->by_place) {
		place__find_back(at, k, lane);
	}
	it = lane && at->next < lane->cnt ? &k->items[lane->at + at->next] : NULL;
	fits = it && it->dev == b->dev && (p->by_place || (it->size == b->size && !at->is_off));
	if (fits)
		b->what = k->whats[lane->at + at->next];
	b->has = fits;
}
