/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/rows.h"

#include <errno.h>
#include <string.h>

#include "timeline/labels.h"
#include "view/fold/line_sort.h"

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
	line_sort__free(c->sort);
	name_cache__done(&c->names);
}

/* --- --sort ------------------------------------------------------------------------------------------------- */

/* Frames of stacks, to which lines refer, come before all; lines without the sort key come after all. */
enum row_place { PLACE_FRAMES, PLACE_SORTED, PLACE_REST };

int export_rows__begin(struct export_ctx *c)
{
	if (!c->to->sort || !strcmp(c->to->sort, "time"))
		return 0;
	c->sort = line_sort__new(&c->o, 0);
	return c->sort ? 0 : c->o.err ? c->o.err : -ENOMEM;
}

static uint64_t size_of(const struct tl_event *ev)
{
	return ev->kind == TL_COMPILED ? ev->added : export_rows__is_block(ev) ? ev->size : TL_SIZE_UNKNOWN;
}

/* The text that lines are sorted by; 0: the line has none. */
static int text_of(const struct export_ctx *c, const struct tl_event *ev, const struct tl_learned *learned, name_id *ret)
{
	int is_life = ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING || ev->kind == TL_DESTROY;
	struct labels_name n;

	if (!strcmp(c->to->sort, "op")) {
		*ret = learned ? learned->op : ev->op;
		return ret->v != 0;
	}
	if (!strcmp(c->to->sort, "module")) {
		*ret = learned ? learned->module : ev->module;
		return is_life && (learned ? learned->root.v : ev->root.v);
	}
	if (!export_rows__is_block(ev) || !ev->id || !c->to->labels || !labels__name(c->to->labels, ev->id, &n))
		return 0;
	*ret = n.path;
	return 1;
}

int export_rows__put(struct export_ctx *c, const struct tl_event *ev, const struct tl_learned *learned)
{
	struct line_key key = { .place = PLACE_REST, .text = "" };
	name_id text = NAME_NONE;

	if (!c->sort)
		return c->o.err;
	if (ev->kind == TL_STACK) {
		key.place = PLACE_FRAMES;
	} else if (!strcmp(c->to->sort, "size")) {
		if (size_of(ev) != TL_SIZE_UNKNOWN) {
			key.place = PLACE_SORTED;
			key.num = size_of(ev);
		}
	} else if (text_of(c, ev, learned, &text)) {
		key.place = PLACE_SORTED;
		key.text = names__get(c->to->names, text);
		key.len = names__len(c->to->names, text);
	}
	return line_sort__put(c->sort, &key);
}

int export_rows__end(struct export_ctx *c, const struct report *r)
{
	return c->sort && r ? line_sort__end(c->sort) : 0;
}
