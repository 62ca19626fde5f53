/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* check: a recording's peak against a limit. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "event/event.h"
#include "replay/chosen.h"
#include "replay/replay.h"
#include "timeline/report.h"
#include "view/report_words.h"
#include "view/tables/check.h"

static int check_fill(const struct options *o, const struct report *r, struct check_view *v, struct err *err)
{
	char dev[16];

	*v = (struct check_view){ .r = r, .path = o->file, .category = o->category, .max = o->max_peak };
	v->dev = o->dev < 0 ? report_dev_main(r) : report_dev_find(r, (uint8_t)o->dev);
	if (!v->dev) {
		err_set(err, -ENODATA, "%s has no memory of %s", o->file,
			o->dev < 0 ? "any device" : dev_name((uint8_t)o->dev, dev));
		return err_hint(err, "memtrace report %.200s --by device shows what it has", o->file), -ENODATA;
	}
	if (o->category >= 0 && !r->has_flow) {
		err_set(err, -ENODATA, "%s has no data flow, so no categories", o->file);
		return err_hint(err, "record without --probes, or with framework,flow,regions"), -ENODATA;
	}
	v->bytes = o->category < 0 ? v->dev->peak : v->dev->cats[o->category].at_peak;
	return 0;
}

int cmd_check(const struct options *o, struct err *err)
{
	struct replay_opts ro = { .top = 1, .classes = o->classes };
	struct view_opts vo = view_opts_of(o);
	struct report *rep = NULL;
	struct check_view v;
	struct replay_end end = { 0 };
	struct chosen c;
	int r = find_chosen(&c, o, err), w;

	if (!r)
		r = chosen__run(&c, o->file, &ro, &rep, &end, err);
	if (!r)
		r = check_fill(o, rep, &v, err);
	if (!r) {
		if (!o->quiet)
			replay_say(o->file, rep->run.lost[MT_LOSS_DAMAGED], &end);
		w = o->json ? check_view_json(stdout, &v) :
		    o->md   ? check_view_md(stdout, &v) :
			      check_view_text(stdout, &v, &vo);
		r = w < 0 ? err_set(err, w, "writing: %s", strerror(-w)) :
		    v.bytes > v.max ? EXIT_LIMIT : loss_exit_code(o, rep);
	}
	report__free(rep);
	chosen__done(&c);
	return r;
}
