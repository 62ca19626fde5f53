/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/stackset.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/seed.h"
#include "model/core/blocks.h"
#include "model/core/check.h"

#define SLOTS_MIN 1024

struct stacked {
	uint64_t id; /* 0: free */
	uint32_t row;
};

int stackset__init(struct stackset *s)
{
	return tally__init(&s->tally);
}

void stackset__done(struct stackset *s)
{
	tally__done(&s->tally);
	free(s->defs);
	free(s->born);
}

bool stackset__define(struct stackset *s, const struct event *ev)
{
	if (ev->seq != s->defs_cnt + 1 || ev->size >= ev->seq || ev->seq > EV_STACKS_MAX)
		return false;
	if (!array_has_room(s->defs, s->defs_cnt, s->defs_cap, 256))
		return false;
	s->defs[s->defs_cnt++] = (struct stack_def){ .parent = (uint32_t)ev->size, .line = ev->aux, .function = ev->name,
						     .file = { (uint32_t)ev->addr }, .kind = ev->flags };
	return true;
}

/* --- blocks ---------------------------------------------------------------------------------------------- */

static size_t home_of(const struct stackset *s, uint64_t id)
{
	return (size_t)hash_u64(id) & (s->born_slots - 1);
}

static size_t slot_of(const struct stackset *s, uint64_t id)
{
	size_t i = home_of(s, id);

	while (s->born[i].id && s->born[i].id != id)
		i = (i + 1) & (s->born_slots - 1);
	return i;
}

static bool stackset__grow(struct stackset *s)
{
	size_t old_slots = s->born_slots, slots = old_slots ? 2 * old_slots : SLOTS_MIN;
	struct stacked *old = s->born, *born;

	if (2 * (s->born_cnt + 1) <= old_slots)
		return true;
	if (s->born_cnt >= STACKED_MAX)
		return false;
	born = calloc(slots, sizeof(*born));
	if (!born)
		return false;
	s->born = born;
	s->born_slots = slots;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].id)
			born[slot_of(s, old[i].id)] = old[i];
	free(old);
	return true;
}

/* False: it is not kept. *ret_row 0: it is, among those that there was no row for. */
static bool stackset__add(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint32_t *ret_row)
{
	if (!stackset__grow(s))
		return false;
	*ret_row = tally__ready(&s->tally, dev_idx, tally__row(&s->tally, (name_id){ node }, false));
	s->born[slot_of(s, id)] = (struct stacked){ id, *ret_row };
	s->born_cnt++;
	return true;
}

bool stackset__born(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch)
{
	uint32_t row;

	if (!stackset__add(s, id, node, dev_idx, &row))
		return false;
	tally__born(&s->tally, dev_idx, row, size, epoch);
	return row != 0;
}

bool stackset__met(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch)
{
	uint32_t row;

	if (!stackset__add(s, id, node, dev_idx, &row))
		return false;
	tally__met(&s->tally, dev_idx, row, size, epoch);
	return row != 0;
}

uint32_t stackset__of(const struct stackset *s, uint64_t id)
{
	size_t at = s->born_cnt ? slot_of(s, id) : 0;

	return s->born_cnt && s->born[at].id ? s->tally.rows[s->born[at].row].name.v : 0;
}

/* Those behind the free slot that cannot stay where they are move up. */
static void stackset__remove(struct stackset *s, size_t at)
{
	size_t mask = s->born_slots - 1;

	for (size_t i = (at + 1) & mask; s->born[i].id; i = (i + 1) & mask) {
		size_t home = home_of(s, s->born[i].id);

		if (((i - home) & mask) < ((i - at) & mask))
			continue;
		s->born[at] = s->born[i];
		at = i;
	}
	s->born[at].id = 0;
	s->born_cnt--;
}

uint32_t stackset__died(struct stackset *s, uint64_t id, unsigned dev_idx, uint64_t size, uint64_t epoch)
{
	uint32_t row;
	size_t at;

	if (!s->born_cnt)
		return 0;
	at = slot_of(s, id);
	if (!s->born[at].id)
		return 0;
	row = s->born[at].row;
	tally__died(&s->tally, dev_idx, row, size, epoch);
	stackset__remove(s, at);
	return s->tally.rows[row].name.v;
}

void stackset__check(const struct stackset *s, const struct blocks *blocks)
{
	uint64_t live = 0, cells = 0, cnt = 0, cells_cnt = 0;
	const struct block *b;
	size_t pos = 0;

	while (s->born_cnt && (b = blocks__next(blocks, &pos))) {
		if (!s->born[slot_of(s, b->id)].id)
			continue;
		live += b->size;
		cnt++;
	}
	for (unsigned dev = 0; dev < TALLY_DEVS_MAX; dev++) {
		for (uint32_t row = 0; row < s->tally.devs[dev].cnt; row++) {
			cells += s->tally.devs[dev].cells[row].live;
			cells_cnt += s->tally.devs[dev].cells[row].live_count;
		}
	}
	mt_check(cnt == s->born_cnt && cells_cnt == cnt && cells == live);
}
