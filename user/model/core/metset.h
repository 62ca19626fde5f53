/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * metset: where one process's met blocks lie, in order of address, so that a munmap finds those in it:
 * nobody else tells the end of a storage in shared memory. A process maps and unmaps far more often than
 * it meets a block. Holds METSET_MAX (8 bytes each); past it a block's munmap is not seen.
 */
#ifndef MT_MODEL_METSET_H
#define MT_MODEL_METSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METSET_MAX 65536

struct metset {
	uint64_t *ptrs; /* sorted, each once */
	size_t cnt, cap;
};

void metset__done(struct metset *s);
bool metset__add(struct metset *s, uint64_t ptr); /* false: full or no memory */
void metset__remove(struct metset *s, uint64_t ptr);
/* The first one in [from, end). */
bool metset__next(const struct metset *s, uint64_t from, uint64_t end, uint64_t *ret);
bool metset__before(const struct metset *s, uint64_t ptr, uint64_t *ret); /* the last one below ptr */
void metset__check(const struct metset *s);

#endif
