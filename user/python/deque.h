/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* deque: collections.deque in another process's memory: the same layout in CPython 3.10 to 3.13. */
#ifndef MT_PYTHON_DEQUE_H
#define MT_PYTHON_DEQUE_H

#include "python/objects.h"

#define PY_DEQUE_STATE 56 /* a word that changes when an item is added or taken: by one for each append() */

/* Items from number `from` on, by number from 0. 0; -EAGAIN: torn, some may have been reported; fn's, which ends it. */
typedef int (*py_deque_fn)(void *ctx, uint64_t item, uint64_t index);
int py_deque__each(struct py *p, uint64_t deque, uint64_t from, py_deque_fn fn, void *ctx);
/* Its number of items as it has it; not checked. */
uint64_t py_deque__cnt(struct py *p, uint64_t deque);

#endif
