/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/estimate.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "estimate/tracker.h"

static int cannot_run(const struct est_doc *d, const struct est_graph *g, uint32_t node, uint32_t input, int r, struct err *err)
{
	const char *graph = names__get(d->words, g->name), *name = est_doc__name(d, &g->nodes[node]);

	if (r == -EEXIST)
		return err_set(err, -EINVAL, "graph '%.60s': its schedule runs node %u '%.80s' twice", graph, node, name);
	return err_set(err, -EINVAL,
		       "graph '%.60s': its schedule runs node %u '%.80s' when its input, node %u '%.80s', is not there",
		       graph, node, name, input, est_doc__name(d, &g->nodes[input]));
}

static int schedule__init(struct est_schedule *s, const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
			  const struct est_rules *rules, struct err *err)
{
	struct est_tracker *t;
	uint32_t input = 0;
	int r = 0;

	if (!g->has_schedule)
		return 0;
	t = est_tracker__new(d, g, a, rules);
	s->now = malloc((g->schedule_cnt + 1) * sizeof(*s->now));
	if (!t || !s->now) {
		est_tracker__free(t);
		return err_set(err, -ENOMEM, "out of memory");
	}
	s->start = est_tracker__now(t);
	for (size_t i = 0; i < g->schedule_cnt && !r; i++) {
		r = est_tracker__run(t, g->schedule[i], &input);
		if (r < 0)
			r = cannot_run(d, g, g->schedule[i], input, r, err);
		s->now[s->cnt++] = est_tracker__now(t);
	}
	s->peak = est_tracker__peak(t);
	s->left = g->nodes_cnt - est_tracker__ran(t);
	est_tracker__free(t);
	return r;
}

static int result__graph(struct est_result *res, size_t i, struct err *err)
{
	const struct est_graph *g = &res->d->graphs[i];
	struct est_rules rules = { .counts = res->counts, .kept = g == res->bwd ? res->pair.kept : NULL };
	struct est_alias a;
	int r = est_alias__init(&a, res->d, g);

	if (!r)
		r = est_profile__init(&res->profiles[i], res->d, g, &a, &rules);
	if (r < 0)
		return err_set(err, r, "out of memory");
	r = schedule__init(&res->schedules[i], res->d, g, &a, &rules, err);
	est_alias__done(&a);
	return r;
}

static int result__pair(struct est_result *res, struct err *err)
{
	struct est_alias a;
	int r;

	res->fwd = est_doc__find(res->d, EST_FORWARD);
	res->bwd = est_doc__find(res->d, EST_BACKWARD);
	if (!res->fwd || !res->bwd) {
		res->fwd = res->bwd = NULL;
		return 0;
	}
	r = est_alias__init(&a, res->d, res->fwd);
	if (r < 0)
		return err_set(err, r, "out of memory");
	r = est_pair__init(&res->pair, res->d, res->fwd, &a, res->bwd, res->counts, err);
	est_alias__done(&a);
	return r;
}

int est_result__init(struct est_result *res, const struct est_doc *d, uint64_t counts, struct err *err)
{
	int r;

	*res = (struct est_result){ .d = d, .counts = counts };
	r = result__pair(res, err);
	for (size_t i = 0; i < d->graphs_cnt && !r; i++)
		r = result__graph(res, i, err);
	if (!r && res->fwd) {
		int64_t fwd = res->profiles[res->fwd - d->graphs].peak;
		int64_t bwd = res->pair.baseline + res->profiles[res->bwd - d->graphs].peak;

		res->pair_peak = fwd > bwd ? fwd : bwd;
	}
	if (r < 0)
		est_result__done(res);
	return r;
}

void est_result__done(struct est_result *res)
{
	for (size_t i = 0; i < EST_GRAPHS_MAX; i++) {
		est_profile__done(&res->profiles[i]);
		free(res->schedules[i].now);
	}
	est_pair__done(&res->pair);
	*res = (struct est_result){ 0 };
}
