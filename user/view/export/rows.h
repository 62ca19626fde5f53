/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * export_rows: shared by formats with one line a decision: the output, names in their own quoting,
 * the choice of decisions, the category that a line shows, and lines in the order of --sort.
 */
#ifndef MT_VIEW_EXPORT_ROWS_H
#define MT_VIEW_EXPORT_ROWS_H

#include "view/export.h"
#include "view/fold/name_cache.h"

#define EXPORT_ROWS_SORTS "time, size, op, module, name"

struct line_sort;

struct export_ctx {
	struct outbuf o;
	struct name_cache names;
	const struct export_to *to; /* borrowed */
	struct line_sort *sort;	    /* NULL: lines in the order of time */
};

/* Is it a line? Not, if it has no word, is of another device than the one asked for, or is a
 * new label where all labels are final. */
int export_rows__has(const struct export_ctx *c, const struct tl_event *ev);
/* Is it about a block (or the attempt to get one): has it dev, ptr, size? */
int export_rows__is_block(const struct tl_event *ev);
/* The category of its block's version: the final label, or without a first pass the event's. */
const char *export_rows__cat(const struct export_ctx *c, const struct tl_event *ev);
/* Writes the head above all lines. 0 or -errno */
int export_rows__begin(struct export_ctx *c);
/* Call after a decision, with or without a line. `learned`: the line shows what was learned of its block. 0 or -errno */
int export_rows__put(struct export_ctx *c, const struct tl_event *ev, const struct tl_learned *learned);
int export_rows__end(struct export_ctx *c, const struct report *r);
void export_rows__done(struct export_ctx *c);

#endif
