/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * ranks: the same events as the model, apart by rank: every rank has a model of its own, so that each has its own peak, the
 * categories of that peak, steps and series. A process belongs to the rank that its environment names (event/rank_label.h),
 * its children too, whether they name it or not; all others belong to "others". A pure function of the event sequence, as the
 * model.
 *
 * Costs a second replay, 0.4 MB a rank and the memory of its blocks. At most RANKS_MAX ranks, others beyond, and PIDS_MAX pids.
 */
#ifndef MT_MODEL_RANKS_H
#define MT_MODEL_RANKS_H

#include "event/event.h"
#include "timeline/timeline.h"

struct ranks;
struct report_ranks;

struct ranks *ranks__new(const struct names *names, enum classes classes); /* NULL: no memory */
void ranks__free(struct ranks *r);
int ranks__handle(struct ranks *r, const struct event *ev); /* 0 or -ENOMEM */
/* `top`: rows of the worst rank's tables. *ret is the caller's. -ENOMEM. */
int ranks__report(struct ranks *r, size_t top, struct report_ranks **ret);

#endif
