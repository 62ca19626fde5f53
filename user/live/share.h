/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * share: which process's records are left out when there are more than we can take, and the processes named for that.
 *
 * BPF programs leave out what a process reports beyond its share of a ring (include/memtrace/shares.h). Reading rings is quick,
 * processing what was read is not: so the same rule holds for the events that wait for that. Events beyond the share are left
 * out when they are read, which costs a tenth of processing them; reading goes on, and the other processes lose nothing.
 *
 * Until an eighth of order's window waits, nothing is counted and there is no cost. A single process is never limited here:
 * then the rings wait, and overflow as they always did.
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
	uint32_t named[SHARE_NAMED_MAX]; /* pids that were reported as limited */
	size_t named_cnt;
};

/* May another event of the process wait, with `waiting` of `capacity` places taken? A refusal is counted. */
int share__takes(struct share *s, uint32_t pid, size_t waiting, size_t capacity, uint64_t now_ns);
/* The next pid that had events left out, here or by the programs, and was not yet named; 0: none. */
uint32_t share__next_cut(struct share *s, const struct mt_shares *rings, size_t rings_cnt);
/* Events of the process that were left out, unless its rows were given to others meanwhile. */
uint64_t share__left_out(const struct share *s, const struct mt_shares *rings, size_t rings_cnt, uint32_t pid);

#endif
