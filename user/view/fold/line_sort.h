/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * line_sort: lines that go out in another order than they came in: by a number, the highest first, or by a text. Equal ones
 * stay as they came.
 *
 * Any number of them: above LINE_SORT_BYTES they go to a file without a name (base/spool.h), in sorted runs, which are
 * merged in the end.
 */
#ifndef MT_VIEW_FOLD_LINE_SORT_H
#define MT_VIEW_FOLD_LINE_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "view/outbuf.h"

#define LINE_SORT_BYTES (32u << 20)

/* In this order: the lowest place, the highest number, the text's bytes from a to z. */
struct line_key {
	uint8_t place;
	uint64_t num;
	const char *text; /* borrowed; LINE_ITSELF: the line is its own */
	size_t len;
};
#define LINE_ITSELF NULL

struct line_sort;

/* Writes to `o` from now on are lines; `bytes` of them in memory, 0: LINE_SORT_BYTES. NULL: no memory, or o->err */
struct line_sort *line_sort__new(struct outbuf *o, size_t bytes);
void line_sort__free(struct line_sort *s); /* before o's end; o writes where it did before. NULL is fine */
int line_sort__put(struct line_sort *s, const struct line_key *key); /* the line written to o since, if any. 0 or -errno */
int line_sort__end(struct line_sort *s); /* all of them to where o wrote before. 0 or -errno */

#endif
