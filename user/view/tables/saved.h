/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* saved_view: memory that autograd keeps from forward to backward, as text and JSON (docs/saved.md). */
#ifndef MT_VIEW_TABLES_SAVED_H
#define MT_VIEW_TABLES_SAVED_H

#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

struct report;

/* rows: struct report_saved_row */
extern const struct table saved_table;
/* Nothing where no backward pass was seen. */
void saved_text(struct page *p, const struct report *r, size_t top);
void saved_json(struct json *j, const struct report *r, size_t top); /* "saved" */
/* The sum of all rows: shares are of it. */
uint64_t saved_bytes(const struct report *r);

#endif
