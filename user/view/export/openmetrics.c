/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * openmetrics: a recording's final state, as OpenMetrics 1.0 text (view/metrics/metrics.h). Each sample carries the time of the
 * recording's end, so that `promtool tsdb create-blocks-from openmetrics` takes the file as well. Categories are final ones.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/export.h"
#include "view/fold/live.h"
#include "view/metrics/metrics.h"
#include "view/outbuf.h"

struct export_ctx {
	struct outbuf o;
	struct live *live;
};

static int put_all(struct export_ctx *c, const struct report *r)
{
	size_t cnt = live__lanes(c->live);
	struct report_lane *lanes = calloc(cnt + 1, sizeof(*lanes));
	struct metrics_opts opts = { .form = METRICS_OPENMETRICS, .lanes = lanes, .lanes_cnt = cnt,
				     .at_ms = (r->run.end_ts_ns + (uint64_t)r->run.epoch_off_ns) / 1000000 };

	if (!lanes)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		const struct lane *l = live__lane(c->live, i);

		lanes[i].pid = l->pid;
		lanes[i].dev = l->dev;
		memcpy(lanes[i].cats, l->cats, sizeof(lanes[i].cats));
	}
	metrics__write(&c->o, r, &opts);
	free(lanes);
	return 0;
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	c->live = live__new(to->labels);
	return c->live ? 0 : -ENOMEM;
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct live_change ch;
	int r = live__event(c->live, ev, &ch);

	(void)epoch_off_ns;
	return r < 0 ? r : 0;
}

static int end(struct export_ctx *c, const struct report *r)
{
	return r ? put_all(c, r) : 0;
}

static void done(struct export_ctx *c)
{
	live__free(c->live);
}

const struct export_format export_openmetrics = {
	.name = "openmetrics",
	.help = "the final state as OpenMetrics 1.0 text, for Prometheus",
	.needs = EXPORT_LABELS,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
