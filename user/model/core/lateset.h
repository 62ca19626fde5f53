/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lateset: addresses of one process's late blocks, in order, so that a munmap finds those in it: nothing
 * else reports the end of a storage in shared memory. A process maps and unmaps far more often than such
 * a block is hit. Holds LATESET_MAX (8 bytes each); past it a block's munmap is not seen.
 */
#ifndef MT_MODEL_LATESET_H
#define MT_MODEL_LATESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LATESET_MAX 65536

struct lateset {
	uint64_t *ptrs; /* sorted, each once */
	size_t cnt, cap;
};

void lateset__done(struct lateset *s);
bool lateset__add(struct lateset *s, uint64_t ptr); /* false: full or no memory */
void lateset__remove(struct lateset *s, uint64_t ptr);
/* The first one in [from, end). */
bool lateset__next(const struct lateset *s, uint64_t from, uint64_t end, uint64_t *ret);
bool lateset__before(const struct lateset *s, uint64_t ptr, uint64_t *ret); /* the last one below ptr */
void lateset__check(const struct lateset *s);

#endif
