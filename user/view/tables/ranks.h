/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* ranks_view: the ranks of a job side by side, as text and JSON (docs/ranks.md). */
#ifndef MT_VIEW_TABLES_RANKS_H
#define MT_VIEW_TABLES_RANKS_H

#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

struct report;
struct report_proc;

extern const struct table rank_table; /* rows: struct report_rank */
/* report --by rank: the table, who stands out, imbalance, what the worst peak was made of. Needs r->ranks. */
void ranks_text(struct page *p, const struct report *r, size_t top);
void ranks_json(struct json *j, const struct report *r); /* "ranks"; nothing without r->ranks */
/* "rank" of a process: what its labels say of its place in a job; nothing if they say nothing. */
void proc_rank_json(struct json *j, const struct report_proc *p);

#endif
