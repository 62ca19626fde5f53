/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* procs_view: processes, as a table and as JSON. */
#ifndef MT_VIEW_TABLES_PROCS_H
#define MT_VIEW_TABLES_PROCS_H

#include "view/table.h"

extern const struct table proc_table; /* rows: struct report_proc */

void procs_text(struct page *p, const struct report *r, size_t top);
/* Of more than `max` the last ones; one that is there goes before one that ended. */
void procs_json(struct json *j, const struct report *r, size_t max);

#endif
