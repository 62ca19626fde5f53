/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * array: room for one more in an array whose owner keeps it as a pointer, a count and a capacity, all 0 at first; and the
 * order of arrays whose elements are, or begin with, a number.
 */
#ifndef MT_BASE_ARRAY_H
#define MT_BASE_ARRAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes it twice as large where it is full, `first` entries to begin with. false: no memory; then it is as it was. */
#define array_has_room(v, cnt, cap, first)                                               \
	__extension__({                                                                  \
		bool has_room_ = (cnt) < (cap);                                          \
                                                                                         \
		if (!has_room_) {                                                        \
			size_t more_ = (cap) ? 2 * (size_t)(cap) : (first);              \
			void *all_ = reallocarray((v), more_, sizeof(*(v)));             \
                                                                                         \
			if (all_) {                                                      \
				(v) = all_;                                              \
				(cap) = (__typeof__(cap))more_;                          \
				has_room_ = true;                                        \
			}                                                                \
		}                                                                        \
		has_room_;                                                               \
	})

/* For qsort and bsearch: upwards by a uint64_t, which is what an element begins with. */
static inline int u64_cmp(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

#endif
