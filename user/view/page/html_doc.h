/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * html_doc: the JSON document that the page draws (schema: docs/page.md), from gathered data. Bounded: LANES_SHOWN
 * lanes of moments, BLOCKS_SHOWN blocks, ICICLE_SHOWN nodes, bands, and the report with its tables.
 */
#ifndef MT_VIEW_PAGE_HTML_DOC_H
#define MT_VIEW_PAGE_HTML_DOC_H

#include "view/fold/bands.h"
#include "view/fold/heapsum.h"
#include "view/fold/heaviest.h"
#include "view/fold/moments.h"
#include "view/fold/opcolumns.h"
#include "view/outbuf.h"

#define LANES_SHOWN 64
#define BLOCKS_SHOWN 5000
#define ICICLE_SHOWN 3000
#define OOMS_SHOWN 256
#define NAME_SHOWN_BYTES 200

/* A device, of all processes (pid 0) or of one. */
struct html_lane {
	struct moments *moments; /* NULL: list */
	const struct moment *list;
	size_t list_cnt;
	uint64_t peak, peak_ts_ns; /* with a list */
	const struct series *between; /* with a list: live bytes where only allocations are seen; NULL: nowhere */
	uint32_t pid;
	uint8_t dev;
};

struct html_oom {
	uint64_t ts_ns, size;
	uint32_t pid;
	uint8_t dev;
};

struct html_doc {
	const struct report *report;
	const struct names *names;
	const struct labels *labels; /* Python's names of blocks; NULL: not known */
	struct html_lane lanes[LANES_SHOWN];
	size_t lanes_cnt;
	uint64_t lanes_left_out; /* moves in lanes without a place */
	struct bands bands;
	struct optrace *optrace; /* ended, with ops; NULL: not known */
	struct opcolumns ops;
	struct heaviest *blocks; /* NULL: not known */
	struct heapsum *heap; /* ended; NULL: not known */
	const char *recording; /* its name, as a shell takes it; NULL: none */
	int is_brief; /* of a running trace, sent again and again: the report without series */
	const struct export_at *at; /* the moment that the page opens with, at at_ts_ns; NULL: none */
	uint64_t at_ts_ns;
	struct html_oom ooms[OOMS_SHOWN];
	size_t ooms_cnt;
	uint64_t ooms_all;
	uint64_t events, first_ts_ns;
};

/* As text that may stand inside a script element: no <, > or & in it. 0 or -errno. */
int html_doc__write(struct html_doc *d, struct outbuf *o);
/* JSON, as such text. */
void html_put_escaped(struct outbuf *o, const char *text, size_t len);

#endif
