/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/rows.h"

#include <errno.h>
#include <stdlib.h>

#include "timeline/labels.h"

int export_rows__begin(struct export_ctx **ret, const struct export_to *to,
		       void (*quote)(struct outbuf *o, const char *text, size_t len))
{
	struct export_ctx *c = calloc(1, sizeof(*c));

	if (!c || outbuf__init(&c->o, to->out)) {
		free(c);
		return -ENOMEM;
	}
	name_cache__init(&c->names, to->names, quote);
	c->to = to;
	*ret = c;
	return 0;
}

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

int export_rows__end(struct export_ctx *c, const struct report *r)
{
	int err;

	(void)r;
	if (!c)
		return 0;
	err = outbuf__flush(&c->o);
	outbuf__done(&c->o);
	name_cache__done(&c->names);
	free(c);
	return err;
}
