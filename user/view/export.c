/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export.h"

#include <string.h>

int export_is_gzip(const char *path)
{
	size_t len = path ? strlen(path) : 0;

	return len > 3 && !strcmp(path + len - 3, ".gz");
}

int export_has_suffix(const char *path, const char *suffix)
{
	size_t len = path ? strlen(path) : 0, n = strlen(suffix);

	if (export_is_gzip(path))
		len -= 3;
	return len >= n && !memcmp(path + len - n, suffix, n);
}

int export_wants_dev(const struct export_to *to, uint8_t dev)
{
	const struct report *r = to->report;

	if (to->dev >= 0)
		return dev == to->dev;
	if (dev != MT_DEV_HOST)
		return 1;
	for (size_t i = 0; r && i < r->devs_cnt; i++)
		if (r->devs[i].dev != MT_DEV_HOST)
			return 0;
	return r != NULL;
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
