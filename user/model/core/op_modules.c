/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/op_modules.h"

#include <stdlib.h>

#include "base/seed.h"

#define SLOTS (2 * OP_MODULES_MAX)

void op_modules__done(struct op_modules *s)
{
	free(s->slots);
}

static struct op_module *find(struct op_modules *s, uint64_t key)
{
	uint32_t at = (uint32_t)hash_u64(key) & (SLOTS - 1);

	while (s->slots[at].key && s->slots[at].key != key)
		at = (at + 1) & (SLOTS - 1);
	return &s->slots[at];
}

void op_modules__allocated(struct op_modules *s, uint32_t op, uint32_t module, uint8_t phase, uint64_t bytes)
{
	uint64_t key = ((uint64_t)op << 32 | module) + 1;
	struct op_module *row = &s->rest;

	if (!s->slots)
		s->slots = calloc(SLOTS, sizeof(*s->slots));
	if (s->slots) {
		row = find(s, key);
		if (!row->key && s->cnt == OP_MODULES_MAX)
			row = &s->rest;
		else if (!row->key) {
			row->key = key;
			s->cnt++;
		}
	}
	row->alloc_count++;
	row->alloc_bytes += bytes;
	row->by_phase[phase < PHASE_MAX ? phase : PHASE_OTHER] += bytes;
}
