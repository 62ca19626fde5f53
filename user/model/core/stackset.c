/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/stackset.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "model/core/blocks.h"
#include "model/core/check.h"

struct stacked {
	uint64_t id;
	uint32_t row;
};

int stackset__init(struct stackset *s)
{
	s->allocated = MAP_OF(struct stacked);
	return tally__init(&s->tally);
}

void stackset__done(struct stackset *s)
{
	tally__done(&s->tally);
	free(s->defs);
	map__done(&s->allocated);
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

/* False: it is not kept. *ret_row 0: it is, among those that there was no row for. */
static bool stackset__add(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint32_t *ret_row)
{
	struct stacked *b = s->allocated.cnt < STACKED_MAX ? map__put(&s->allocated, id) : NULL;

	if (!b)
		return false;
	b->row = *ret_row = tally__ready(&s->tally, dev_idx, tally__row(&s->tally, (name_id){ node }, false));
	return true;
}

bool stackset__allocated(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch)
{
	uint32_t row;

	if (!stackset__add(s, id, node, dev_idx, &row))
		return false;
	tally__allocated(&s->tally, dev_idx, row, size, epoch);
	return row != 0;
}

bool stackset__late(struct stackset *s, uint64_t id, uint32_t node, unsigned dev_idx, uint64_t size, uint64_t epoch)
{
	uint32_t row;

	if (!stackset__add(s, id, node, dev_idx, &row))
		return false;
	tally__late(&s->tally, dev_idx, row, size, epoch);
	return row != 0;
}

uint32_t stackset__of(const struct stackset *s, uint64_t id)
{
	const struct stacked *b = map__find(&s->allocated, id);

	return b ? s->tally.rows[b->row].name.v : 0;
}

uint32_t stackset__freed(struct stackset *s, uint64_t id, unsigned dev_idx, uint64_t size, uint64_t epoch)
{
	struct stacked *b = map__find(&s->allocated, id);
	uint32_t row;

	if (!b)
		return 0;
	row = b->row;
	tally__freed(&s->tally, dev_idx, row, size, epoch);
	map__remove(&s->allocated, b);
	return s->tally.rows[row].name.v;
}

void stackset__check(const struct stackset *s, const struct blocks *blocks)
{
	uint64_t live = 0, cells = 0, cnt = 0, cells_cnt = 0;
	const struct block *b;
	size_t pos = 0;

	while (s->allocated.cnt && (b = blocks__next(blocks, &pos))) {
		if (!map__find(&s->allocated, b->id))
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
	mt_check(cnt == s->allocated.cnt && cells_cnt == cnt && cells == live);
}
