/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* compiles: recompilations of torch.compile, as text and JSON (docs/compiled.md). */
#ifndef MT_VIEW_TABLES_COMPILES_H
#define MT_VIEW_TABLES_COMPILES_H

#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

struct report;

extern const struct table recompile_table; /* rows: struct report_recompile */
/* "Recompiles", where there are any: the most frequent reasons, `rows` of them at most; verbose: the last ones, too. */
void compiles_text(struct page *p, const struct report *r, size_t rows, int is_verbose);
void compiles_json(struct json *j, const struct report *r); /* "compiles", if anything was compiled */

#endif
