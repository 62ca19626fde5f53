/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "record/high.h"

#include <string.h>

void high__see(struct high *h, uint8_t dev, uint64_t peak, uint64_t now_ns)
{
	h->begin_ns = h->begin_ns ? h->begin_ns : now_ns;
	if (peak <= h->seen[dev])
		return;
	h->seen[dev] = peak;
	if (now_ns - h->begin_ns < HIGH_SETTLE_NS) {
		h->shown[dev] = peak;
		return;
	}
	if ((double)peak < (double)h->shown[dev] * (1 + h->share))
		return;
	h->risen_ns = now_ns;
	h->since_ns = h->since_ns ? h->since_ns : now_ns;
}

bool high__is_over(struct high *h, uint64_t now_ns)
{
	if (!h->since_ns || (now_ns - h->risen_ns < HIGH_OVER_NS && now_ns - h->since_ns < HIGH_PAUSE_NS))
		return false;
	memcpy(h->shown, h->seen, sizeof(h->shown));
	h->since_ns = 0;
	return true;
}
