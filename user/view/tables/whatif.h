/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* whatif_view: the memory that a recorded step would take, as text and JSON (docs/estimate.md). */
#ifndef MT_VIEW_TABLES_WHATIF_H
#define MT_VIEW_TABLES_WHATIF_H

#include "estimate/whatif.h"
#include "view/view.h"

struct report;

struct whatif_view {
	const char *path;
	const struct whatif_opts *opts;
	const struct whatif *w;
	const char *optimizer; /* as asked for, or NULL */
	const struct report *report; /* of the recording */
	uint64_t lost;
	double probe_share; /* of the CPU time of the job; 0: not known */
};

/* 0 or -errno of a failed write. */
int whatif_view_text(FILE *out, const struct whatif_view *v, const struct view_opts *opts);
int whatif_view_json(FILE *out, const struct whatif_view *v);

#endif
