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
/* report --by rank: the table, ranks that stand out, imbalance, the composition of the worst peak. Needs r->ranks. */
void ranks_text(struct page *p, const struct report *r, size_t top);
void ranks_json(struct json *j, const struct report *r); /* "ranks"; nothing without r->ranks */
/* "rank" of a process: its place in a job by its labels; nothing without such labels. */
void proc_rank_json(struct json *j, const struct report_proc *p);

#endif
