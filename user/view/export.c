/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"
#include "view/selection_words.h"
#include "view/json.h"

static void free_ctx(const struct export_format *f, struct export_ctx *c)
{
	if (f->done)
		f->done(c);
	if (!f->writes_itself)
		outbuf__done((struct outbuf *)c);
	free(c);
}

int export_begin(const struct export_format *f, struct export_ctx **ret, const struct export_to *to)
{
	struct export_ctx *c = calloc(1, f->size);
	int r = 0;

	if (!c)
		return -ENOMEM;
	if (!f->writes_itself)
		r = outbuf__init((struct outbuf *)c, to->out);
	r = r ? r : f->begin(c, to);
	if (r)
		free_ctx(f, c);
	else
		*ret = c;
	return r;
}

/* What all formats get, or those that say so; labels' own kinds are a first pass's (timeline/labels.h). */
static bool takes(const struct export_format *f, const struct export_to *to, uint8_t kind)
{
	switch (kind) {
	case TL_MARK:
		return f->needs & EXPORT_MARKS;
	case TL_GAP:
		return f->needs & EXPORT_GAPS;
	case TL_COMPILED:
		return f->needs & EXPORT_COMPILES;
	case TL_PINNED:
		return f->needs & EXPORT_PINNED;
	case TL_LABEL:
		return !to->labels;
	case TL_FINAL:
	case TL_NAME:
	case TL_LEARNED:
	case TL_MODULE:
		return false;
	default:
		return true;
	}
}

int export_event(const struct export_format *f, struct export_ctx *c, const struct export_to *to, const struct tl_event *ev,
		 int64_t epoch_off_ns)
{
	return takes(f, to, ev->kind) ? f->event(c, ev, epoch_off_ns) : 0;
}

int export_end(const struct export_format *f, struct export_ctx *c, const struct report *r)
{
	int err, flushed;

	if (!c)
		return 0;
	err = f->end ? f->end(c, r) : 0;
	flushed = f->writes_itself ? 0 : outbuf__flush((struct outbuf *)c);
	free_ctx(f, c);
	return err ? err : flushed;
}

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

void export_part_line(struct outbuf *o, const struct export_to *to)
{
	struct json j;

	if (!to->part)
		return;
	json__init(&j, o);
	json__begin_flat(&j, NULL, '{');
	json__u64(&j, "t", to->report ? to->report->run.start_ts_ns + (uint64_t)to->report->run.epoch_off_ns : 0);
	json__str(&j, "ev", "filter");
	selection_json(&j, to->part);
	json__end(&j, '}');
}
