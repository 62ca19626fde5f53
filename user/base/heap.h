/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * heap: an array kept as a binary heap, in which v[0] precedes all others. `before(a, b, …)`: does *a precede *b? The arguments
 * after it in a call are passed to it as well.
 */
#ifndef MT_BASE_HEAP_H
#define MT_BASE_HEAP_H

#include <stddef.h>

/* v[at] is new, at the end: moves it up to its place. */
#define heap_up(v, at, before, ...)                                                                             \
	do {                                                                                                    \
		size_t at_ = (at);                                                                              \
		__typeof__(*(v)) moved_ = (v)[at_];                                                             \
                                                                                                                \
		for (; at_ && before(&moved_, &(v)[(at_ - 1) / 2], ##__VA_ARGS__); at_ = (at_ - 1) / 2)         \
			(v)[at_] = (v)[(at_ - 1) / 2];                                                          \
		(v)[at_] = moved_;                                                                              \
	} while (0)

/* v[at] was replaced by a later one: moves it down to its place. v needs room for one even if cnt is 0. */
#define heap_down(v, cnt, at, before, ...)                                                                      \
	do {                                                                                                    \
		size_t at_ = (at), cnt_ = (cnt), below_;                                                        \
		__typeof__(*(v)) moved_ = (v)[at_];                                                             \
                                                                                                                \
		while ((below_ = 2 * at_ + 1) < cnt_) {                                                         \
			below_ += below_ + 1 < cnt_ && before(&(v)[below_ + 1], &(v)[below_], ##__VA_ARGS__);   \
			if (!before(&(v)[below_], &moved_, ##__VA_ARGS__))                                      \
				break;                                                                          \
			(v)[at_] = (v)[below_];                                                                 \
			at_ = below_;                                                                           \
		}                                                                                               \
		(v)[at_] = moved_;                                                                              \
	} while (0)

/* Makes a heap of elements in any order. */
#define heap_make(v, cnt, before, ...)                                                                          \
	do {                                                                                                    \
		for (size_t from_ = (cnt) / 2; from_--;)                                                        \
			heap_down(v, cnt, from_, before, ##__VA_ARGS__);                                        \
	} while (0)

#endif
