/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What each process holds on each device, by category. Nothing is counted for it while events come: it is summed over the live
 * blocks when a report is asked for (7 to 15 ns a block of a million), and not even that while one process alone has any, for
 * then its parts are the devices'.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/seed.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

#define SLOTS (2 * REPORT_LANES_MAX)

struct lanes {
	struct report_lane *rows;
	size_t cnt;
	uint16_t slots[SLOTS]; /* row + 1; 0 = empty */
};

/* Its row, made if need be; that of pid 0 once only as many rows are free as there are devices. */
static struct report_lane *lanes__row(struct lanes *l, uint32_t pid, uint8_t dev)
{
	uint32_t at = (uint32_t)hash_u64((uint64_t)pid << 8 | dev) % SLOTS;

	for (; l->slots[at]; at = (at + 1) % SLOTS) {
		struct report_lane *row = &l->rows[l->slots[at] - 1];

		if (row->pid == pid && row->dev == dev)
			return row;
	}
	if (pid && l->cnt >= REPORT_LANES_MAX - TALLY_DEVS_MAX)
		return lanes__row(l, 0, dev);
	l->rows[l->cnt] = (struct report_lane){ .pid = pid, .dev = dev };
	l->slots[at] = (uint16_t)(l->cnt + 1);
	return &l->rows[l->cnt++];
}

static void lanes__sum(struct lanes *l, const struct blocks *blocks)
{
	struct report_lane *row = NULL;
	const struct block *b;
	size_t pos = 0;

	while ((b = blocks__next(blocks, &pos))) {
		uint32_t pid = b->unlisted ? 0 : b->pid;

		if (!row || row->pid != pid || row->dev != b->dev)
			row = lanes__row(l, pid, (uint8_t)b->dev);
		row->cats[b->cat] += b->size;
	}
}

/* The one process that holds blocks, or NULL: none, or several. */
static const struct proc *only_owner(const struct procs *ps)
{
	const struct proc *p, *found = NULL;

	if (ps->other.live_cnt)
		return NULL;
	TAILQ_FOREACH(p, &ps->all, all) {
		if (p->live_cnt && found)
			return NULL;
		found = p->live_cnt ? p : found;
	}
	return found;
}

static int by_pid_and_dev(const void *pa, const void *pb)
{
	const struct report_lane *a = pa, *b = pb;

	return cmp_up(a->pid, b->pid) ?: cmp_up(a->dev, b->dev);
}

int model__report_lanes(const struct model *m, struct report_lanes *r)
{
	const struct proc *p = only_owner(&m->procs);
	struct lanes *l = calloc(1, sizeof(*l));

	r->rows = calloc(REPORT_LANES_MAX, sizeof(*r->rows)); /* pages are taken when touched */
	if (!l || !r->rows) {
		free(l);
		return -ENOMEM;
	}
	l->rows = r->rows;
	for (unsigned i = 0; p && i < m->devs_cnt; i++) {
		const struct device *d = m->devs[i];

		for (unsigned c = 0; d->live_cnt && c < CAT_MAX; c++)
			lanes__row(l, p->pid, d->dev)->cats[c] = d->cats[c].live;
	}
	if (!p)
		lanes__sum(l, m->blocks);
	r->cnt = l->cnt;
	qsort(r->rows, r->cnt, sizeof(*r->rows), by_pid_and_dev);
	free(l);
	return 0;
}
