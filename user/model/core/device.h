/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * device: the numbers of one device: live, peak, counts, integrals, series.
 *
 * The peak's composition costs O(1) an event. `epoch` counts the peaks. Everything that has a share of
 * the device's live bytes (a category, a cell of a tally) carries the epoch at which it last
 * changed: if that is older than the device's, its share at the peak is its present share,
 * which is stored before the next change. So a new peak changes nothing but its own counter.
 *
 * Steps that do the same reach the same height to the byte, and the first one is known least: modules and categories have
 * not been learned yet, and categories that seem known may be wrong until Python was read. So an equal height becomes the peak
 * if more is known of its bytes.
 */
#ifndef MT_MODEL_DEVICE_H
#define MT_MODEL_DEVICE_H

#include <stdbool.h>

#include "model/core/gaps.h"
#include "model/core/highs.h"
#include "model/core/peak.h"
#include "model/core/sampled.h"
#include "timeline/series.h"
#include "timeline/timeline.h"

struct device_cat {
	uint64_t live, at_peak, epoch;
	uint64_t traced_live; /* when the last gap began */
	uint64_t since_ns; /* byte_ns is right up to here, by the clock of gaps */
	unsigned __int128 byte_ns; /* cannot overflow: 64 bits of bytes × 64 bits of time */
};

struct device {
	uint8_t dev; /* enum mt_dev */
	unsigned idx;
	uint64_t live, live_cnt;
	uint64_t peak, peak_ts_ns, epoch;
	uint64_t named; /* live bytes of lasting blocks that Python has a name for: parameters, buffers, state */
	uint64_t peak_known; /* device__known() when it was reached */
	uint64_t allocs, frees, alloc_bytes, free_bytes;
	uint64_t carried, carried_bytes; /* of late, those reported by EV_WAS */
	uint64_t late, late_bytes; /* preexisting ones first seen as a tensor: part of live from then on */
	uint64_t unseen, unseen_bytes; /* of dropped, those that ended in a gap */
	uint64_t preexisting_frees, dropped, dropped_bytes, ooms, oom_bytes_last;
	struct device_cat cats[CAT_MAX];
	int64_t plain[CAT_MAX]; /* of blocks that the graph has removed, as in graph__plain() … */
	uint64_t plain_epoch;	  /* … at this peak */
	struct peak peak_blocks;
	struct series_acc series;   /* of what was traced */
	struct series_acc *between; /* of gaps in which allocations are seen; NULL until there is one */
	struct highs highs;
	struct sampled_dev sampled; /* in traced steps of a sampled recording */
	const struct gaps *gaps; /* borrowed */
};

struct device *device__new(uint8_t dev, unsigned idx, uint64_t start_ts_ns, const struct gaps *gaps); /* NULL: no memory */
void device__free(struct device *d);
uint64_t device_cat__at_peak(const struct device_cat *c, uint64_t epoch);
/* Integral up to a time by the clock of gaps, saturated. */
uint64_t device_cat__byte_ns(const struct device_cat *c, uint64_t clock_ns);
uint64_t device__byte_ns(const struct device *d, uint64_t clock_ns);
/* A gap is over: live bytes may be more than ever in traced time. newest_id: the newest block's. */
void device__raise(struct device *d, uint64_t nobodys, uint64_t newest_id, uint64_t ts_ns);

static inline void device_cat__settle(struct device_cat *c, uint64_t epoch, uint64_t clock_ns)
{
	c->byte_ns += (unsigned __int128)c->live * (clock_ns - c->since_ns);
	c->since_ns = clock_ns;
	if (c->epoch != epoch) {
		c->at_peak = c->live;
		c->epoch = epoch;
	}
}

/* Allocations are seen from now on in the gap that is open; … no longer: what lived until now is shown. */
void device__see_between(struct device *d, uint64_t ts_ns);
void device__seen_between(struct device *d, uint64_t ts_ns);

/* Live bytes in a gap are not known, and not shown, unless allocations are seen there: then apart from what was traced. */
static inline void device__show(struct device *d, uint64_t ts_ns)
{
	if (!gaps__is_open(d->gaps))
		series_acc__set(&d->series, ts_ns, d->live);
	else if (d->between && gaps__sees(d->gaps))
		series_acc__set(d->between, ts_ns, d->live);
}

/* A gap begins. */
static inline void device__hide(struct device *d)
{
	for (int c = 0; c < CAT_MAX; c++)
		d->cats[c].traced_live = d->cats[c].live;
}

/* In a gap, once something was traced: bytes allocated since it began are not shown. */
static inline bool device__hides(const struct device *d)
{
	return gaps__is_open(d->gaps) && d->peak;
}

/* Live bytes of a category to report: in a gap no more than when it began, and so never above a peak of traced time. */
static inline uint64_t device__live_of(const struct device *d, int c)
{
	bool hidden = device__hides(d) && d->cats[c].traced_live < d->cats[c].live;

	return hidden ? d->cats[c].traced_live : d->cats[c].live;
}

/* Live bytes whose category is known, those whose module is (`nobodys` are of none), and those that Python has named. */
static inline uint64_t device__known(const struct device *d, uint64_t nobodys)
{
	return d->live - d->cats[CAT_UNKNOWN].live + d->live - nobodys + d->named;
}

/* After a block came, before one goes. */
static inline void device__see_high(struct device *d, uint64_t ts_ns, uint64_t clock_ns)
{
	if (__builtin_expect(ts_ns >= d->highs.end_ns || d->live > d->highs.v[d->highs.at].live, 0))
		highs__take(d, ts_ns, clock_ns);
}

/*
 * After the tallies, which need the old epoch: a new peak ends it. `nobodys`: live bytes of no module. True if this is the
 * peak from now on.
 */
static inline bool device__add(struct device *d, const struct block *b, uint64_t nobodys, uint64_t ts_ns)
{
	struct device_cat *c = &d->cats[b->cat];
	bool is_peak;

	device_cat__settle(c, d->epoch, gaps__clock(d->gaps, ts_ns));
	c->live += b->size;
	d->live += b->size;
	d->live_cnt++;
	is_peak = !gaps__is_open(d->gaps) &&
		  (d->live > d->peak || (d->live == d->peak && device__known(d, nobodys) > d->peak_known));
	if (is_peak) {
		d->peak = d->live;
		d->peak_ts_ns = ts_ns;
		d->peak_known = device__known(d, nobodys);
		d->epoch++;
		peak__reached(&d->peak_blocks, b->id);
	}
	device__see_high(d, ts_ns, gaps__clock(d->gaps, ts_ns));
	if (__builtin_expect(d->live > d->sampled.high, 0))
		sampled__peak(d, gaps__clock(d->gaps, ts_ns));
	device__show(d, ts_ns);
	return is_peak;
}

static inline bool device__allocated(struct device *d, const struct block *b, uint64_t nobodys, uint64_t ts_ns)
{
	d->allocs++;
	d->alloc_bytes += b->size;
	return device__add(d, b, nobodys, ts_ns);
}

static inline void device__freed(struct device *d, const struct block *b, uint64_t ts_ns)
{
	struct device_cat *c = &d->cats[b->cat];
	uint64_t clock_ns = gaps__clock(d->gaps, ts_ns);

	device__see_high(d, ts_ns, clock_ns ? clock_ns - 1 : 0); /* when the block still lived */
	device_cat__settle(c, d->epoch, clock_ns);
	c->live -= b->size;
	d->live -= b->size;
	d->live_cnt--;
	peak__freed(&d->peak_blocks, b, ts_ns);
	device__show(d, ts_ns);
}

#endif
