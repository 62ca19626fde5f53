/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* holdings: memory held at one moment, of the part asked for (view/fold/holdings.h), in text, Markdown, JSON and CSV. */
#ifndef MT_VIEW_TABLES_HOLDINGS_H
#define MT_VIEW_TABLES_HOLDINGS_H

#include <stdio.h>

#include "view/fold/holdings.h"

struct selection;
struct report;
struct view_opts;

struct held_view {
	struct holdings *h;
	const struct report *r;
	const struct selection *asked;
	uint8_t dev; /* the moment is of it */
	int has_step;
	uint64_t step; /* under way at the moment */
	const char *sort; /* a column's key, or NULL */
};

/* Is it a column that rows can be sorted by? Else the columns go into *ret_all. */
int held_sort_is_known(const char *key, const char **ret_all);
int held_view_text(FILE *out, const struct held_view *v, const struct view_opts *opts);
int held_view_md(FILE *out, const struct held_view *v, const struct view_opts *opts);
int held_view_json(FILE *out, const struct held_view *v, const struct view_opts *opts);
int held_view_csv(FILE *out, const struct held_view *v, const struct view_opts *opts);

#endif
