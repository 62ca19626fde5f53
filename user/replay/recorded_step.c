/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/recorded_step.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "replay/estimate_input.h"
#include "timeline/report.h"

static int take_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return step__event(ctx, ev);
}

int recorded_step__read(struct recorded_step *s, const struct estimate_input *in, struct err *err)
{
	struct replay_opts ro = { .top = 1, .event = take_event, .with_ops = 1, .with_nodes = 1, .ctx = &s->step };
	struct replay_end end;
	int r;

	*s = (struct recorded_step){ .has_result = false };
	step__init(&s->step, &in->recorded, &in->kept);
	r = chosen__run(&in->chosen, in->path, &ro, &s->report, &end, err);
	if (r)
		return r;
	r = step_result__init(&s->result, &s->step);
	s->has_result = !r;
	if (r == -E2BIG)
		return err_set(err, r, "the step of the peak is larger than memtrace takes (docs/estimate.md)");
	return !r || r == -ENODATA ? 0 : err_set(err, r, "the graph of the step: %s", strerror(-r));
}

void recorded_step__done(struct recorded_step *s)
{
	if (s->has_result)
		step_result__done(&s->result);
	step__done(&s->step);
	report__free(s->report);
}
