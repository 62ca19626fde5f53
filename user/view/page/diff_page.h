/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* diff_page: two recordings as one page for a browser: both over time in one chart, and tables of growth (docs/page.md). */
#ifndef MT_VIEW_PAGE_DIFF_PAGE_H
#define MT_VIEW_PAGE_DIFF_PAGE_H

#include <stdio.h>

#include "timeline/diff.h"

#define DIFF_PAGE_TABLES 4

struct diff_page {
	const struct diff_side *sides; /* A, B */
	const char *const *paths;
	enum diff_by by[DIFF_PAGE_TABLES]; /* the first is shown first */
	size_t by_cnt, top;
};

/* 0 or -errno; -ENOTSUP: html_page__missing has the reason. */
int diff_page__write(FILE *out, const struct diff_page *d);

#endif
