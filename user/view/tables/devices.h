/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* devices_view: devices side by side, what the driver gave them, and what is on them by category. */
#ifndef MT_VIEW_TABLES_DEVICES_H
#define MT_VIEW_TABLES_DEVICES_H

struct json;
struct page;
struct report;

void devices_text(struct page *p, const struct report *r); /* --by device */
void cats_text(struct page *p, const struct report *r);	   /* --by category */
void devices_json(struct json *j, const struct report *r, int is_brief); /* "devices", "no_device", "host" */
struct series;
void series_json(struct json *j, const struct report *r, const struct series *s, const char *key);

#endif
