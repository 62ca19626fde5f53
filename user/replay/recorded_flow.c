/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/recorded_flow.h"

#include <string.h>

#include "base/err.h"
#include "timeline/report.h"
#include "view/tables/flow.h"

static int begin(void *ctx, const struct names *names)
{
	flow_view__names(ctx, names);
	return 0;
}

static int scan(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return flow_view__scan(ctx, ev);
}

static int show(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	return flow_view__event(ctx, ev, epoch_off_ns);
}

int recorded_flow__write(struct recorded_flow *f, struct flow_view *v, struct err *err)
{
	struct replay_opts first = { .top = 1, .begin = begin, .event = scan, .with_ops = 1, .ctx = v };
	struct replay_opts second = { .top = 1, .begin = begin, .event = show, .with_nodes = 1, .classes = f->classes,
				      .ctx = v };
	struct report *scanned = NULL;
	int r = chosen__run(f->chosen, f->path, &first, &scanned, &f->end, err), e;

	report__free(scanned);
	if (!r)
		r = chosen__run(f->chosen, f->path, &second, &f->report, &f->end, err);
	e = flow_view__end(v, &f->nodes);
	return r ? r : e < 0 ? err_set(err, e, "writing: %s", strerror(-e)) : 0;
}
