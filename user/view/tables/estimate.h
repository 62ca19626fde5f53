/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* estimate_view: the results of `memtrace estimate`, as text and JSON (docs/estimate.md). */
#ifndef MT_VIEW_TABLES_ESTIMATE_H
#define MT_VIEW_TABLES_ESTIMATE_H

#include "estimate/estimate.h"
#include "view/view.h"

/* 0 or -errno of a failed write. opts->top: rows of a table. */
int estimate_view_text(FILE *out, const char *path, const struct est_result *r, const struct view_opts *opts);
int estimate_view_json(FILE *out, const char *path, const struct est_result *r, const struct view_opts *opts);

#endif
