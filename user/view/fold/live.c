/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/live.h"

#include <errno.h>
#include <stdlib.h>

#include "base/map.h"
#include "timeline/labels.h"

struct live {
	const struct labels *labels;
	struct map blocks;
	struct lane **lanes; /* each allocated alone: pointers stay valid */
	size_t lanes_cnt;
	struct lane *last;
	struct live_block dead;
	bool shows_learned;
};

struct live *live__new(const struct labels *labels)
{
	struct live *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->labels = labels;
	l->blocks = MAP_OF(struct live_block);
	l->lanes = calloc(LANES_MAX + 256, sizeof(*l->lanes));
	if (!l->lanes) {
		live__free(l);
		return NULL;
	}
	return l;
}

void live__free(struct live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->lanes_cnt; i++)
		free(l->lanes[i]);
	free(l->lanes);
	map__done(&l->blocks);
	free(l);
}

void live__show(struct live *l, bool learned)
{
	l->shows_learned = learned;
	for (size_t i = 0; i < l->lanes_cnt; i++)
		l->lanes[i]->shown = learned ? l->lanes[i]->learned : l->lanes[i]->cats;
}

size_t live__lanes(const struct live *l)
{
	return l->lanes_cnt;
}

struct lane *live__lane(const struct live *l, size_t idx)
{
	return l->lanes[idx];
}

struct live_block *live__next(const struct live *l, size_t *pos)
{
	return *pos < l->blocks.cnt ? map__at(&l->blocks, (uint32_t)(*pos)++) : NULL;
}

/* --- lanes ----------------------------------------------------------------------------------------- */

static struct lane *live__find_lane(struct live *l, uint32_t pid, uint8_t dev)
{
	if (l->last && l->last->pid == pid && l->last->dev == dev)
		return l->last;
	for (size_t i = 0; i < l->lanes_cnt; i++)
		if (l->lanes[i]->pid == pid && l->lanes[i]->dev == dev)
			return l->last = l->lanes[i];
	return NULL;
}

static struct lane *live__get_lane(struct live *l, uint32_t pid, uint8_t dev, uint8_t *ret_new)
{
	struct lane *lane = live__find_lane(l, pid, dev);

	*ret_new = 0;
	if (lane)
		return lane;
	if (l->lanes_cnt >= LANES_MAX && pid) /* pid 0: one lane a device, 256 at most */
		return live__get_lane(l, 0, dev, ret_new);
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->idx = (uint32_t)l->lanes_cnt;
	lane->pid = pid;
	lane->dev = dev;
	lane->shown = l->shows_learned ? lane->learned : lane->cats;
	l->lanes[l->lanes_cnt++] = lane;
	*ret_new = 1;
	return l->last = lane;
}

static void cats_move(uint64_t cats[CAT_MAX], uint8_t from, uint8_t to, uint64_t size)
{
	if (from < CAT_MAX)
		cats[from] -= size;
	if (to < CAT_MAX)
		cats[to] += size;
}

static void lane__move(struct lane *lane, const struct live_change *ch)
{
	uint64_t size = ch->b->size;

	cats_move(lane->cats, ch->from, ch->to, size);
	cats_move(lane->learned, ch->gap_from, ch->gap_to, size);
	if (ch->from == CAT_MAX)
		lane->live += size;
	if (ch->to == CAT_MAX)
		lane->live -= size;
}

static uint8_t likely(const struct live_block *b, uint8_t cat)
{
	return b->learned != CAT_UNKNOWN && category_is_none((enum category)cat) ? b->learned : cat;
}

/* --- blocks ---------------------------------------------------------------------------------------- */

static uint8_t live__cat(const struct live *l, const struct tl_event *ev)
{
	enum category c = l->labels ? labels__get(l->labels, ev->id, ev->version) : (enum category)ev->cat;

	return c < CAT_MAX ? (uint8_t)c : CAT_UNKNOWN;
}

static int live__allocated(struct live *l, const struct tl_event *ev, struct live_change *ret)
{
	struct live_block *b;

	if (ev->size == TL_SIZE_UNKNOWN || !ev->id)
		return 0;
	if (map__find(&l->blocks, ev->id))
		return 0;
	ret->lane = live__get_lane(l, ev->pid, ev->dev, &ret->is_new_lane);
	b = ret->lane ? map__put(&l->blocks, ev->id) : NULL;
	if (!b)
		return -ENOMEM;
	*b = (struct live_block){ .id = ev->id, .ptr = ev->ptr, .size = ev->size, .pid = ev->pid,
				  .lane = ret->lane->idx, .version = ev->version, .dev = ev->dev,
				  .cat = live__cat(l, ev), .late = ev->kind == TL_PREEXISTING,
				  .learned = ev->learned && ev->learned->cat < CAT_MAX ? ev->learned->cat : CAT_UNKNOWN };
	ret->b = b;
	ret->from = CAT_MAX;
	ret->to = b->cat;
	return 1;
}

static int live__freed(struct live *l, struct live_block *b, struct live_change *ret)
{
	l->dead = *b;
	map__remove(&l->blocks, b);
	ret->b = &l->dead;
	ret->from = l->dead.cat;
	ret->to = CAT_MAX;
	return 1;
}

int live__event(struct live *l, const struct tl_event *ev, struct live_change *ret)
{
	struct live_block *b;
	int r = 1;

	*ret = (struct live_change){ 0 };
	if (ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING) {
		r = live__allocated(l, ev, ret);
	} else if (ev->kind == TL_DESTROY || ev->kind == TL_VERSION || ev->kind == TL_LABEL) {
		b = map__find(&l->blocks, ev->id);
		if (!b || (ev->kind == TL_LABEL && (l->labels || ev->version < b->version)))
			return 0;
		ret->lane = l->lanes[b->lane];
		if (ev->kind == TL_DESTROY) {
			live__freed(l, b, ret);
		} else {
			ret->b = b;
			ret->from = b->cat;
			ret->to = b->cat = live__cat(l, ev);
			b->version = ev->version;
		}
	} else {
		return 0;
	}
	if (r > 0) {
		ret->gap_from = likely(ret->b, ret->from);
		ret->gap_to = likely(ret->b, ret->to);
		lane__move(ret->lane, ret);
	}
	return r;
}
