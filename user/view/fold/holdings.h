/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * holdings: the holders of memory at one moment, block by block: the moment of a span at which a device's live bytes were
 * highest, of several as high the one that the report chose, if it is among them; and allocations in the span. The sieve has
 * the processes and the device of the moment, and the blocks that are counted: the moment stays that of all.
 *
 * The blocks of the moment are those live at the end of the recording that are older than it, and those freed since, which
 * are kept. Grows with the live blocks, and with the number of different rows.
 */
#ifndef MT_VIEW_FOLD_HOLDINGS_H
#define MT_VIEW_FOLD_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "timeline/sieve.h"

enum held_by { HELD_BY_CATEGORY = 0, HELD_BY_MODULE, HELD_BY_OP, HELD_BY_LINE, HELD_BY_REGION, HELD_BY_NAME, HELD_BY_RANK,
	       HELD_BY_PROCESS, HELD_BY_DEVICE, HELD_BYS };

struct holding { /* begins with name: text_cmp */
	char *name;
	uint64_t bytes, blocks, largest; /* at the moment */
	uint64_t allocs, alloc_bytes;	 /* allocated in the span */
	bool is_gradient;		 /* BY_NAME */
};

struct holdings;
struct report;

/*
 * sieve is borrowed, after its first pass; around_ns: the report's peak, or 0. rep, borrowed, is the recording's report with
 * all stacks: it has the lines, ranks and gaps. NULL: no memory.
 */
struct holdings *holdings__new(const struct sieve *sieve, uint64_t around_ns, const struct report *rep);
void holdings__free(struct holdings *h); /* NULL is fine */
int holdings__event(struct holdings *h, const struct tl_event *ev); /* the second pass. 0 or -ENOMEM */
/* depth: levels of modules, 0: all. 0 or -ENOMEM. */
int holdings__end(struct holdings *h, unsigned depth);

/* The results, after holdings__end(). */
uint64_t holdings__ts_ns(const struct holdings *h);
bool holdings__is_learned(const struct holdings *h); /* it was not traced: what blocks are is learned from traced steps */
/* Of all of the device and its processes; and of those that the rest of the sieve lets through. */
void holdings__sums(const struct holdings *h, struct holding *ret_all, struct holding *ret_wanted);
/* By bytes, then allocated bytes, then name. The caller may sort them anew. */
struct holding *holdings__rows(struct holdings *h, enum held_by by, size_t *ret_cnt);

#endif
