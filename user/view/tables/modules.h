/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* modules_view: modules and phases, as JSON and as the tables of report --by module. */
#ifndef MT_VIEW_TABLES_MODULES_H
#define MT_VIEW_TABLES_MODULES_H

#include "view/json.h"
#include "view/page.h"
#include "view/table.h"
#include "view/view.h"

#define MODULES_SHOWN 4096 /* in JSON, the heaviest ones; "total" is the number of all */

extern const struct table module_table;   /* rows: struct report_module, with all that is in it */
extern const struct table of_phase_table; /* the same rows: bytes made in phase drawn.index */
/* "modules" and "phases": nothing where neither was seen. top 0: MODULES_SHOWN. */
void modules_json(struct json *j, const struct report *r, size_t top);
extern const struct table module_summary_table; /* the same rows: their part of the peak */
/* Those that made some of the peak, or keep something for backward, most first: to be freed; NULL: no memory. */
const struct report_module **modules_of_peak(const struct report *r, size_t *ret_cnt);
void modules_summary(struct page *p, const struct report *r, size_t top);
void modules_text(struct page *p, const struct report *r, const struct view_opts *opts);

#endif
