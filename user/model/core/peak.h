/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * peak: the blocks of a device's peak.
 *
 * Ids grow with allocation, so a live block was there at the peak iff its id is at most the last one
 * given out by then. Of those freed since, the PEAK_FREED_MAX largest are kept (ties: the older).
 * A new peak drops them at once: they were freed before it.
 */
#ifndef MT_MODEL_PEAK_H
#define MT_MODEL_PEAK_H

#include "base/array.h"
#include "base/names.h"
#include "model/core/blocks.h"

#define PEAK_FREED_MAX 1024

struct peak_freed { /* begins with block: freed__cmp */
	struct block block;
	uint64_t freed_ts_ns;
	name_id key, path; /* what Python called it (struct tensor); none: not known */
};

struct peak {
	uint64_t last_id;	 /* last id given out when the peak was reached */
	uint64_t missed;	 /* freed since the peak, live at it, and not kept */
	struct peak_freed *heap; /* PEAK_FREED_MAX of room; the least worth keeping is on top */
	size_t cnt;
};

int peak__init(struct peak *p); /* 0 or -ENOMEM */
void peak__done(struct peak *p);
void peak__push(struct peak *p, const struct block *b, uint64_t ts_ns);
/* Of one that was freed just now, if it is kept. */
void peak__name(struct peak *p, uint64_t id, name_id key, name_id path);
void peak__relabel(struct peak *p, uint64_t id, uint8_t cat); /* of one that was freed, if it is kept */

static inline void peak__reached(struct peak *p, uint64_t last_id)
{
	p->last_id = last_id;
	p->missed = 0;
	p->cnt = 0;
}

static inline void peak__freed(struct peak *p, const struct block *b, uint64_t ts_ns)
{
	if (b->id <= p->last_id)
		peak__push(p, b, ts_ns);
}

/* For qsort, in the order of a report: larger first, then older. */
static inline int freed__cmp(const void *pa, const void *pb)
{
	const struct block *a = pa, *b = pb;

	return cmp_down(a->size, b->size) ?: cmp_up(a->id, b->id);
}

/* A bounded heap of blocks, the last one in that order on top: keeps the `max` first ones. */
/* False: one was left out. */
bool freed_heap__push(struct peak_freed *heap, size_t *cnt, size_t max, const struct peak_freed *f);

#endif
