/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/rows.h"

#include "timeline/labels.h"

int export_rows__is_block(const struct tl_event *ev)
{
	return ev->kind <= TL_DESTROY || ev->kind == TL_OOM || ev->kind == TL_TAG || ev->kind == TL_LABEL;
}

int export_rows__has(const struct export_ctx *c, const struct tl_event *ev)
{
	if (!tl_kind_name(ev->kind) || (ev->kind == TL_LABEL && c->to->labels))
		return 0;
	return c->to->dev < 0 || !export_rows__is_block(ev) || ev->dev == c->to->dev;
}

const char *export_rows__cat(const struct export_ctx *c, const struct tl_event *ev)
{
	return tl_cat_name(c->to->labels ? labels__get(c->to->labels, ev->id, ev->version) : ev->cat);
}

void export_rows__done(struct export_ctx *c)
{
	name_cache__done(&c->names);
}
