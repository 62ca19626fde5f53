/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tables_view: the main parts of a report, a table each, in text and in JSON: X.c has X's columns (view/table.h). */
#ifndef MT_VIEW_TABLES_TABLES_H
#define MT_VIEW_TABLES_TABLES_H

#include "timeline/report.h"
#include "view/table.h"

struct series;

/* ops.c; rows: struct report_op */
extern const struct table op_table, region_table;
void ops_text(struct page *p, const struct report *r, size_t top);
void regions_text(struct page *p, const struct report *r, size_t top);
void ops_summary(struct page *p, const struct report *r, size_t top); /* of operators those that had a part of the peak */
void ops_json(struct json *j, const struct report *r, size_t top); /* and regions */

/* blocks.c; rows: struct report_block, at the peak, at a refusal; struct report_tensor, their names in Python */
extern const struct table block_table, refused_table, tensor_table;
void blocks_text(struct page *p, const struct report *r, size_t top);
void blocks_json(struct json *j, const struct report *r, size_t top);
void tensors_text(struct page *p, const struct report *r, size_t top, int is_asked); /* is_asked: says why there are none */
void tensors_json(struct json *j, const struct report *r, size_t top); /* "names"; nothing if Python has no names */

/* procs.c; rows: struct report_proc */
extern const struct table proc_table;
/* For people: those that held something before the others, as they came. *at starts at 0; NULL ends it. */
const struct report_proc *proc_next(const struct report *r, size_t *at);
void procs_text(struct page *p, const struct report *r, size_t top, int is_brief);
/* At most `max`, the latest; live processes before ended ones. */
void procs_json(struct json *j, const struct report *r, size_t max);

/* devices.c, shown_if: what lives now, if something does; of a job that has ended it would be a column of zeros. */
int shows_live(const struct drawn *d);
/* devices side by side, the driver's memory, bytes by category; rows: report_dev, cat_row */
struct cat_row {
	uint8_t dev, category;
	struct report_cat cat;
	uint64_t mean; /* bytes */
};
extern const struct table dev_table, cat_table, cat_csv_table;
/* Returns how many; use: those, too, that the peak has by use alone. */
size_t cat_rows(const struct report *r, const struct report_dev *dev, struct cat_row rows[CAT_MAX], int use);
/* The same, by share of the peak; not all: without those that had nothing live then or now. */
size_t cat_rows_of_peak(const struct report *r, const struct report_dev *dev, struct cat_row rows[CAT_MAX], int all);
void devices_text(struct page *p, const struct report *r);
void cats_text(struct page *p, const struct report *r, int all); /* cat_rows_of_peak */
void devices_json(struct json *j, const struct report *r, int is_brief); /* "devices", "no_device", "host" */
void series_json(struct json *j, const struct report *r, const struct series *s, const char *key);

/* symbols.c: probed symbols and sources; rows: struct report_symbol */
extern const struct table symbol_table;
void symbols_text(struct page *p, const struct report *r, size_t top);
/* Those that fired or could not be set; thousands of operators do neither. */
void symbols_json(struct json *j, const struct report *r, int is_brief);
void covers_json(struct json *j, const struct report *r);   /* "sources" */
void late_ops_json(struct json *j, const struct report *r); /* "late" */

#endif
