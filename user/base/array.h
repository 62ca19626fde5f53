/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * array: room for more in an array whose owner keeps it as a pointer, a count and a capacity, all 0 at first; and the order of
 * arrays whose elements are, or begin with, a number.
 */
#ifndef MT_BASE_ARRAY_H
#define MT_BASE_ARRAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Doubles the capacity until `more` fit, starting at `first` entries. false: no memory; nothing is changed then. */
#define array_has_room_for(v, cnt, more, cap, first)                                     \
	__extension__({                                                                  \
		size_t need_ = (size_t)(cnt) + (more), room_ = (cap) ? (cap) : (first);  \
		bool has_room_ = need_ <= (size_t)(cap);                                 \
                                                                                         \
		if (!has_room_) {                                                        \
			while (room_ < need_)                                            \
				room_ *= 2;                                              \
			has_room_ = array_resized(v, room_);                             \
			if (has_room_)                                                   \
				(cap) = (__typeof__(cap))room_;                          \
		}                                                                        \
		has_room_;                                                               \
	})
#define array_has_room(v, cnt, cap, first) array_has_room_for(v, cnt, 1, cap, first)

/* For an array without a capacity, with few additions: makes it one entry larger. */
#define array_has_one_more(v, cnt) array_resized(v, (size_t)(cnt) + 1)

/* For an array that is accessed by index: makes it large enough for `at`, new entries all 0. */
#define array_reaches(v, cap, at, first)                                                 \
	__extension__({                                                                  \
		size_t had_ = (cap);                                                     \
		bool reaches_ = array_has_room_for(v, at, 1, cap, first);                \
                                                                                         \
		if (reaches_)                                                            \
			memset((v) + had_, 0, ((cap) - had_) * sizeof(*(v)));            \
		reaches_;                                                                \
	})

#define array_resized(v, entries)                                                        \
	__extension__({                                                                  \
		void *all_ = reallocarray((v), (entries), sizeof(*(v)));                 \
                                                                                         \
		if (all_)                                                                \
			(v) = all_;                                                      \
		all_ != NULL;                                                            \
	})

/* Comparator results for two numbers; several keys are `cmp_down(a->bytes, b->bytes) ?: cmp_up(a->id, b->id)`. */
#define cmp_up(a, b) (((a) > (b)) - ((a) < (b)))
#define cmp_down(a, b) cmp_up(b, a)

/* For qsort and bsearch: ascending by a number, or by a text, with which an element begins. */
static inline int u64_cmp(const void *a, const void *b)
{
	return cmp_up(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int u32_cmp(const void *a, const void *b)
{
	return cmp_up(*(const uint32_t *)a, *(const uint32_t *)b);
}

static inline int double_cmp(const void *a, const void *b)
{
	return cmp_up(*(const double *)a, *(const double *)b);
}

static inline int text_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
