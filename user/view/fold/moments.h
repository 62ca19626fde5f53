/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * moments: the composition of memory, in a bounded number of true moments. Time is cut into buckets of equal
 * width; of each, the first change, the lowest, the highest and the last one are kept as they were,
 * so that a line through them is the line through all changes at that width, and the peak is exact: its time,
 * its sum and its parts. Around one moment (the peak, known from a first pass) every change is kept.
 *
 * Moments in gaps (moments__gap) have four places of their own in a bucket: they do not displace what was traced.
 *
 * A time that goes back counts as the last one. Holds at most 8 × buckets + 2 × near + 1 moments of 128 bytes.
 */
#ifndef MT_VIEW_FOLD_MOMENTS_H
#define MT_VIEW_FOLD_MOMENTS_H

#include <stddef.h>

#include "timeline/timeline.h"

struct moment {
	uint64_t ts_ns, live;
	uint64_t cats[CAT_MAX];
	uint64_t in_gap; /* 1: it is; a word of its own, because moments are compared byte by byte */
};

struct moments_opts {
	uint64_t from_ns, to_ns; /* times outside count as in the first or last bucket */
	uint32_t buckets;	 /* at least 1 */
	uint64_t around_ns;	 /* every change … */
	uint32_t near;		 /* … of this many before it, and as many after; 0: none */
};

struct moments;

struct moments *moments__new(const struct moments_opts *opts); /* NULL: no memory */
void moments__free(struct moments *m);			       /* NULL is fine */
/* From ts on, `size` bytes count under `to` and no more under `from`; CAT_MAX: they came, they went. */
void moments__move(struct moments *m, uint64_t ts_ns, uint8_t from, uint8_t to, uint64_t size);
/* Keeps the present moment, besides others, until the next call; none where nothing is seen. */
void moments__hold(struct moments *m);
/* A gap begins, or ends: moments in one are no peak (highest.h), and kept only until seen_ns, if that is later. */
void moments__gap(struct moments *m, uint64_t ts_ns, int begins, uint64_t seen_ns);
/*
 * In gaps, `size` bytes count under `to` instead of `from`: learned, not measured (docs/sampling.md). Before the move that
 * brings them, and back before the one that takes them away.
 */
void moments__learned(struct moments *m, uint8_t from, uint8_t to, uint64_t size);
/* All of them by time; nothing may move from here on. NULL: no memory. */
const struct moment *moments__end(struct moments *m, size_t *ret_cnt);
const struct moment *moments__now(const struct moments *m);
/* The moment with the highest sum, of several the last one up to around_ns, else the first; ts_ns 0: there was never a byte. */
const struct moment *moments__peak(const struct moments *m);
/* Where every change is kept: 1 and the times of the first and the last, or 0. */
int moments__near(const struct moments *m, uint64_t *ret_from_ns, uint64_t *ret_to_ns);

#endif
