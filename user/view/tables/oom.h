/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* oom_view: post-mortems (struct report_oom), in text and JSON. Nothing where there is none. */
#ifndef MT_VIEW_TABLES_OOM_H
#define MT_VIEW_TABLES_OOM_H

struct json;
struct page;
struct report;

void oom_text(struct page *p, const struct report *r);
void oom_json(struct json *j, const struct report *r);

#endif
