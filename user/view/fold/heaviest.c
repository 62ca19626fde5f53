/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The kept ones are a binary heap with the lightest on top, which the next heavier one replaces. */
#include "view/fold/heaviest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/heap.h"
#include "base/map.h"

struct heaviest {
	struct block_life *live; /* by number; [0] is not used; id 0: free, then allocated_ns is the next free one */
	uint32_t live_cnt, live_room, first_free;
	struct block_life *heap;
	uint32_t heap_cnt, max;
	struct map wanted; /* ids alone */
	uint64_t allocated;
	double all, kept;
};

struct heaviest *heaviest__new(uint32_t max)
{
	struct heaviest *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->max = max;
	h->wanted = MAP_OF(uint64_t);
	h->live_room = 1024;
	h->live_cnt = 1;
	h->live = calloc(h->live_room, sizeof(*h->live));
	h->heap = calloc(max ? max : 1, sizeof(*h->heap));
	if (!h->live || !h->heap) {
		heaviest__free(h);
		return NULL;
	}
	return h;
}

void heaviest__free(struct heaviest *h)
{
	if (!h)
		return;
	map__done(&h->wanted);
	free(h->live);
	free(h->heap);
	free(h);
}

int heaviest__want(struct heaviest *h, uint64_t id)
{
	return !id || map__put(&h->wanted, id) ? 0 : -ENOMEM;
}

uint32_t heaviest__allocated(struct heaviest *h, const struct block_life *b)
{
	uint32_t at = h->first_free;

	if (at) {
		h->first_free = (uint32_t)h->live[at].allocated_ns;
	} else {
		if (h->live_cnt == h->live_room) {
			struct block_life *more = realloc(h->live, 2 * (size_t)h->live_room * sizeof(*more));

			if (!more || h->live_room > UINT32_MAX / 4)
				return 0;
			h->live = more;
			h->live_room *= 2;
		}
		at = h->live_cnt++;
	}
	h->live[at] = *b;
	h->live[at].freed_ns = 0;
	h->allocated++;
	return at;
}

struct block_life *heaviest__life(struct heaviest *h, uint32_t number)
{
	return &h->live[number];
}

static int is_lighter(const struct block_life *a, const struct block_life *b)
{
	return a->weight < b->weight;
}

static void heaviest__keep(struct heaviest *h, struct block_life *b, uint64_t ts_ns)
{
	b->weight = (double)b->size * (double)(ts_ns > b->allocated_ns ? ts_ns - b->allocated_ns : 0);
	h->all += b->weight;
	if (map__find(&h->wanted, b->id))
		b->weight = INFINITY;
	if (h->heap_cnt < h->max) {
		h->heap[h->heap_cnt] = *b;
		heap_up(h->heap, h->heap_cnt, is_lighter);
		h->heap_cnt++;
	} else if (h->max && is_lighter(&h->heap[0], b)) {
		h->heap[0] = *b;
		heap_down(h->heap, h->heap_cnt, 0, is_lighter);
	}
}

void heaviest__freed(struct heaviest *h, uint32_t number, uint64_t ts_ns)
{
	struct block_life *b = &h->live[number];

	b->freed_ns = ts_ns ? ts_ns : 1;
	heaviest__keep(h, b, ts_ns);
	*b = (struct block_life){ .allocated_ns = h->first_free };
	h->first_free = number;
}

static int by_alloc(const void *a, const void *b)
{
	const struct block_life *x = a, *y = b;

	return cmp_up(x->allocated_ns, y->allocated_ns) ?: cmp_up(x->id, y->id);
}

const struct block_life *heaviest__end(struct heaviest *h, uint64_t ts_ns, size_t *ret_cnt)
{
	for (uint32_t i = 1; i < h->live_cnt; i++)
		if (h->live[i].id)
			heaviest__keep(h, &h->live[i], ts_ns);
	for (uint32_t i = 0; i < h->heap_cnt; i++) {
		const struct block_life *b = &h->heap[i];
		uint64_t to = b->freed_ns ? b->freed_ns : ts_ns;

		h->kept += (double)b->size * (double)(to > b->allocated_ns ? to - b->allocated_ns : 0);
	}
	qsort(h->heap, h->heap_cnt, sizeof(*h->heap), by_alloc);
	*ret_cnt = h->heap_cnt;
	return h->heap;
}

uint64_t heaviest__sums(const struct heaviest *h, double *ret_all, double *ret_kept)
{
	*ret_all = h->all;
	*ret_kept = h->kept;
	return h->allocated;
}
