/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* free: free_all(a, b, …) frees each of them, in that order; NULL is fine. */
#ifndef MT_BASE_FREE_H
#define MT_BASE_FREE_H

#include <stddef.h>
#include <stdlib.h>

#define free_all(...)                                                                 \
	do {                                                                          \
		void *all_[] = { __VA_ARGS__ };                                       \
                                                                                      \
		for (size_t i_ = 0; i_ < sizeof(all_) / sizeof(*all_); i_++)          \
			free(all_[i_]);                                               \
	} while (0)

#endif
