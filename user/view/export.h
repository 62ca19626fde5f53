/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * export: the formats behind view.h's table, and the words that they share. A format that is added
 * gets a file of its own and a line in export/formats.c.
 */
#ifndef MT_VIEW_EXPORT_H
#define MT_VIEW_EXPORT_H

#include "view/outbuf.h"
#include "view/view.h"

extern const struct export_format export_jsonl, export_csv, export_torch_timeline, export_torch_raw;
extern const struct export_format export_torch_snapshot, export_perfetto, export_chrome, export_pprof, export_folded;
extern const struct export_format export_openmetrics, export_sqlite, export_html, export_op_trace, export_trace_svg;

const char *tl_kind_name(uint8_t kind); /* "create" …, NULL: unknown */
const char *tl_cat_name(uint8_t cat);

/* Does the name, without a final .gz, end with suffix? A NULL path does not. */
int export_has_suffix(const char *path, const char *suffix);
int export_is_gzip(const char *path); /* ends in .gz: `out` reaches the disk compressed */
/* --device; without it, the devices that the report counts: the framework's, or malloc's if there is no other. */
int export_wants_dev(const struct export_to *to, uint8_t dev);
/* The first of JSON Lines of a part: {"t":…,"ev":"filter","filter":{…}}. Of all there is none. */
void export_part_line(struct outbuf *o, const struct export_to *to);

#endif
