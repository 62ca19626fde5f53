/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/data.h"

#include <errno.h>
#include <string.h>

#include "view/report_words.h"
#include "view/tui/ui.h"

#define RATE_NS 1000000000ull /* faster changing numbers cannot be read */

const struct tui_dev_data *tui_data__dev(const struct tui_data *d, uint8_t dev)
{
	for (size_t i = 0; i < d->devs_cnt; i++)
		if (d->devs[i].dev == dev)
			return &d->devs[i];
	return NULL;
}

static int tui_data__dev_of(struct tui_data *d, uint8_t dev, struct tui_dev_data **ret)
{
	struct tui_hist *hist;

	for (size_t i = 0; i < d->devs_cnt; i++)
		if (d->devs[i].dev == dev) {
			*ret = &d->devs[i];
			return 0;
		}
	*ret = NULL;
	if (d->devs_cnt == TUI_DEVS_MAX)
		return 0;
	hist = tui_hist__new();
	if (!hist)
		return -ENOMEM;
	*ret = &d->devs[d->devs_cnt++];
	**ret = (struct tui_dev_data){ .dev = dev, .hist = hist };
	return 0;
}

int tui_data__sample(struct tui_data *d, const struct report *r)
{
	for (size_t i = 0; i < r->devs_cnt; i++) {
		struct tui_dev_data *dev;
		int err = tui_data__dev_of(d, r->devs[i].dev, &dev);

		if (err)
			return err;
		if (dev)
			tui_hist__add_report(dev->hist, r, &r->devs[i]);
	}
	return 0;
}

/* Per second; counters that went back count as 0. */
static double rate(uint64_t before, uint64_t now, uint64_t ns)
{
	return ns && now >= before ? (double)(now - before) * 1e9 / (double)ns : 0;
}

static void tui_data__rates(struct tui_data *d, const struct report *r)
{
	uint64_t since = d->looked_ns ? d->looked_ns : r->run.start_ts_ns, events = report_events_sum(r), ns;

	if (r->run.end_ts_ns < since + RATE_NS)
		return;
	ns = r->run.end_ts_ns - since;
	d->steps_s = rate(d->steps, r->marks.steps_total, ns);
	d->events_s = rate(d->events, events, ns);
	d->steps = r->marks.steps_total;
	d->events = events;
	d->looked_ns = r->run.end_ts_ns;
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *from = &r->devs[i];
		struct tui_dev_data *dev;

		if (tui_data__dev_of(d, from->dev, &dev) || !dev)
			continue;
		dev->allocs_s = rate(dev->allocs, from->allocs, ns);
		dev->frees_s = rate(dev->frees, from->frees, ns);
		dev->allocs = from->allocs;
		dev->frees = from->frees;
	}
}

int tui_data__add(struct tui_data *d, struct report *r, int with_rates)
{
	report__free(d->now);
	d->now = r;
	if (with_rates)
		tui_data__rates(d, r);
	return tui_data__sample(d, r);
}

void tui_data__mark(struct tui_data *d)
{
	if (!d->now)
		return;
	if (d->marks_cnt == TUI_MARKS_MAX)
		memmove(d->marks, d->marks + 1, --d->marks_cnt * sizeof(d->marks[0]));
	d->marks[d->marks_cnt++] = d->now->run.end_ts_ns - d->now->run.start_ts_ns;
}

const struct report *tui_data__then(const struct tui_data *d, const struct tui_ui *ui)
{
	return ui->is_held && ui->has_moment && d->has_then ? d->then : NULL;
}

void tui_data__done(struct tui_data *d)
{
	report__free(d->then);
	report__free(d->now);
	for (size_t i = 0; i < d->devs_cnt; i++)
		tui_hist__free(d->devs[i].hist);
	memset(d, 0, sizeof(*d));
}
