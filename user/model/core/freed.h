/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * freed: when something was freed at an address last. What was read of a process's memory some milliseconds ago, and says what
 * lies at an address, is old if something there was freed since.
 *
 * Addresses share FREED_SLOTS times, four each, so it errs to one side: it may say that something was freed where nothing
 * was, and never the other way round. Where 10,000 are freed while a look is told, one of 2,000 others looks freed, and so in
 * each look, as steps free the same. No seed: a replay answers as the trace did.
 */
#ifndef MT_MODEL_FREED_H
#define MT_MODEL_FREED_H

#include <stdbool.h>
#include <stdint.h>

#define FREED_SLOTS 262144u

struct freed {
	uint32_t *ticks; /* 1 MiB, of which a page is there once it is written, or NULL: nobody asks yet */
};

void freed__begin(struct freed *f); /* from now on; no memory: as if all were freed all the time */
void freed__done(struct freed *f);
void freed__note(struct freed *f, uint32_t pid, uint64_t addr, uint64_t now_ns);
bool freed__since(const struct freed *f, uint32_t pid, uint64_t addr, uint64_t ns);

#endif
