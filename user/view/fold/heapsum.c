/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A cell remembers the peak as the model's devices do: at its first change after a new peak, never at the peak itself. */
#include "view/fold/heapsum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "base/seed.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/fold/highest.h"

struct heap_dev {
	struct highest highest;
	uint64_t epoch;
};

struct heapsum {
	const struct export_to *to;
	struct live *live;
	struct stacks *stacks;
	struct heap_cell *cells;
	uint32_t cells_cnt, cells_cap;
	struct index by_stack; /* and category, and device */
	struct heap_dev devs[256];
};

struct heapsum *heapsum__new(const struct export_to *to)
{
	struct heapsum *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->to = to;
	h->live = live__new(to->labels);
	h->stacks = stacks__new(NULL);
	if (!h->live || !h->stacks || !array_has_room(h->cells, 0, h->cells_cap, 1024)) {
		heapsum__free(h);
		return NULL;
	}
	return h;
}

void heapsum__free(struct heapsum *h)
{
	if (!h)
		return;
	live__free(h->live);
	stacks__free(h->stacks);
	index__done(&h->by_stack);
	free(h->cells);
	free(h);
}

const struct stacks *heapsum__stacks(const struct heapsum *h)
{
	return h->stacks;
}

const struct heap_cell *heapsum__cells(const struct heapsum *h, size_t *ret_cnt)
{
	*ret_cnt = h->cells_cnt;
	return h->cells;
}

/* NULL: no memory. Beyond the last cell, one without a stack. */
static struct heap_cell *heapsum__cell(struct heapsum *h, uint32_t stack, uint8_t cat, uint8_t dev)
{
	uint64_t hash = hash_u64((uint64_t)stack << 16 | (uint64_t)cat << 8 | dev);
	uint32_t at = index_find(&h->by_stack, hash, i,
				 h->cells[i].stack == stack && h->cells[i].cat == cat && h->cells[i].dev == dev);

	if (at != INDEX_NONE)
		return &h->cells[at];
	if (h->cells_cnt >= HEAPSUM_MAX && stack)
		return heapsum__cell(h, 0, cat, dev);
	if (!array_has_room(h->cells, h->cells_cnt, h->cells_cap, 1024) || index__add(&h->by_stack, hash, h->cells_cnt) < 0)
		return NULL;
	h->cells[h->cells_cnt] = (struct heap_cell){ .stack = stack, .cat = cat, .dev = dev, .epoch = h->devs[dev].epoch };
	return &h->cells[h->cells_cnt++];
}

static int heapsum__move(struct heapsum *h, const struct live_block *b, uint8_t cat, int sign)
{
	struct heap_cell *c = heapsum__cell(h, b->tag, cat, b->dev);

	if (!c)
		return -ENOMEM;
	if (c->epoch != h->devs[b->dev].epoch) {
		c->at_peak = c->live;
		c->epoch = h->devs[b->dev].epoch;
	}
	c->live += sign > 0 ? b->size : 0 - b->size;
	return 0;
}

static int heapsum__allocated(struct heapsum *h, const struct tl_event *ev, struct live_block *b)
{
	struct heap_cell *c;

	/* A block seen late has only its process as stack, unless a recording that begins later has one. */
	b->tag = stacks__at(h->stacks, ev);
	c = heapsum__cell(h, b->tag, b->cat, b->dev);
	if (!c)
		return -ENOMEM;
	if (!b->late) {
		c->alloc_bytes += b->size;
		c->alloc_count++;
	}
	return 0;
}

static void heapsum__gap(struct heapsum *h, const struct tl_event *ev)
{
	for (unsigned i = 0; i < sizeof(h->devs) / sizeof(h->devs[0]); i++)
		h->devs[i].epoch += highest__gap(&h->devs[i].highest, ev->version, ev->ts_ns);
}

int heapsum__event(struct heapsum *h, const struct tl_event *ev)
{
	struct heap_dev *d = &h->devs[ev->dev];
	struct live_change ch;
	int r;

	if (ev->kind == TL_GAP)
		heapsum__gap(h, ev);
	if (ev->kind == TL_NODE || ev->kind == TL_FINAL || ev->kind == TL_LEARNED || ev->kind == TL_GAP)
		return 0;
	stacks__event(h->stacks, ev);
	if (!export_wants_dev(h->to, ev->dev))
		return 0;
	r = live__event(h->live, ev, &ch);
	if (r <= 0)
		return r;
	if (ch.from == CAT_MAX)
		r = heapsum__allocated(h, ev, ch.b);
	if (r >= 0 && ch.from < CAT_MAX)
		r = heapsum__move(h, ch.b, ch.from, -1);
	if (r >= 0 && ch.to < CAT_MAX)
		r = heapsum__move(h, ch.b, ch.to, 1);
	d->epoch += highest__move(&d->highest, ch.from == CAT_MAX ? ch.b->size : 0, ch.to == CAT_MAX ? ch.b->size : 0,
				  ev->ts_ns, report_peak_ts_ns(h->to->report, ev->dev));
	return r < 0 ? r : 0;
}

void heapsum__end(struct heapsum *h)
{
	for (uint32_t i = 0; i < h->cells_cnt; i++)
		if (h->cells[i].epoch != h->devs[h->cells[i].dev].epoch)
			h->cells[i].at_peak = h->cells[i].live;
}

size_t heapsum_process(const struct export_to *to, uint32_t pid, char *buf, size_t size)
{
	const struct report *r = to->report;
	size_t len = (size_t)snprintf(buf, size, "process %u", pid);

	for (size_t i = 0; r && i < r->procs_cnt; i++)
		if (r->procs[i].pid == pid && r->procs[i].comm && r->procs[i].comm[0]) {
			buf[len++] = ' ';
			return len + clean_text(buf + len, size - len, r->procs[i].comm, strlen(r->procs[i].comm));
		}
	return len;
}
