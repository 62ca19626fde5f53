/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* verdict_view: a report's verdict (verdict/verdict.h), at the head of every view. */
#ifndef MT_VIEW_TABLES_VERDICT_H
#define MT_VIEW_TABLES_VERDICT_H

#include <stddef.h>

struct json;
struct page;
struct report;
struct report_dev;

#define VERDICT_SHOWN 6    /* lines of a report for people that is not verbose, … */
#define VERDICT_SHOWN_BY 1 /* … and before a table that was asked for */
#define JOBS_WORDS_BYTES 400

/* path: the recording as a shell takes it, NULL: "FILE". */
void verdict_text(struct page *p, const struct report *r, const char *path, unsigned max);
/* "verdict": the recording is FILE, so that a live report and its replay are the same bytes. */
void verdict_json(struct json *j, const struct report *r);
/* "choice": the options that chose its processes, and "jobs": the number of jobs in its sum; each only if it applies. */
void whose_json(struct json *j, const struct report *r, size_t jobs);
/* Of how many jobs a peak is the sum, and how one of them is chosen; "": of one. */
const char *jobs_words(const struct report *r, const struct report_dev *d, const char *path, char buf[JOBS_WORDS_BYTES]);

#endif
