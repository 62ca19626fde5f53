/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * device: the numbers of one device: live, peak, counts, integrals, series.
 *
 * The peak's make-up costs O(1) an event. `epoch` counts the peaks. Everything that has a share of
 * the device's live bytes (a category, a cell of a tally) carries the epoch at which it last
 * changed: if that is older than the device's, the share at the peak is the share still held now,
 * and is written down before the next change. So a new peak touches nothing but its own counter.
 */
#ifndef MT_MODEL_DEVICE_H
#define MT_MODEL_DEVICE_H

#include "model/core/peak.h"
#include "timeline/series.h"
#include "timeline/timeline.h"

struct device_cat {
	uint64_t live, at_peak, epoch;
	uint64_t since_ts_ns; /* byte_ns is right up to here */
	unsigned __int128 byte_ns; /* cannot overflow: 64 bits of bytes × 64 bits of time */
};

struct device {
	uint8_t dev; /* enum mt_dev */
	unsigned idx;
	uint64_t live, live_cnt;
	uint64_t peak, peak_ts_ns, epoch;
	uint64_t allocs, frees, alloc_bytes, free_bytes;
	uint64_t carried, carried_bytes; /* of met, those that EV_WAS told */
	uint64_t met, met_bytes; /* preexisting ones first met as a tensor: part of live from then on */
	uint64_t preexisting_frees, dropped, dropped_bytes, ooms, oom_bytes_last;
	struct device_cat cats[CAT_MAX];
	struct peak peak_blocks;
	struct series_acc series;
};

struct device *device__new(uint8_t dev, unsigned idx, uint64_t start_ts_ns); /* NULL: no memory */
void device__free(struct device *d);
uint64_t device_cat__at_peak(const struct device_cat *c, uint64_t epoch);
/* Integral up to a time, saturated. */
uint64_t device_cat__byte_ns(const struct device_cat *c, uint64_t ts_ns);
uint64_t device__byte_ns(const struct device *d, uint64_t ts_ns);

static inline void device_cat__settle(struct device_cat *c, uint64_t epoch, uint64_t ts_ns)
{
	c->byte_ns += (unsigned __int128)c->live * (ts_ns - c->since_ts_ns);
	c->since_ts_ns = ts_ns;
	if (c->epoch != epoch) {
		c->at_peak = c->live;
		c->epoch = epoch;
	}
}

/* After the tallies were told, with the epoch as it was: a new peak ends that epoch. */
static inline void device__add(struct device *d, const struct block *b, uint64_t ts_ns)
{
	struct device_cat *c = &d->cats[b->cat];

	device_cat__settle(c, d->epoch, ts_ns);
	c->live += b->size;
	d->live += b->size;
	d->live_cnt++;
	if (d->live > d->peak) {
		d->peak = d->live;
		d->peak_ts_ns = ts_ns;
		d->epoch++;
		peak__reached(&d->peak_blocks, b->id);
	}
	series_acc__set(&d->series, ts_ns, d->live);
}

static inline void device__born(struct device *d, const struct block *b, uint64_t ts_ns)
{
	d->allocs++;
	d->alloc_bytes += b->size;
	device__add(d, b, ts_ns);
}

static inline void device__died(struct device *d, const struct block *b, uint64_t ts_ns)
{
	struct device_cat *c = &d->cats[b->cat];

	device_cat__settle(c, d->epoch, ts_ns);
	c->live -= b->size;
	d->live -= b->size;
	d->live_cnt--;
	peak__freed(&d->peak_blocks, b, ts_ns);
	series_acc__set(&d->series, ts_ns, d->live);
}

#endif
