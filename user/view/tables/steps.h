/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* steps_view: the average composition of a traced step of a sampled recording, and its possible error. */
#ifndef MT_VIEW_TABLES_STEPS_H
#define MT_VIEW_TABLES_STEPS_H

#include "view/json.h"
#include "timeline/report.h"

struct json;
struct page;

/* Nothing if all is traced, or no step was; is_all: also with one window, and kinds of few steps. */
void steps_text(struct page *p, const struct report *r, int is_all);
struct report_window;
/* "traced": times and steps */
void windows_json(struct json *j, const struct report_window *v, size_t cnt, int64_t epoch_off_ns);
void kinds_json(struct json *j, const struct report *r); /* "step_kinds", "steps_unsorted" */
void steps_json(struct json *j, const struct report_steps *s); /* the fields of the object that is open */

#endif
