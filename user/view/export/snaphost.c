/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/snaphost.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/spool.h"

struct host_row {
	uint64_t number, addr, size;
	uint32_t where; /* its process, as frames */
};

void snaphost__init(struct snaphost *h, struct snapframes *frames, int is_pickle, uint32_t *next_ref)
{
	*h = (struct snaphost){ .frames = frames, .next_ref = next_ref, .is_pickle = is_pickle,
				 .pinned = MAP_OF(struct host_row) };
}

void snaphost__done(struct snaphost *h)
{
	snapwrite__done(&h->w);
	if (h->spool)
		fclose(h->spool);
	map__done(&h->pinned);
}

static int put_entry(struct snaphost *h, enum word action, const struct host_row *row, uint64_t us)
{
	struct snapwrite *w = &h->w;

	if (!h->spool) {
		h->spool = spool_file();
		if (!h->spool)
			return -errno;
		if (snapwrite__init(w, h->spool, h->is_pickle, h->next_ref))
			return -ENOMEM;
	}
	snapwrite__item(w);
	snapwrite__open(w, '{');
	snap_word(w, W_ACTION, action);
	snap_u64(w, W_ADDR, row->addr);
	snap_u64(w, W_SIZE, row->size);
	snap_u64(w, W_STREAM, 0);
	snap_u64(w, W_TIME_US, us);
	snapframes__put(h->frames, w, row->where);
	snapwrite__close(w, '}');
	if (!h->is_pickle)
		outbuf__lit(&w->o, "\n");
	return w->o.err;
}

int snaphost__event(struct snaphost *h, const struct tl_event *ev, uint64_t us)
{
	struct host_row *row = ev->version ? map__put(&h->pinned, ev->id) : map__find(&h->pinned, ev->id);
	struct where where = { 0 };
	int r;

	if (!row)
		return ev->version ? -ENOMEM : 0;
	if (!ev->version) {
		r = put_entry(h, W_SEGMENT_FREE, row, us);
		map__remove(&h->pinned, row);
		return r;
	}
	row->addr = ev->ptr;
	row->size = ev->size;
	where.stack = stacks__at(h->frames->stacks, ev);
	row->where = snapframes__number(h->frames, &where);
	return put_entry(h, W_SEGMENT_ALLOC, row, us);
}

static int put_segments(struct snaphost *h, struct snapwrite *w)
{
	struct host_row *rows = calloc(h->pinned.cnt + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->pinned.cnt; i++)
		rows[i] = *(struct host_row *)map__at(&h->pinned, i);
	qsort(rows, h->pinned.cnt, sizeof(*rows), u64_cmp);
	for (uint32_t i = 0; i < h->pinned.cnt; i++) {
		snapwrite__item(w);
		snapwrite__open(w, '{');
		snap_u64(w, W_ADDRESS, rows[i].addr);
		snap_u64(w, W_TOTAL_SIZE, rows[i].size);
		snap_u64(w, W_ALLOCATED_SIZE, 0); /* its use is not seen */
		snapframes__put(h->frames, w, rows[i].where);
		snapwrite__close(w, '}');
	}
	free(rows);
	return 0;
}

int snaphost__put(struct snaphost *h, struct snapwrite *w)
{
	int r;

	w->items = 0;
	snap_key(w, W_HOST_SEGMENTS);
	snapwrite__open(w, '[');
	r = put_segments(h, w);
	snapwrite__close(w, ']');
	snap_key(w, W_HOST_TRACES);
	snapwrite__open(w, '[');
	if (h->spool && !r) {
		r = outbuf__flush(&h->w.o);
		r = r ? r : snapwrite__copy(w, h->spool);
	}
	snapwrite__close(w, ']');
	return r;
}
