/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* places: lines of generated code that allocated, as a table, text and JSON (docs/compiled.md). */
#ifndef MT_VIEW_TABLES_PLACES_H
#define MT_VIEW_TABLES_PLACES_H

#include <stddef.h>

#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

struct report;

extern const struct table place_table; /* rows: struct report_place */
void places_text(struct page *p, const struct report *r, size_t top); /* nothing without generated code */
void places_json(struct json *j, const struct report *r, size_t top); /* "generated", the same */

#endif
