/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* symbols_view: probed symbols and sources, in text (--by symbol) and JSON. */
#ifndef MT_VIEW_TABLES_SYMBOLS_H
#define MT_VIEW_TABLES_SYMBOLS_H

#include <stddef.h>

struct json;
struct page;
struct report;

void symbols_text(struct page *p, const struct report *r, size_t top);
/* Those that fired or could not be set; thousands of operators do neither. */
void symbols_json(struct json *j, const struct report *r, int is_brief);
void covers_json(struct json *j, const struct report *r); /* "sources" */
void late_ops_json(struct json *j, const struct report *r); /* "late" */

#endif
