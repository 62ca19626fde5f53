/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Functions that are not called for every event. device.h explains how a peak keeps its composition. */
#include "model/core/device.h"

#include <stdlib.h>

struct device *device__new(uint8_t dev, unsigned idx, uint64_t start_ts_ns, const struct gaps *gaps)
{
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->dev = dev;
	d->idx = idx;
	d->gaps = gaps;
	d->sampled.high = UINT64_MAX;
	for (int c = 0; c < CAT_MAX; c++)
		d->cats[c].since_ns = start_ts_ns;
	series_acc__init(&d->series, start_ts_ns);
	if (peak__init(&d->peak_blocks) < 0) {
		device__free(d);
		return NULL;
	}
	return d;
}

void device__free(struct device *d)
{
	if (!d)
		return;
	peak__done(&d->peak_blocks);
	free(d->sampled.v);
	free(d->between);
	free(d);
}

/* What lived when the gap before ended is nothing to begin with. No memory: nothing is shown. */
void device__see_between(struct device *d, uint64_t ts_ns)
{
	if (!d->between) {
		d->between = malloc(sizeof(*d->between));
		if (!d->between)
			return;
		series_acc__init(d->between, d->series.t0_ns);
	}
	d->between->live = 0;
	series_acc__set(d->between, ts_ns, d->live);
}

void device__seen_between(struct device *d, uint64_t ts_ns)
{
	if (d->between && gaps__is_open(d->gaps) && gaps__sees(d->gaps))
		series_acc__set(d->between, ts_ns, d->between->live);
}

uint64_t device_cat__at_peak(const struct device_cat *c, uint64_t epoch)
{
	return c->epoch == epoch ? c->at_peak : c->live;
}

static unsigned __int128 device_cat__integral(const struct device_cat *c, uint64_t clock_ns)
{
	return c->byte_ns + (unsigned __int128)c->live * (clock_ns - c->since_ns);
}

static uint64_t saturate(unsigned __int128 v)
{
	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

uint64_t device_cat__byte_ns(const struct device_cat *c, uint64_t clock_ns)
{
	return saturate(device_cat__integral(c, clock_ns));
}

/* Every byte of the device has one category, so its integral is their sum. */
uint64_t device__byte_ns(const struct device *d, uint64_t clock_ns)
{
	unsigned __int128 sum = 0;

	for (int c = 0; c < CAT_MAX; c++) {
		unsigned __int128 v = device_cat__integral(&d->cats[c], clock_ns);

		if (__builtin_add_overflow(sum, v, &sum))
			return UINT64_MAX;
	}
	return saturate(sum);
}

void device__raise(struct device *d, uint64_t nobodys, uint64_t newest_id, uint64_t ts_ns)
{
	device__show(d, ts_ns);
	device__see_high(d, ts_ns, gaps__clock(d->gaps, ts_ns));
	if (d->live <= d->peak)
		return;
	d->peak = d->live;
	d->peak_ts_ns = ts_ns;
	d->peak_known = device__known(d, nobodys);
	d->epoch++;
	peak__reached(&d->peak_blocks, newest_id);
}
