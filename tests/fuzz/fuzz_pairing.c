/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as modules and nodes of threads, and processes that end: whose backward a node is said to be was told before, by a
 * thread of the same process. Six bytes each.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "event/pairing.h"

#define EACH 6
#define PIDS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

/* A module's address says whose it is. */
static uint64_t module_of(uint32_t pid, uint8_t b)
{
	return b ? (uint64_t)pid << 32 | b : 0;
}

static void step(struct pairing *p, const uint8_t *b, uint8_t reported[PIDS][256])
{
	uint32_t pid = b[0] & (PIDS - 1);
	struct event ev = { .pid = pid, .tid = b[1] | (uint32_t)(b[0] & 0x10) << 8, .depth = b[5], .flags = b[5] };
	uint64_t number = b[3] | (uint64_t)b[4] << 8;
	struct event before;

	if ((b[0] & 0xe0) == 0xe0) {
		pairing__end(p, pid);
		memset(reported[pid], 0, sizeof(reported[pid]));
		return;
	}
	ev.kind = b[0] & 0x80 ? MT_EV_NODE : MT_EV_MODULE;
	ev.size = number == 0xffff ? UINT64_MAX : number;
	if (ev.kind == MT_EV_NODE) {
		if (pairing__event(p, &ev, &before)) {
			require(before.kind == EV_MODULE_AT && before.flags == EV_MODULE_BACKWARD && before.pid == pid);
			require(!before.addr || (before.addr >> 32 == pid && reported[pid][(uint8_t)before.addr]));
		}
		require(!ev.size); /* numbers go no further */
		return;
	}
	ev.addr = module_of(pid, b[2]);
	reported[pid][b[2]] = 1;
	require(!pairing__event(p, &ev, &before));
	require(ev.kind == EV_MODULE_AT && !ev.size && !(ev.flags & EV_MODULE_BACKWARD));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pairing *p = pairing__new();
	static uint8_t reported[PIDS][256];

	require(!!p);
	memset(reported, 0, sizeof(reported));
	for (; size >= EACH; data += EACH, size -= EACH)
		step(p, data, reported);
	pairing__free(p);
	return 0;
}
