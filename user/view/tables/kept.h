/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* kept_view: `memtrace estimate F.mtr`, as text and JSON (docs/estimate.md). */
#ifndef MT_VIEW_TABLES_KEPT_H
#define MT_VIEW_TABLES_KEPT_H

#include "estimate/step.h"
#include "view/view.h"

struct kept_view {
	const char *path;
	const struct recorded *recorded;
	const struct recorded_kept *kept;
	const struct step *step;
	const struct step_result *result; /* NULL: the step has no nodes */
	const struct report *report;	  /* for losses */
	const struct names *names;
};

/* 0 or -errno of a failed write. opts->top: rows of a table. */
int kept_view_text(FILE *out, const struct kept_view *v, const struct view_opts *opts);
int kept_view_json(FILE *out, const struct kept_view *v, const struct view_opts *opts);

#endif
