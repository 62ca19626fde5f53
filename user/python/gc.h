/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gc: every object of another process's CPython that is an instance of chosen types, from the lists of its
 * garbage collector: complete wherever the program keeps them (closures, C++, generators).
 *
 * The lists are changed while they are read. A walk ends at its own head, and also at any other head, at a pointer that
 * leads nowhere, in a circle, and after GC_NODES_MAX: the objects found by then are valid, but may not be all, and the
 * caller tries again. gc__find reads lists of young objects, which are short, up to three times more where that happens: in
 * a program of half a millisecond a step 24 of 60 searches were not whole before, and 2 since.
 */
#ifndef MT_PYTHON_GC_H
#define MT_PYTHON_GC_H

#include "python/objects.h"

#define GC_NODES_MAX 20000000u
#define GC_FOUND_MAX 100000u

struct gc_found {
	uint64_t *objs; /* each once, the oldest generation's first; malloc'ed, also on failure */
	size_t cnt, cap;
	uint64_t nodes; /* looked at */
	int is_whole;	/* every list was walked to its end, and nothing was left out */
};

/*
 * Every object that the collector knows, the oldest first, some of them twice, with its type; fn's error ends it. No objs.
 * 0; -EAGAIN: no such lists.
 */
int gc__each(struct py *p, int (*fn)(void *ctx, uint64_t obj, const struct py_type *type), void *ctx, struct gc_found *ret);

/* Instances of types with any of these bits in `bases` (struct py_type). 0; -ENOMEM; -EAGAIN: no such lists. */
int gc__find(struct py *p, uint32_t bases, struct gc_found *ret);

#endif
