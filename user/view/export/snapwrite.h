/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * snapwrite: dicts and lists of words and whole numbers, as JSON or as a pickle of protocol 2, with
 * the opcodes alone that torch's viewer knows (MemoryViz.js reads pickles itself).
 *
 * In a pickle, a word or list that was written before is a reference to it. The target of a reference
 * must come first in the file, so each part that is written on its own has a memo of its own; the
 * numbers in them are from one counter.
 */
#ifndef MT_VIEW_EXPORT_SNAPWRITE_H
#define MT_VIEW_EXPORT_SNAPWRITE_H

#include "view/outbuf.h"

#define SNAP_BATCH 1000 /* items of one APPENDS: the viewer passes them as arguments of a call */

struct snap_memo {
	uint32_t *refs; /* number of the thing -> its number in the pickle + 1 */
	size_t cnt;
};

struct snapwrite {
	struct outbuf o;
	struct snap_memo memo;
	uint32_t *next_ref; /* shared by all parts of a file */
	uint64_t items;	    /* of the long list */
	int is_pickle;
	int need_comma; /* JSON */
};

int snapwrite__init(struct snapwrite *w, FILE *f, int is_pickle, uint32_t *next_ref); /* 0 or -ENOMEM */
void snapwrite__done(struct snapwrite *w);

/* All that was written to a FILE of its own by another one of these. 0 or -EIO */
int snapwrite__copy(struct snapwrite *w, FILE *part);
void snapwrite__open(struct snapwrite *w, char kind); /* '{' or '[' */
void snapwrite__close(struct snapwrite *w, char kind); /* '}' or ']' */
/* Before each item of a list that may be long; its end is snapwrite__close. */
void snapwrite__item(struct snapwrite *w);
/* Literal words of the format; thing: a number of its own below 2^22. */
void snapwrite__key(struct snapwrite *w, const char *word, uint32_t thing);
void snapwrite__word(struct snapwrite *w, const char *word, uint32_t thing);
void snapwrite__text(struct snapwrite *w, const char *text, size_t len); /* of the target */
void snapwrite__u64(struct snapwrite *w, uint64_t v);
void snapwrite__false(struct snapwrite *w);
void snapwrite__pair(struct snapwrite *w, uint8_t a, uint8_t b);
/* Pickle only: true if the thing was written before; a reference is written. */
int snapwrite__again(struct snapwrite *w, uint32_t thing);
/* Pickle only: the last value written is the thing from now on. */
void snapwrite__remember(struct snapwrite *w, uint32_t thing);

#endif
