/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * segments_view: the driver's layer of a device and how the framework uses it, in text and JSON.
 * Nothing is written for a device whose layer was not seen.
 */
#ifndef MT_VIEW_TABLES_SEGMENTS_H
#define MT_VIEW_TABLES_SEGMENTS_H

#include "view/table.h"

struct report_dev;
struct report_segments;

const char *seg_kind_words(unsigned kind); /* for people */
const char *backend_name(unsigned backend);  /* "caching", "cudaMallocAsync" …; enum report_backend */
int segments_are_seen(const struct report_segments *s);
double segments_fragmentation(const struct report_segments *s); /* 1 - largest free / free; 0 of nothing */

void segments_text(struct page *p, const struct report *r, const struct report_dev *d, int is_verbose);
void segments_text_host(struct page *p, const struct report *r); /* pinned memory, and memory without a device */
void segments_json(struct json *j, const struct report *r, const struct report_dev *d);
extern const struct table segment_table; /* rows: struct report_seg_row */
void segments_json_host(struct json *j, const struct report *r);

#endif
