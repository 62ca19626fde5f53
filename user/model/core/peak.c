/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A binary heap with its worst member on top, so that "is it larger than the smallest kept" is one
 * comparison and a replacement log n. If more than PEAK_FREED_MAX blocks of a peak were freed since,
 * it has the largest, and the number of those left out.
 */
#include "model/core/peak.h"

#include <errno.h>
#include <stdlib.h>

#include "base/heap.h"

int peak__init(struct peak *p)
{
	*p = (struct peak){ 0 };
	p->heap = malloc(PEAK_FREED_MAX * sizeof(*p->heap));
	return p->heap ? 0 : -ENOMEM;
}

void peak__done(struct peak *p)
{
	free(p->heap);
	*p = (struct peak){ 0 };
}

void peak__push(struct peak *p, const struct block *b, uint64_t ts_ns)
{
	const struct peak_freed f = { .block = *b, .freed_ts_ns = ts_ns };

	if (!freed_heap__push(p->heap, &p->cnt, PEAK_FREED_MAX, &f))
		p->missed++;
}

static struct peak_freed *find(struct peak *p, uint64_t id)
{
	for (size_t i = 0; i < p->cnt && id <= p->last_id; i++)
		if (p->heap[i].block.id == id)
			return &p->heap[i];
	return NULL;
}

void peak__name(struct peak *p, uint64_t id, name_id key, name_id path)
{
	struct peak_freed *f = find(p, id);

	if (f) {
		f->key = key;
		f->path = path;
	}
}

void peak__relabel(struct peak *p, uint64_t id, uint8_t cat)
{
	struct peak_freed *f = find(p, id);

	if (f)
		f->block.cat = cat;
}

static int worse(const struct peak_freed *a, const struct peak_freed *b)
{
	return freed__cmp(a, b) > 0;
}

bool freed_heap__push(struct peak_freed *heap, size_t *cnt, size_t max, const struct peak_freed *f)
{
	if (*cnt < max) {
		heap[*cnt] = *f;
		heap_up(heap, *cnt, worse);
		++*cnt;
		return true;
	}
	if (max && worse(&heap[0], f)) {
		heap[0] = *f;
		heap_down(heap, max, 0, worse);
	}
	return false;
}
