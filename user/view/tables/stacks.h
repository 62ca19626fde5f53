/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* stacks_view: the stacks of a report, in text (--by stack) and JSON. */
#ifndef MT_VIEW_TABLES_STACKS_H
#define MT_VIEW_TABLES_STACKS_H

#include <stddef.h>

struct json;
struct page;
struct report;
struct cell;
struct report_frame;
struct table;

void stacks_text(struct page *p, const struct report *r, size_t top);
/* The reason for no rows. */
const char *stacks_none_words(const struct report *r);
void stacks_json(struct json *j, const struct report *r, size_t top); /* nothing where none were recorded */
/* rows: struct report_stack */
extern const struct table stack_table;
/* A stack in a cell. */
void stack_words(struct cell *c, const struct report_frame *frames, size_t cnt);
/* A stack under a row of a table: `max` lines. Where that is too few for all, native frames give way to Python's. */
void stack_text(struct page *p, const struct report_frame *frames, size_t cnt, size_t max);
void stack_json(struct json *j, const char *key, const struct report_frame *frames, size_t cnt);

#endif
