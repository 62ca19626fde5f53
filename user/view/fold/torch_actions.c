/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/torch_actions.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/heap.h"
#include "base/map.h"
#include "timeline/labels.h"

struct pending {
	int64_t t_ns;
	uint64_t seq; /* equal times and actions: as they came */
	uint64_t id, size;
	uint32_t version;
	uint8_t action;
};

struct torch_actions {
	const struct labels *labels;
	uint8_t dev;
	torch_fn fn;
	void *ctx;
	/*
	 * Waiting records. Allocations and frees come by time and stand in a ring; late ones are in a heap, which so stays
	 * small: in one heap of a million records, sifting took a fifth of an export.
	 */
	struct pending *ring; /* ascending */
	uint32_t ring_at, ring_cnt, ring_cap; /* the first; a power of two */
	struct pending *heap; /* smallest first */
	uint32_t cnt, cap;
	uint32_t max; /* of both together */
	uint64_t seq;
	int64_t last_ns;
	struct map live; /* struct action_block */
};

/* A live block. */
struct action_block {
	uint64_t id, size;
	uint8_t index; /* of the category that it is counted under */
};

/* --- writing --------------------------------------------------------------------------------------------- */

/* _CATEGORY_TO_INDEX of torch: PARAMETER first, none last. */
static uint8_t index_of(const struct torch_actions *a, uint64_t id, uint32_t version)
{
	enum category c = labels__get(a->labels, id, version);

	return c == CAT_UNKNOWN || c >= CAT_COMPAT_MAX ? TORCH_CATEGORIES - 1 : (uint8_t)(c - CAT_PARAMETER);
}

static int tell(struct torch_actions *a, int64_t t_ns, uint8_t action, int64_t bytes, uint8_t index)
{
	return a->fn(a->ctx, &(struct torch_record){ .t_ns = t_ns, .bytes = bytes, .action = action, .index = index });
}

static int tell_alloc(struct torch_actions *a, const struct pending *p)
{
	struct action_block *row = map__find(&a->live, p->id);

	if (row || !p->id)
		return 0;
	row = map__put(&a->live, p->id);
	if (!row)
		return -ENOMEM;
	row->size = p->size;
	row->index = index_of(a, p->id, 0);
	return tell(a, p->t_ns, p->action, (int64_t)p->size, row->index);
}

static int tell_next(struct torch_actions *a, const struct pending *p)
{
	struct action_block *row;
	int64_t bytes;
	int r;

	if (p->action == TORCH_CREATE)
		return tell_alloc(a, p);
	row = map__find(&a->live, p->id);
	if (!row)
		return 0; /* of unknown size, or freed already */
	bytes = (int64_t)row->size;
	r = tell(a, p->t_ns, p->action, -bytes, row->index);
	if (p->action == TORCH_DESTROY) {
		map__remove(&a->live, row);
		return r;
	}
	row->index = index_of(a, p->id, p->version);
	return r ? r : tell(a, p->t_ns, p->action, bytes, row->index);
}

/* --- order ------------------------------------------------------------------------------------------------- */

static int is_before(const struct pending *a, const struct pending *b)
{
	if (a->t_ns != b->t_ns)
		return a->t_ns < b->t_ns;
	if (a->action != b->action)
		return a->action < b->action;
	return a->seq < b->seq;
}

static struct pending *ring_nth(const struct torch_actions *a, uint32_t n)
{
	return &a->ring[(a->ring_at + n) & (a->ring_cap - 1)];
}

static int ring_put(struct torch_actions *a, const struct pending *p)
{
	if (a->ring_cnt == a->ring_cap) {
		uint32_t cap = a->ring_cap ? 2 * a->ring_cap : 1024;
		struct pending *ring = malloc(cap * sizeof(*ring));

		if (!ring)
			return -ENOMEM;
		for (uint32_t i = 0; i < a->ring_cnt; i++)
			ring[i] = *ring_nth(a, i);
		free(a->ring);
		a->ring = ring;
		a->ring_at = 0;
		a->ring_cap = cap;
	}
	*ring_nth(a, a->ring_cnt++) = *p;
	return 0;
}

static int heap_put(struct torch_actions *a, const struct pending *p)
{
	if (!array_has_room(a->heap, a->cnt, a->cap, 1024))
		return -ENOMEM;
	a->heap[a->cnt] = *p;
	heap_up(a->heap, a->cnt, is_before);
	a->cnt++;
	return 0;
}

static struct pending heap_take(struct torch_actions *a)
{
	struct pending first = a->heap[0];

	a->heap[0] = a->heap[--a->cnt];
	heap_down(a->heap, a->cnt, 0, is_before);
	return first;
}

static int pop(struct torch_actions *a)
{
	struct pending first;

	if (a->ring_cnt && (!a->cnt || is_before(ring_nth(a, 0), &a->heap[0]))) {
		first = *ring_nth(a, 0);
		a->ring_at++;
		a->ring_cnt--;
	} else {
		first = heap_take(a);
	}
	if (first.t_ns < a->last_ns)
		first.t_ns = a->last_ns;
	a->last_ns = first.t_ns;
	return tell_next(a, &first);
}

static int push(struct torch_actions *a, struct pending p)
{
	int r = a->ring_cnt + a->cnt == a->max ? pop(a) : 0;

	p.seq = a->seq++;
	if (r)
		return r;
	if (a->ring_cnt && is_before(&p, ring_nth(a, a->ring_cnt - 1)))
		return heap_put(a, &p);
	return ring_put(a, &p);
}

/* --- the room's face --------------------------------------------------------------------------------------- */

static int preexisting(struct torch_actions *a)
{
	struct labels_late late;
	size_t pos = 0;
	int r = 0;

	while (!r && !labels__next_late(a->labels, &pos, &late))
		if (late.dev == a->dev && late.size != TL_SIZE_UNKNOWN)
			r = tell_alloc(a, &(struct pending){ .t_ns = -1, .id = late.id, .size = late.size,
							     .action = TORCH_PREEXISTING });
	return r;
}

/* cuda:0 where the recording has it, as torch does. */
static uint8_t default_dev(const struct report *r)
{
	return report_dev_find(r, MT_DEV_CUDA0) ? MT_DEV_CUDA0 : MT_DEV_CPU;
}

int torch_actions__new(struct torch_actions **ret, const struct export_to *to, uint32_t pending_max, torch_fn fn,
		       void *ctx)
{
	struct torch_actions *a;
	int r;

	if (!to->labels)
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->labels = to->labels;
	a->dev = to->dev >= 0 ? (uint8_t)to->dev : default_dev(to->report);
	a->fn = fn;
	a->ctx = ctx;
	a->max = pending_max ? pending_max : TORCH_PENDING_MAX;
	a->last_ns = -1;
	a->live = MAP_OF(struct action_block);
	r = preexisting(a);
	if (r < 0) {
		torch_actions__free(a);
		return r;
	}
	*ret = a;
	return 0;
}

int torch_actions__event(struct torch_actions *a, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct pending p = { .t_ns = (int64_t)(ev->ts_ns + (uint64_t)epoch_off_ns), .id = ev->id, .size = ev->size };
	int r = 0;

	switch (ev->kind) {
	case TL_CREATE:
	case TL_DESTROY:
		p.action = ev->kind == TL_CREATE ? TORCH_CREATE : TORCH_DESTROY;
		return ev->dev == a->dev ? push(a, p) : 0;
	case TL_PREEXISTING: /* else it was written before */
		p.action = TORCH_CREATE;
		if (ev->dev != a->dev || ev->size == TL_SIZE_UNKNOWN || labels__was_there(a->labels, ev->id))
			return 0;
		return push(a, p);
	case TL_NODE:
		p.action = TORCH_INCREMENT;
		for (uint32_t i = 0; i < ev->edges_cnt && !r; i++) {
			const struct tl_edge *e = &ev->edges[i];

			if (e->dev != a->dev || !(e->flags & TL_EDGE_WRITTEN) || e->flags & TL_EDGE_ALLOCATED)
				continue;
			p.id = e->id;
			p.version = e->out_version;
			r = push(a, p);
		}
		return r;
	default:
		return 0;
	}
}

int torch_actions__flush(struct torch_actions *a)
{
	int r = 0;

	while (a->ring_cnt + a->cnt && !r)
		r = pop(a);
	return r;
}

void torch_actions__free(struct torch_actions *a)
{
	if (!a)
		return;
	free(a->ring);
	free(a->heap);
	map__done(&a->live);
	free(a);
}
