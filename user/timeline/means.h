/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * means: live bytes of each operator, region, stack and category, on average over a stretch of time, from the decisions: over
 * the traced part of it (TL_GAP). Categories are the final ones: what the model itself has counted by a moment still counts, as
 * something else, a block that is a parameter from the next step on.
 * Grows with the names and the nodes of stacks, of which there are NAMES_MAX and EV_STACKS_MAX at most.
 */
#ifndef MT_TIMELINE_MEANS_H
#define MT_TIMELINE_MEANS_H

#include "timeline/timeline.h"

struct labels;
struct means;

/*
 * Blocks of the malloc family alone (host), or of all other devices (struct report_op). labels: borrowed; NULL: categories are
 * not asked for. NULL: no memory.
 */
struct means *means__new(uint64_t from_ns, uint64_t to_ns, int host, const struct labels *labels);
void means__free(struct means *m); /* NULL is fine */
int means__event(struct means *m, const struct tl_event *ev); /* 0 or -ENOMEM */
double means__op(const struct means *m, name_id op);
double means__region(const struct means *m, name_id region);
double means__stack(const struct means *m, uint32_t node); /* 0: without one */
double means__category(const struct means *m, uint8_t dev, enum category cat);

#endif
