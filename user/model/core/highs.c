/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/highs.h"

#include <string.h>

#include "model/core/check.h"
#include "model/core/device.h"

void highs__take(struct device *d, uint64_t ts_ns, uint64_t clock_ns)
{
	struct highs *h = &d->highs;
	struct high_moment *to;

	if (gaps__is_open(d->gaps))
		return;
	if (ts_ns >= h->end_ns) {
		h->at = (h->at + 1) % REPORT_HIGHS;
		h->end_ns = ts_ns - ts_ns % REPORT_HIGH_NS + REPORT_HIGH_NS;
	}
	to = &h->v[h->at];
	to->ts_ns = ts_ns;
	to->clock_ns = clock_ns;
	to->live = d->live;
	for (int c = 0; c < CAT_MAX; c++)
		to->cats[c] = d->cats[c].live;
}

/* Whether a block ended in that same nanosecond is not known: no more is taken from a label than it has. */
void highs__relabel(struct highs *h, uint8_t from, uint8_t to, uint64_t size, uint64_t a_ns, uint64_t b_ns)
{
	for (unsigned i = 0; i < REPORT_HIGHS; i++) {
		struct high_moment *k = &h->v[(h->at + REPORT_HIGHS - i) % REPORT_HIGHS];
		uint64_t part = size < k->cats[from] ? size : k->cats[from];

		if (k->clock_ns < a_ns) /* older ones, too */
			return;
		if (k->clock_ns >= b_ns)
			continue;
		k->cats[from] -= part;
		k->cats[to] += part;
	}
}

unsigned highs__report(const struct highs *h, uint64_t now_ns, struct report_high ret[REPORT_HIGHS])
{
	unsigned cnt = 0;

	for (unsigned i = 1; i <= REPORT_HIGHS; i++) {
		const struct high_moment *k = &h->v[(h->at + i) % REPORT_HIGHS];

		if (!k->ts_ns || (now_ns > k->ts_ns && now_ns - k->ts_ns > REPORT_HIGHS * REPORT_HIGH_NS))
			continue;
		ret[cnt].ts_ns = k->ts_ns;
		memcpy(ret[cnt++].cats, k->cats, sizeof(k->cats));
	}
	return cnt;
}

void highs__check(const struct highs *h)
{
	for (unsigned i = 0; i < REPORT_HIGHS; i++) {
		uint64_t sum = 0;

		for (int c = 0; c < CAT_MAX; c++)
			sum += h->v[i].cats[c];
		mt_check(sum == h->v[i].live);
	}
}
