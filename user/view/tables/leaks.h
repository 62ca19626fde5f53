/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* leaks_view: blocks that live across steps and grow in number, as text and JSON (docs/leaks.md). */
#ifndef MT_VIEW_TABLES_LEAKS_H
#define MT_VIEW_TABLES_LEAKS_H

#include "view/json.h"
#include "view/page.h"

struct report;
struct report_leak;
struct table;

/* A line in the report for people, if there is a growing place. */
/* rows: struct report_leak */
extern const struct table leak_table;
void leaks_line(struct page *p, const struct report *r);
/* "leaks" and "leaks_watched". */
void leaks_json(struct json *j, const struct report *r);
/* "aten::mm +12.3 KiB a step" into buf, safe, at most `cols` columns of name. buf: TEXT_BYTES_MAX. */
char *leak_words(char *buf, const struct report_leak *l, unsigned cols);
const char *leak_verb(const struct report_leak *l); /* "growing"; "grew" in a process that has ended */

#endif
