/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* diff_view: two recordings side by side, as text, Markdown and JSON (docs/leaks.md). */
#ifndef MT_VIEW_TABLES_DIFF_H
#define MT_VIEW_TABLES_DIFF_H

#include "timeline/diff.h"
#include "view/view.h"

struct diff_view {
	const struct diff *diff;
	const struct diff_side *sides; /* A, B */
	const char *const *paths;
	enum diff_by by;
};

/* 0 or -errno of a failed write. */
int diff_view_text(FILE *out, const struct diff_view *v, const struct view_opts *opts);
int diff_view_md(FILE *out, const struct diff_view *v, const struct view_opts *opts);
int diff_view_json(FILE *out, const struct diff_view *v, const struct view_opts *opts);

#endif
