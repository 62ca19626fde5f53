/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/held_moment.h"

#include <errno.h>

#include "base/err.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "view/fold/holdings.h"

static int learn(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct held_moment *m = ctx;
	int r = labels__event(m->labels, ev);

	(void)epoch_off_ns;
	return r ? r : filter__learn(&m->filter, ev);
}

static int hold(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct held_moment *m = ctx;
	struct tl_event named;

	(void)epoch_off_ns;
	if (!ev->module_number)
		return holdings__event(m->held, ev);
	named = *ev;
	labels__module(m->labels, &named);
	return holdings__event(m->held, &named);
}

int held_moment__learn(struct held_moment *m, const struct selection *asked, const char *path, enum classes classes,
		       struct err *err)
{
	struct replay_opts first = { .top = SIZE_MAX, .event = learn, .with_nodes = 1, .classes = classes, .names = &m->names,
				     .ctx = m };
	struct replay_end end;
	int r;

	*m = (struct held_moment){ .path = path, .classes = classes };
	filter__init(&m->filter, asked, path);
	m->filter.classes = classes;
	m->filter.wants_peak = 1;
	r = labels__new(&m->labels, err);
	return r ? r : replay_run(path, &first, &m->report, &end, err);
}

int held_moment__hold(struct held_moment *m, unsigned depth, struct err *err)
{
	struct replay_opts second = { .top = 1, .event = hold, .classes = m->classes, .ctx = m };
	struct report *rep = NULL;
	int r = filter__settle(&m->filter, m->report, m->labels, m->names, err);

	if (r)
		return r;
	m->held = holdings__new(&m->filter.sieve, m->filter.peak_ns, m->report);
	if (!m->held)
		return err_set(err, -ENOMEM, "out of memory");
	r = replay_run(m->path, &second, &rep, &m->end, err);
	report__free(rep);
	return !r && holdings__end(m->held, depth) ? err_set(err, -ENOMEM, "out of memory") : r;
}

void held_moment__done(struct held_moment *m)
{
	holdings__free(m->held);
	filter__done(&m->filter);
	labels__free(m->labels);
	names__free(m->names);
	report__free(m->report);
}
