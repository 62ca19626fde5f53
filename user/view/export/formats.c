/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export.h"

#include <string.h>

static const struct export_format *const formats[] = { &export_jsonl, &export_csv, &export_torch_timeline,
						      &export_torch_raw,
						       &export_torch_snapshot, &export_perfetto,
						       &export_chrome, &export_pprof, &export_folded,
						       &export_openmetrics, &export_sqlite, &export_html,
						       &export_op_trace, &export_trace_svg, NULL };

const struct export_format *const *export_formats(void)
{
	return formats;
}

const struct export_format *export_format_find(const char *name)
{
	for (size_t i = 0; formats[i]; i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}
