/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/freed.h"

#include <stdlib.h>

#define WAYS 4 /* each begins 15 bits further on in a hash, and has 18 of them */
#define TICK_NS 1000000u /* times older than 24 days look like future ones, and count as freed */

static uint64_t hash_of(uint32_t pid, uint64_t addr)
{
	uint64_t h = ((addr >> 4) ^ (uint64_t)pid << 40) * 0x9e3779b97f4a7c15u;

	return (h ^ h >> 32) * 0xd6e8feb86659fd93u;
}

/* Each address has WAYS of them: those of others must have all to be taken for it. */
static uint32_t slot_of(uint64_t hash, unsigned way)
{
	return (uint32_t)(hash >> 15 * way) % FREED_SLOTS;
}

static uint32_t tick_of(uint64_t ns)
{
	uint32_t tick = (uint32_t)(ns / TICK_NS);

	return tick ? tick : 1; /* 0: never */
}

void freed__begin(struct freed *f)
{
	if (!f->ticks)
		f->ticks = calloc(FREED_SLOTS, sizeof(*f->ticks));
}

void freed__done(struct freed *f)
{
	free(f->ticks);
	f->ticks = NULL;
}

void freed__note(struct freed *f, uint32_t pid, uint64_t addr, uint64_t now_ns)
{
	uint64_t hash = hash_of(pid, addr);

	for (unsigned i = 0; f->ticks && i < WAYS; i++)
		f->ticks[slot_of(hash, i)] = tick_of(now_ns);
}

bool freed__since(const struct freed *f, uint32_t pid, uint64_t addr, uint64_t ns)
{
	uint64_t hash = hash_of(pid, addr);

	for (unsigned i = 0; f->ticks && i < WAYS; i++) {
		uint32_t last = f->ticks[slot_of(hash, i)];

		if (!last || (int32_t)(last - tick_of(ns)) < 0)
			return false;
	}
	return true;
}
