/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Stacks into a report: those with most bytes at the peak, and the sum of the others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

struct ranked_stack {
	struct report_stack sum;
	uint32_t node;
};

static void add_cell(struct report_stack *to, const struct tally_cell *c, uint64_t epoch)
{
	to->alloc_count += c->alloc_count;
	to->alloc_bytes += c->alloc_bytes;
	to->live_count += c->live_count;
	to->live += c->live;
	to->at_peak += cell__at_peak(c, epoch);
}

static void sum_row(const struct model *m, const struct tally *t, uint32_t row, struct report_stack *ret)
{
	bool host = model__counts_host(m);

	for (unsigned i = 0; i < m->devs_cnt; i++)
		if (dev_is_host(m->devs[i]->dev) == host && row < t->devs[i].cnt)
			add_cell(ret, &t->devs[i].cells[row], m->devs[i]->epoch);
}

static int by_peak(const void *pa, const void *pb)
{
	const struct ranked_stack *a = pa, *b = pb;

	return cmp_down(a->sum.at_peak, b->sum.at_peak) ?: cmp_down(a->sum.alloc_bytes, b->sum.alloc_bytes) ?:
	       cmp_up(a->node, b->node);
}

int model__frames(const struct model *m, uint32_t node, struct report_frame **ret, size_t *ret_cnt)
{
	size_t cnt = 0;

	for (uint32_t n = node; n; n = m->stacks.defs[n - 1].parent)
		cnt++;
	*ret = calloc(cnt + 1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (uint32_t n = node; n; n = m->stacks.defs[n - 1].parent) {
		const struct stack_def *d = &m->stacks.defs[n - 1];
		struct report_frame *f = &(*ret)[(*ret_cnt)++];

		*f = (struct report_frame){ .function = strdup(names__get(m->names, d->function)),
					    .file = strdup(names__get(m->names, d->file)), .line = d->line, .kind = d->kind };
		if (!f->function || !f->file)
			return -ENOMEM;
	}
	return 0;
}

/* All blocks of the layer that is counted, less those with a stack. */
static void no_stack(const struct model *m, const struct ranked_stack *all, size_t cnt, struct report_stack *ret)
{
	for (uint32_t row = 0; row < m->ops.cnt; row++)
		sum_row(m, &m->ops, row, ret);
	for (size_t i = 0; i < cnt; i++) {
		ret->alloc_count -= all[i].sum.alloc_count;
		ret->alloc_bytes -= all[i].sum.alloc_bytes;
		ret->live_count -= all[i].sum.live_count;
		ret->live -= all[i].sum.live;
		ret->at_peak -= all[i].sum.at_peak;
	}
}

int model__report_stacks(const struct model *m, size_t top, struct report_stacks *r)
{
	const struct tally *t = &m->stacks.tally;
	size_t total = t->cnt - 1u;
	struct ranked_stack *all = calloc(total + 1, sizeof(*all));
	int err = 0;

	r->rows = calloc((total < top ? total : top) + 1, sizeof(*r->rows));
	if (!all || !r->rows)
		err = -ENOMEM;
	for (uint32_t row = 1; !err && row < t->cnt; row++) {
		all[row - 1].node = t->rows[row].name.v;
		sum_row(m, t, row, &all[row - 1].sum);
	}
	if (!err) {
		qsort(all, total, sizeof(*all), by_peak);
		no_stack(m, all, total, &r->none);
		r->total = total;
	}
	for (; !err && r->cnt < total && r->cnt < top; r->cnt++) {
		r->rows[r->cnt] = all[r->cnt].sum;
		r->rows[r->cnt].node = all[r->cnt].node;
		err = model__frames(m, all[r->cnt].node, &r->rows[r->cnt].frames,
				    &r->rows[r->cnt].frames_cnt);
	}
	free(all);
	return err;
}
