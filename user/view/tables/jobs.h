/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* jobs_view: the jobs of this machine, for `memtrace ps` and for choosing one. */
#ifndef MT_VIEW_TABLES_JOBS_H
#define MT_VIEW_TABLES_JOBS_H

#include <stdio.h>

#include "timeline/survey.h"

struct view_opts;

/*
 * 0 or -errno. all: also children that run the same command as their parent. choose: with a number before each, from 1.
 */
int jobs_view_text(FILE *out, const struct survey *s, const struct view_opts *opts, int all, int choose);
int jobs_view_json(FILE *out, const struct survey *s);
/* That row (from 1) of those that are shown without all; NULL: there is none. */
const struct survey_job *jobs_view_row(const struct survey *s, size_t number);

#endif
