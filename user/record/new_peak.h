/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * new_peak: whether a device holds so much more than ever before that the window is to be written (--on-new-peak).
 *
 * Peaks go in, from time to time; true comes out once for each, when it is over: nothing was higher for a second. For memory
 * that keeps rising, every ten seconds. Peaks at the beginning, while older memory is still being found, do not count.
 * Reads no clock; owns nothing.
 */
#ifndef MT_RECORD_NEW_PEAK_H
#define MT_RECORD_NEW_PEAK_H

#include <stdbool.h>
#include <stdint.h>

#define NEW_PEAK_SETTLE_NS 10000000000ull /* from the first look on */
#define NEW_PEAK_OVER_NS 1000000000ull
#define NEW_PEAK_PAUSE_NS 10000000000ull

struct new_peak {
	double share; /* to be above the last one that was reported; 0: none are wanted */
	uint64_t begin_ns, since_ns, risen_ns; /* since: one waits to be shown; 0: none does */
	uint64_t shown[256], seen[256]; /* by enum mt_dev */
};

/* The highest that a device has ever held. */
void new_peak__see(struct new_peak *h, uint8_t dev, uint64_t peak, uint64_t now_ns);
/* After all devices: now is the time to show it. */
bool new_peak__is_over(struct new_peak *h, uint64_t now_ns);

#endif
