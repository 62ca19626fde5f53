/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines of generated code that allocated, and what they are (docs/compiled.md). */
#ifndef MT_TIMELINE_REPORT_PLACES_H
#define MT_TIMELINE_REPORT_PLACES_H

#include <stddef.h>
#include <stdint.h>

#define REPORT_PLACES_MAX 1024

struct report_place {
	uint64_t bytes, count; /* that were allocated there */
	char *op;	       /* that stands for it */
	char *buffer;	       /* "buf7 float32[512,512], then buf8": which takes its memory over; "" not known */
	char *nodes;	       /* its source nodes: "linear_11, mm_3"; "": not known */
	char *where;	       /* "c5tz3y4….py:860"; "": not known */
	uint8_t made;	       /* enum ev_place */
};

struct report_places {
	struct report_place *rows; /* the most bytes first, REPORT_PLACES_MAX at most */
	size_t cnt, total;
};

#endif
