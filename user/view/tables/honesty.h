/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * honesty: the block that ends every report for people: what time it covers, what was lost, what it
 * cost the job, what could be seen and what could not. Never left out, also when all is well.
 */
#ifndef MT_VIEW_TABLES_HONESTY_H
#define MT_VIEW_TABLES_HONESTY_H

struct page;
struct report;

void view_honesty(struct page *p, const struct report *r);

#endif
