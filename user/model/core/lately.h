/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * lately: recent live bytes of a process, for events that are reported only when they are over (EV_COMPILED): live bytes at
 * their beginning, and the most until their end.
 *
 * Time is divided into pieces of 8 ms, of which the last 256 are kept, before them pieces of eight times that, and so on: 18
 * minutes in all, each moment to about 3 % of its age. 24 KiB a process that allocates.
 */
#ifndef MT_MODEL_LATELY_H
#define MT_MODEL_LATELY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LATELY_LEVELS 4
#define LATELY_PIECES 256
#define LATELY_BITS 23 /* of ns: 8.4 ms */

struct lately {
	uint64_t begin_ns; /* nothing is known from before */
	uint64_t end_ns;   /* of the piece that is under way */
	uint64_t max;	   /* in it, so far */
	uint64_t last[LATELY_LEVELS]; /* number of the last piece */
	struct {
		uint64_t max, end; /* the most, and live bytes at its end */
		uint64_t step;	   /* that was under way then */
	} pieces[LATELY_LEVELS][LATELY_PIECES];
};

struct lately_at {
	uint64_t live, peak; /* when it began; the most until it ended, at least that */
	uint64_t step;
};

struct lately *lately__new(uint64_t ts_ns, uint64_t live); /* NULL: no memory. free() frees it */
/* Before live bytes change at or after end_ns, at a time that never decreases; live: as they were until now. */
void lately__turn(struct lately *l, uint64_t ts_ns, uint64_t live, uint64_t step);
/* false: it began before the first known time. */
bool lately__at(const struct lately *l, uint64_t begin_ns, uint64_t end_ns, struct lately_at *ret);

/* After live bytes have grown. */
static inline void lately__now(struct lately *l, uint64_t live)
{
	if (live > l->max)
		l->max = live;
}

#endif
