/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * op_modules: bytes allocated by operator and the module that it was called in: which operators allocate most, and where.
 *
 * OP_MODULES_MAX pairs of rows (ops, modules); allocations of further ones are counted in `rest`. Frees subtract nothing.
 */
#ifndef MT_MODEL_OP_MODULES_H
#define MT_MODEL_OP_MODULES_H

#include "timeline/timeline.h"

#define OP_MODULES_MAX 16384u

struct op_module { /* begins with key: u64_cmp */
	uint64_t key; /* op's row << 32 | module's row, + 1; 0: free */
	uint64_t alloc_count, alloc_bytes, by_phase[PHASE_MAX];
};

struct op_modules {
	struct op_module *slots; /* open addressing, twice OP_MODULES_MAX; NULL until the first allocation */
	uint32_t cnt;
	struct op_module rest;
};

void op_modules__done(struct op_modules *s);
void op_modules__allocated(struct op_modules *s, uint32_t op, uint32_t module, uint8_t phase, uint64_t bytes);

static inline uint64_t op_module__key(uint32_t op, uint32_t module)
{
	return ((uint64_t)op << 32 | module) + 1;
}

static inline void op_module__add(struct op_module *to, const struct op_module *o)
{
	to->alloc_count += o->alloc_count;
	to->alloc_bytes += o->alloc_bytes;
	for (int i = 0; i < PHASE_MAX; i++)
		to->by_phase[i] += o->by_phase[i];
}

static inline uint32_t op_module__op(const struct op_module *o)
{
	return (uint32_t)((o->key - 1) >> 32);
}

static inline uint32_t op_module__module(const struct op_module *o)
{
	return (uint32_t)(o->key - 1);
}

#endif
