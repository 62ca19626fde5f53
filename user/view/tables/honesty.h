/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * honesty: the block that ends each report for people: what time it covers, what was lost, what it
 * cost the job, what could be seen and what could not. Never left out, also when all is well.
 */
#ifndef MT_VIEW_TABLES_HONESTY_H
#define MT_VIEW_TABLES_HONESTY_H

struct page;
struct report;

void view_honesty(struct page *p, const struct report *r);
/* What was covered and lost, and what it cost, in two lines; losses in full. */
void view_honesty_short(struct page *p, const struct report *r);

#endif
