/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* blocks_view: blocks by size, as tables and as JSON; what Python calls them. */
#ifndef MT_VIEW_TABLES_BLOCKS_H
#define MT_VIEW_TABLES_BLOCKS_H

#include "view/table.h"

extern const struct table block_table;	/* rows: struct report_block; drawn.of is refused_of: what lived at a refusal */
extern const struct table tensor_table; /* rows: struct report_tensor */
extern const char refused_of[];

void blocks_text(struct page *p, const struct report *r, size_t top);
void blocks_json(struct json *j, const struct report *r, size_t top);
void tensors_text(struct page *p, const struct report *r, size_t top);
void tensors_json(struct json *j, const struct report *r, size_t top); /* "names"; nothing where Python told no name */

#endif
