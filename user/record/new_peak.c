/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "record/new_peak.h"

#include <string.h>

void new_peak__see(struct new_peak *h, uint8_t dev, uint64_t peak, uint64_t now_ns)
{
	h->begin_ns = h->begin_ns ? h->begin_ns : now_ns;
	if (peak <= h->seen[dev])
		return;
	h->seen[dev] = peak;
	if (now_ns - h->begin_ns < NEW_PEAK_SETTLE_NS) {
		h->shown[dev] = peak;
		return;
	}
	if ((double)peak < (double)h->shown[dev] * (1 + h->share))
		return;
	h->risen_ns = now_ns;
	h->since_ns = h->since_ns ? h->since_ns : now_ns;
}

bool new_peak__is_over(struct new_peak *h, uint64_t now_ns)
{
	if (!h->since_ns || (now_ns - h->risen_ns < NEW_PEAK_OVER_NS && now_ns - h->since_ns < NEW_PEAK_PAUSE_NS))
		return false;
	memcpy(h->shown, h->seen, sizeof(h->shown));
	h->since_ns = 0;
	return true;
}
