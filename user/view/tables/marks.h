/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* marks_view: marks of phases (docs/modules.md) and the memory at them, step by step, as JSON and as text. */
#ifndef MT_VIEW_TABLES_MARKS_H
#define MT_VIEW_TABLES_MARKS_H

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

extern const struct table step_table; /* rows: struct step_marks; drawn.of: in text its place among the steps */
/* `marks`, `markers` and `steps` of the object that is open. */
void marks_json(struct json *j, const struct report *r);
/* A step; nothing if it is none (pid 0). */
void step_json(struct json *j, const char *key, const struct report *r, const struct step_marks *s);
/* The last step and the highest one of each process, `top` processes at most; nothing without steps. */
void marks_text(struct page *p, const struct report *r, size_t top);

#endif
