/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* ranges: the used parts of an address space, neighbours joined. At most RANGES_MAX of them. */
#ifndef MT_VIEW_FOLD_RANGES_H
#define MT_VIEW_FOLD_RANGES_H

#include <stddef.h>
#include <stdint.h>

#define RANGES_MAX 1024
#define RANGES_GAP (32ull << 20) /* at first: nearer ones are joined; doubles when there is no more room */

struct range_used {
	uint64_t from, to; /* `to` is outside */
};

struct ranges {
	struct range_used r[RANGES_MAX + 1];
	size_t cnt, last;
	uint64_t gap;
};

void ranges__init(struct ranges *s);
void ranges__add(struct ranges *s, uint64_t from, uint64_t size);

#endif
