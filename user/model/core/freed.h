/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * freed: when something was last freed at an address. What was read some milliseconds ago in a process's memory about a block
 * at an address is outdated if something was freed there since.
 *
 * Addresses share FREED_SLOTS times, four each, so it errs to one side: something may seem freed that was not, and never the
 * other way round. Where 10,000 are freed during a look, one of 2,000 others seems freed, the same one in each look, as steps
 * free the same addresses. No seed: a replay has the same results as the trace.
 */
#ifndef MT_MODEL_FREED_H
#define MT_MODEL_FREED_H

#include <stdbool.h>
#include <stdint.h>

#define FREED_SLOTS 262144u

struct freed {
	uint32_t *ticks; /* 1 MiB, of which a page exists once it is written, or NULL: not needed yet */
};

void freed__begin(struct freed *f); /* from now on; no memory: as if all were freed all the time */
void freed__done(struct freed *f);
void freed__note(struct freed *f, uint32_t pid, uint64_t addr, uint64_t now_ns);
bool freed__since(const struct freed *f, uint32_t pid, uint64_t addr, uint64_t ns);

#endif
