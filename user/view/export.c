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

const char *tl_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[TL_PREEXISTING] = "preexisting", [TL_CREATE] = "create", [TL_VERSION] = "version",
		[TL_DESTROY] = "destroy",	  [TL_OP] = "op",	  [TL_REGION] = "region",
		[TL_REGION_END] = "region_end",	  [TL_STEP] = "step",	  [TL_OOM] = "oom",
		[TL_TAG] = "tag",		  [TL_LABEL] = "label",	  [TL_NODE] = "node",
	};

	return kind < sizeof(names) / sizeof(names[0]) && names[kind] ? names[kind] : NULL;
}

const char *tl_cat_name(uint8_t cat)
{
	return category_name(cat < CAT_MAX ? (enum category)cat : CAT_UNKNOWN);
}
