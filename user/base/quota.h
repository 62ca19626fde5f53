/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * quota: how much one of many may have of a table that all share: a part of what the others leave. So nobody fills it alone,
 * whoever comes later finds room, and who is alone has most of it. docs/losses.md lists the tables.
 */
#ifndef MT_BASE_QUOTA_H
#define MT_BASE_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

/* One more for who has `has` of the `used` places of `max`: it has 1/part of what the others leave at most. */
static inline bool quota_allows(size_t has, size_t used, size_t max, size_t part)
{
	size_t others = used > has ? used - has : 0;

	return used < max && has < (max - others) / part;
}

/* The same for `more` at once. */
static inline bool quota_allows_more(size_t has, size_t more, size_t used, size_t max, size_t part)
{
	size_t others = used > has ? used - has : 0;

	return others < max && more <= max && has + more <= (max - others) / part;
}

#endif
