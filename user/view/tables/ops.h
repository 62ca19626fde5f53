/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* ops_view: operators and regions, as tables and as JSON. */
#ifndef MT_VIEW_TABLES_OPS_H
#define MT_VIEW_TABLES_OPS_H

#include "view/table.h"

extern const struct table op_table; /* rows: struct report_op; drawn.of is regions_of: regions */
extern const char regions_of[];

void ops_text(struct page *p, const struct report *r, size_t top);
void regions_text(struct page *p, const struct report *r, size_t top);
void ops_json(struct json *j, const struct report *r, size_t top); /* and regions */

#endif
