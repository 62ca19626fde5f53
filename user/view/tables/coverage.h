/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * coverage: the block that ends each report for people: time covered, losses, cost for the job, what
 * was visible and what was not. Never left out, even when all is well.
 */
#ifndef MT_VIEW_TABLES_COVERAGE_H
#define MT_VIEW_TABLES_COVERAGE_H

struct page;
struct report;

void view_coverage(struct page *p, const struct report *r);
/* Coverage, losses and cost in two lines; losses in full. */
void view_coverage_short(struct page *p, const struct report *r);

#endif
