/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/caught.h"

#include "model/core/blocks.h"

void caught__init(struct caught *c)
{
	c->blocks = MAP_OF(struct caught_block);
}

void caught__done(struct caught *c)
{
	map__done(&c->blocks);
}

/* A thread has one allocation at a time: an earlier report without its allocation is replaced. */
void caught__reported(struct caught *c, const struct event *ev)
{
	size_t at = 0;

	while (at < c->waiting_cnt && (c->waiting[at].pid != ev->pid || c->waiting[at].tid != ev->tid))
		at++;
	if (at == CAUGHT_WAITING_MAX) {
		at = c->hand % CAUGHT_WAITING_MAX;
		c->hand++;
	}
	if (at == c->waiting_cnt)
		c->waiting_cnt++;
	c->waiting[at] = (struct caught_waiting){ ev->addr, ev->pid, ev->tid, (uint32_t)ev->size, ev->dev };
}

static void caught__add(struct caught *c, const struct caught_waiting *w, uint64_t id)
{
	struct caught_block *b;

	if (c->blocks.cnt == CAUGHT_MAX && c->freed)
		caught__forget(c, 0);
	if (c->blocks.cnt == CAUGHT_MAX)
		map__remove(&c->blocks, map__at(&c->blocks, c->hand++ % CAUGHT_MAX));
	b = map__put(&c->blocks, id);
	if (b)
		*b = (struct caught_block){ .id = id, .ptr = w->ptr, .pid = w->pid, .node = w->node, .dev = w->dev };
}

void caught__freed(struct caught *c, uint64_t id, const struct growth_key *place, uint64_t tick)
{
	struct caught_block *b = c->blocks.cnt ? map__find(&c->blocks, id) : NULL;

	if (!b || b->is_freed)
		return;
	if (!place) {
		map__remove(&c->blocks, b);
		return;
	}
	b->is_freed = true;
	b->place = *place;
	b->freed_tick = tick;
	c->freed++;
}

void caught__forget(struct caught *c, uint32_t pid)
{
	for (uint32_t i = c->blocks.cnt; i-- > 0 && c->freed;) {
		struct caught_block *b = map__at(&c->blocks, i);

		if (!b->is_freed || (pid && b->pid != pid))
			continue;
		map__remove(&c->blocks, b);
		c->freed--;
	}
}

void caught__allocated(struct caught *c, const struct block *b)
{
	for (size_t i = 0; i < c->waiting_cnt; i++) {
		const struct caught_waiting w = c->waiting[i];

		if (w.pid != b->pid || w.tid != b->tid)
			continue;
		c->waiting[i] = c->waiting[--c->waiting_cnt];
		if (w.ptr == b->ptr && w.dev == b->dev)
			caught__add(c, &w, b->id);
		return;
	}
}

uint32_t caught__of(const struct caught *c, uint64_t id)
{
	const struct caught_block *b = c->blocks.cnt ? map__find(&c->blocks, id) : NULL;

	return b ? b->node : 0;
}
