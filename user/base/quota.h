/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * quota: how much of a shared table one user of it may have: a part of what the others leave. So none fills it alone, later
 * ones find room, and a single one has most of it. docs/losses.md lists the tables.
 */
#ifndef MT_BASE_QUOTA_H
#define MT_BASE_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

/* One more for a user with `has` of the `used` places of `max`: at most 1/part of what the others leave. */
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
