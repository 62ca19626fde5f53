/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * carried: addresses of blocks not observed since a gap began, in order. An allocation that overlaps one proves that the block
 * was freed. Whether a block is still one of these is in the block itself (struct block: carried).
 *
 * Made at once when a gap begins, and freed when all is settled. Holds CARRIED_MAX; an allocation across one of those beyond
 * does not end it: like all unused ones, it ends when the first step is over.
 */
#ifndef MT_MODEL_CARRIED_H
#define MT_MODEL_CARRIED_H

#include <stddef.h>
#include <stdint.h>

#define CARRIED_MAX (1u << 20) /* 16 MiB */

struct carried_at {
	uint64_t ptr;
	uint32_t pid, dev;
};

struct carried {
	struct carried_at *v;
	size_t cnt, cap;
};

void carried__done(struct carried *c);
void carried__add(struct carried *c, uint32_t pid, uint8_t dev, uint64_t ptr);
void carried__sort(struct carried *c); /* after the last one */
/* The first one of a process and device at ptr or above it: its number; cnt: there is none. */
size_t carried__from(const struct carried *c, uint32_t pid, uint8_t dev, uint64_t ptr);

#endif
