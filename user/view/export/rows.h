/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * export_rows: what formats with one line a decision share: where they write, names in their own
 * quoting, which decisions they get, and which category a line shows.
 */
#ifndef MT_VIEW_EXPORT_ROWS_H
#define MT_VIEW_EXPORT_ROWS_H

#include "view/export.h"
#include "view/fold/name_cache.h"

struct export_ctx {
	struct outbuf o;
	struct name_cache names;
	const struct export_to *to; /* borrowed */
};

/* Is it a line? Not, if it has no word, is of another device than the one asked for, or is a
 * new label where all labels are final. */
int export_rows__has(const struct export_ctx *c, const struct tl_event *ev);
/* Is it about a block (or the attempt to get one): has it dev, ptr, size? */
int export_rows__is_block(const struct tl_event *ev);
/* The category of its block's version: the last word on it, or as it was told without a first pass. */
const char *export_rows__cat(const struct export_ctx *c, const struct tl_event *ev);
void export_rows__done(struct export_ctx *c);

#endif
