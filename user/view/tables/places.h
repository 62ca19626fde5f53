/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* places: lines of generated code that allocated, as text and JSON (docs/compiled.md). */
#ifndef MT_VIEW_TABLES_PLACES_H
#define MT_VIEW_TABLES_PLACES_H

#include <stddef.h>

struct json;
struct page;
struct report;

void places_text(struct page *p, const struct report *r, size_t top); /* nothing without generated code */
void places_json(struct json *j, const struct report *r, size_t top); /* "generated", the same */

#endif
