/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * peak_moment: the moment of a span of time that --at, --from and --to ask for: the one at which live bytes were highest, of
 * several as high the last one up to around_ns, the report's peak. Of a span without length: that time.
 */
#ifndef MT_VIEW_FOLD_PEAK_MOMENT_H
#define MT_VIEW_FOLD_PEAK_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "timeline/spans.h"

struct peak_moment {
	const struct span *span; /* borrowed. from_ns 0: from the beginning */
	uint64_t around_ns;	 /* 0: of as high ones the first */
	uint64_t live;		 /* now, of the processes that the moment is of */
	uint64_t bytes, ts_ns;	 /* of the moment */
	bool is_open, in_gap;
	bool is_learned; /* all of the span lies in a gap in which allocations were seen: it is a moment of that */
};

/* Before the decision at ts_ns, UINT64_MAX: none follows. True: this is the moment, until a higher one comes. */
static inline bool peak_moment__opens(struct peak_moment *c, uint64_t ts_ns)
{
	if (c->is_open || !c->span->from_ns || ts_ns <= c->span->from_ns)
		return false;
	c->is_open = true;
	c->bytes = c->live;
	c->ts_ns = c->span->from_ns;
	return true;
}

static inline bool peak_moment__look(struct peak_moment *c, uint64_t ts_ns)
{
	if ((c->in_gap && !c->is_learned) || ts_ns > c->span->to_ns ||
	    (c->span->from_ns && ts_ns <= c->span->from_ns) || c->live < c->bytes ||
	    (c->live == c->bytes && ts_ns > c->around_ns))
		return false;
	c->bytes = c->live;
	c->ts_ns = ts_ns;
	return true;
}

/* From ts on, this many bytes more live, and as many less. True: this is the moment from now on. */
static inline bool peak_moment__move(struct peak_moment *c, uint64_t allocated, uint64_t died, uint64_t ts_ns)
{
	c->live += allocated - died;
	return allocated && peak_moment__look(c, ts_ns);
}

/* A gap begins, or ends; allocations are seen until seen_ns. True: its end is the moment from now on. */
static inline bool peak_moment__gap(struct peak_moment *c, bool begins, uint64_t ts_ns, uint64_t seen_ns)
{
	c->in_gap = begins;
	c->is_learned |= begins && c->span->from_ns >= ts_ns && c->span->to_ns <= seen_ns;
	return c->live > c->bytes && peak_moment__look(c, ts_ns);
}

#endif
