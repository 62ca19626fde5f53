/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * share: whose records are left out when there are more than we can take, and who is named for it.
 *
 * Programs leave out what a process tells beyond its share of a ring (include/memtrace/shares.h). Reading rings is quick,
 * following what was read is not: so the same rule holds for the events that wait for that. What is over is left out as it is
 * read, which costs a tenth of following it; the rings are read on, and the others lose nothing.
 *
 * Until an eighth of the window of order waits nothing is kept and nothing costs anything. A process alone is never cut
 * here: then the rings wait, and overflow as they always did.
 */
#ifndef MT_LIVE_SHARE_H
#define MT_LIVE_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "memtrace/shared.h"

#define SHARE_NAMED_MAX 256

struct share {
	struct mt_shares waits;
	uint64_t left_out;
	uint32_t named[SHARE_NAMED_MAX]; /* pids of which was told that they were cut */
	size_t named_cnt;
};

/* May another event of the process wait, where `waiting` of `capacity` places are taken? If not that is counted. */
int share__takes(struct share *s, uint32_t pid, size_t waiting, size_t capacity, uint64_t now_ns);
/* The next pid of those that had events left out, here or by the programs, and that was not yet named; 0: none. */
uint32_t share__next_cut(struct share *s, const struct mt_shares *rings, size_t rings_cnt);
/* How many events of the process were left out, as far as its rows were not given to others meanwhile. */
uint64_t share__left_out(const struct share *s, const struct mt_shares *rings, size_t rings_cnt, uint32_t pid);

#endif
