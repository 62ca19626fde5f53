/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * share: whose records are left out when there are more than we can take.
 *
 * Rings overflow when all processes together tell more than one thread can follow, and then every process loses, however little
 * it tells: each ring is read for its share of the time. So while rings overflow, a process that tells much more than its
 * share has the rest of its records left out as they are read, which costs a tenth of following them: the rings are
 * empty again, and the others lose nothing. What was left out is counted (MT_LOSS_SHARE), and a note says whose it was.
 *
 * Windows of SHARE_WINDOW_NS. While no ring overflows nothing is counted and nothing costs anything. A process alone, or one of
 * several that tell about the same, is never cut: that would gain nobody anything.
 */
#ifndef MT_CMD_SHARE_H
#define MT_CMD_SHARE_H

#include <stddef.h>
#include <stdint.h>

#define SHARE_WINDOW_NS 100000000ull
#define SHARE_ROWS 512 /* a power of two; processes beyond three quarters of it are not cut */

struct share_row {
	uint32_t pid;	/* 0: free */
	uint32_t cnt;	/* records in this window */
	uint32_t limit; /* of them that are taken */
	uint8_t was_heavy; /* in the window before: a backlog alone makes nobody heavy */
	uint8_t is_cut, is_told;
};

struct share {
	int is_on; /* rings overflow, or did so lately */
	unsigned quiet; /* windows without, in which nothing was left out */
	uint64_t next_ns, lost;
	uint64_t taken, capacity; /* records in this window; that are to be taken in one */
	uint64_t left_out, left_before;
	size_t rows_cnt;
	struct share_row rows[SHARE_ROWS];
};

/* Once a window. ring_lost: records that found no room, since the beginning; is_crowded: a ring was more than half full. */
void share__turn(struct share *s, uint64_t now_ns, uint64_t ring_lost, int is_crowded);
/* A record of the process was read: 1: it is taken; 0: left out, and counted. Only while is_on. */
int share__takes(struct share *s, uint32_t pid);
/* A process that was cut and is not told yet; 0: none. It is told then. */
uint32_t share__next_cut(struct share *s);

#endif
