/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* check_view: a peak and its limit, for people, programs and pull requests. */
#ifndef MT_VIEW_TABLES_CHECK_H
#define MT_VIEW_TABLES_CHECK_H

#include <stdint.h>
#include <stdio.h>

struct report;
struct report_dev;
struct view_opts;

struct check_view {
	const struct report *r;
	const struct report_dev *dev;
	const char *path;
	int category;	/* enum category, -1: all */
	uint64_t bytes; /* compared … */
	uint64_t max;	/* … with this */
};

/* Each 0 or -errno of a failed write. */
int check_view_text(FILE *out, const struct check_view *v, const struct view_opts *opts);
int check_view_json(FILE *out, const struct check_view *v);
int check_view_md(FILE *out, const struct check_view *v);

#endif
