/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gaps: when nothing was traced, and a clock that stands still then, by which byte·time is measured. Without a gap it is the
 * time itself.
 *
 * Holds GAPS_MAX; then those of the older half are joined two by two, so that times in between are less exact: as if that
 * stretch had been traced evenly. Only labels that are corrected after hundreds of gaps need such times.
 */
#ifndef MT_MODEL_GAPS_H
#define MT_MODEL_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GAPS_MAX 1024 /* 32 KiB */

struct gap {
	uint64_t begin_ns, end_ns; /* end UINT64_MAX: goes on */
	uint64_t lost_ns;	   /* of it, in which nothing was traced: all of it, or it is several */
	uint64_t seen_ns;	   /* allocations and frees were seen until then; UINT64_MAX: they are, if known_ns */
	uint64_t known_ns;	   /* since then that is known; 0: they are not seen */
	uint64_t before_ns;	   /* such time before its begin */
};

struct gaps {
	struct gap *v;
	size_t cnt, cap;
	uint64_t times; /* gaps so far */
};

void gaps__done(struct gaps *g);
/* Times never decrease. false: no memory, and time goes on. No effect if one is open already, or none is. */
bool gaps__begin(struct gaps *g, uint64_t ts_ns);
void gaps__end(struct gaps *g, uint64_t ts_ns);
/* Of the one that is open: allocations and frees are seen between windows, true if that is news; from here on nothing is. */
bool gaps__seen(struct gaps *g, uint64_t ts_ns);
void gaps__blind(struct gaps *g, uint64_t ts_ns);
uint64_t gap__seen_ns(const struct gap *g, uint64_t now_ns); /* until when they were seen; its begin: they were not */
bool gaps__saw(const struct gaps *g, uint64_t from_ns, uint64_t to_ns); /* allocations were, in a part of that at least */
uint64_t gaps__past(const struct gaps *g, uint64_t ts_ns); /* the clock at a time before the last gap's end */
void gaps__check(const struct gaps *g);

static inline bool gaps__is_open(const struct gaps *g)
{
	return g->cnt && g->v[g->cnt - 1].end_ns == UINT64_MAX;
}

/* What lives is seen at present. */
static inline bool gaps__sees(const struct gaps *g)
{
	return !gaps__is_open(g) || (g->v[g->cnt - 1].known_ns && g->v[g->cnt - 1].seen_ns == UINT64_MAX);
}

/* The clock at a time. */
static inline uint64_t gaps__clock(const struct gaps *g, uint64_t ts_ns)
{
	const struct gap *last;

	if (__builtin_expect(!g->cnt, 1))
		return ts_ns;
	last = &g->v[g->cnt - 1];
	return ts_ns < last->end_ns ? gaps__past(g, ts_ns) : ts_ns - last->before_ns - last->lost_ns;
}

#endif
