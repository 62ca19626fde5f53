/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "timeline/diff_before.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"

static double before_attach(const struct diff_side *s, enum diff_by by)
{
	uint64_t nobodys = by == DIFF_BY_STACK ? s->end->stacks.none.at_peak : s->end->ops.none.at_peak, late = 0;

	if (by != DIFF_BY_OP && by != DIFF_BY_REGION && by != DIFF_BY_STACK)
		return 0;
	for (size_t i = 0; i < s->end->devs_cnt; i++)
		late += s->end->devs[i].preexisting_bytes;
	return (double)(late < nobodys ? late : nobodys);
}

static double more_at_peak(const struct diff_row *r, int sign)
{
	double more = diff_row__change(r, DIFF_PEAK) * sign, a = r->a[DIFF_BYTES], b = r->b[DIFF_BYTES];

	return more > 0 && fabs(a - b) * DIFF_SAME_PART <= (a > b ? a : b) ? more : 0;
}

struct more {
	struct diff_row *row;
	double bytes;
};

static int by_bytes(const void *pa, const void *pb)
{
	const struct more *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return strcmp(a->row->name, b->row->name);
}

/* The larger one's, of all devices. */
static double peak_of(const struct diff_side *a, const struct diff_side *b)
{
	uint64_t x = 0, y = 0;

	for (size_t i = 0; i < a->end->devs_cnt; i++)
		x += a->end->devs[i].peak;
	for (size_t i = 0; i < b->end->devs_cnt; i++)
		y += b->end->devs[i].peak;
	return (double)(x > y ? x : y);
}

static bool was_attached(const struct diff_side *s)
{
	for (size_t i = 0; i < s->end->procs_cnt; i++)
		if (s->end->procs[i].how == EV_PROC_ATTACHED && s->end->procs[i].peak)
			return true;
	return false;
}

/* sign: of the change; 1: B has such bytes in rows. */
static int deal(struct diff *d, double bytes, int sign)
{
	struct more *all = calloc(d->cnt + 1, sizeof(*all));
	size_t cnt = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < d->cnt; i++) {
		all[cnt] = (struct more){ &d->rows[i], more_at_peak(&d->rows[i], sign) };
		cnt += all[cnt].bytes > 0;
	}
	qsort(all, cnt, sizeof(*all), by_bytes);
	for (size_t i = 0; i < cnt && all[i].bytes <= bytes; i++) {
		all[i].row->is_before = true;
		bytes -= all[i].bytes;
	}
	free(all);
	return 0;
}

static bool is_nobodys(const struct diff_row *r)
{
	return !strcmp(r->name, "(no operator open)") || !strcmp(r->name, "(no stack)");
}

/* Both parts stay in their order. */
static int before_last(struct diff *d)
{
	struct diff_row *sorted = calloc(d->cnt + 1, sizeof(*sorted));
	size_t cnt = 0;

	if (!sorted)
		return -ENOMEM;
	for (int last = 0; last < 2; last++)
		for (size_t i = 0; i < d->cnt; i++)
			if (d->rows[i].is_before == last)
				sorted[cnt++] = d->rows[i];
	free(d->rows);
	d->rows = sorted;
	return 0;
}

int diff__before(struct diff *d, const struct diff_side *a, const struct diff_side *b, enum diff_by by)
{
	double more;

	d->before_a = before_attach(a, by);
	d->before_b = before_attach(b, by);
	more = d->before_a - d->before_b;
	/* Where both were attached both have it: then what there is more of has grown. */
	if (was_attached(a) == was_attached(b) || fabs(more) * DIFF_SAME_PART < peak_of(a, b))
		return 0;
	for (size_t i = 0; i < d->cnt; i++) {
		double change = is_nobodys(&d->rows[i]) ? diff_row__change(&d->rows[i], DIFF_PEAK) : 0;

		d->rows[i].is_before = change * more < 0 && fabs(change) <= fabs(more);
	}
	return deal(d, fabs(more), more > 0 ? 1 : -1) ?: before_last(d);
}
