/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* filter_said: the options that chose a part of a recording, for views to show. */
#ifndef MT_VIEW_FILTER_SAID_H
#define MT_VIEW_FILTER_SAID_H

#include <stddef.h>
#include <stdint.h>

struct json;

/* The options, as they were typed. */
struct filter_said {
	const char *at, *from, *to;  /* --at, --from, --to; NULL: not given */
	int dev, category;	     /* -1: not given */
	const char *module, *op;     /* NULL */
	const uint32_t *pids;	     /* --pid */
	size_t pids_cnt;
	int64_t rank;		     /* -1 */
};

void filter_json(struct json *j, const struct filter_said *f); /* "filter": those that were given */
/* "category ACTIVATION, module block"; returns buf, empty if nothing was. */
const char *filter_words(const struct filter_said *f, char *buf, size_t size);

#endif
