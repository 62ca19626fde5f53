/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A finished piece is added to its parent at each level. The unfinished piece has only what was seen so far.
 */
#include "model/core/lately.h"

#include <stdlib.h>

static unsigned bits_of(unsigned level)
{
	return LATELY_BITS + 3 * level;
}

static void begin_pieces(struct lately *l, unsigned level, uint64_t number, uint64_t live, uint64_t step)
{
	uint64_t from = l->last[level] + 1;

	if (number - l->last[level] > LATELY_PIECES)
		from = number - LATELY_PIECES + 1;
	for (uint64_t i = from; i <= number; i++) {
		l->pieces[level][i % LATELY_PIECES].max = live;
		l->pieces[level][i % LATELY_PIECES].end = live;
		l->pieces[level][i % LATELY_PIECES].step = step;
	}
	l->last[level] = number;
}

void lately__turn(struct lately *l, uint64_t ts_ns, uint64_t live, uint64_t step)
{
	for (unsigned level = 0; level < LATELY_LEVELS; level++) {
		uint64_t at = l->last[level] % LATELY_PIECES, number = ts_ns >> bits_of(level);

		if (l->max > l->pieces[level][at].max)
			l->pieces[level][at].max = l->max;
		l->pieces[level][at].end = live;
		l->pieces[level][at].step = step;
		if (number > l->last[level])
			begin_pieces(l, level, number, live, step);
	}
	l->max = live;
	l->end_ns = ((ts_ns >> LATELY_BITS) + 1) << LATELY_BITS;
	if (l->end_ns <= ts_ns)
		l->end_ns = UINT64_MAX;
}

struct lately *lately__new(uint64_t ts_ns, uint64_t live)
{
	struct lately *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->begin_ns = ts_ns;
	for (unsigned level = 0; level < LATELY_LEVELS; level++)
		l->last[level] = ts_ns >> bits_of(level);
	lately__turn(l, ts_ns, live, 0);
	return l;
}

/* The finest level that knows of a time. */
static unsigned level_of(const struct lately *l, uint64_t ts_ns)
{
	unsigned level = 0;

	while (level < LATELY_LEVELS && l->last[level] - (ts_ns >> bits_of(level)) >= LATELY_PIECES)
		level++;
	return level;
}

bool lately__at(const struct lately *l, uint64_t begin_ns, uint64_t end_ns, struct lately_at *ret)
{
	uint64_t first, last;
	unsigned level;

	if (begin_ns < l->begin_ns || begin_ns >= l->end_ns || end_ns < begin_ns)
		return false;
	level = level_of(l, begin_ns);
	if (level == LATELY_LEVELS)
		return false;
	first = begin_ns >> bits_of(level);
	last = end_ns >> bits_of(level);
	last = last < l->last[level] ? last : l->last[level];
	*ret = (struct lately_at){ l->pieces[level][first % LATELY_PIECES].end, l->pieces[level][first % LATELY_PIECES].end,
				   l->pieces[level][first % LATELY_PIECES].step };
	for (uint64_t i = first + 1; i < last; i++)
		if (l->pieces[level][i % LATELY_PIECES].max > ret->peak)
			ret->peak = l->pieces[level][i % LATELY_PIECES].max;
	return true;
}
