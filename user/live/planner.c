/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/planner.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "live/worker.h"
#include "target/counters.h"
#include "target/target.h"

#define END_S 3 /* no plan takes longer, unless a file system holds it up: then it is abandoned */

struct job {
	struct work work; /* first */
	struct job *next;
	struct target *target; /* held */
	struct plan_opts opts;
	struct names *names;
	int is_forgotten; /* atomic: a job that has not begun is skipped */
	struct planned is;
};

struct planner {
	struct worker *worker;
	struct plan_cache *cache; /* the thread's */
	struct job *jobs;	  /* requested and not taken */
	uint64_t tickets;
};

/* On the loop: this may drop the last reference to the target. */
static void job__free(struct job *j)
{
	plan__free(j->is.plan);
	names__free(j->names);
	target__free(j->target);
	free(j);
}

static void job__plan(struct job *j)
{
	j->is.r = plan__build(&j->is.plan, j->target, &j->opts, j->names, &j->is.err);
	if (!__atomic_load_n(j->opts.stop, __ATOMIC_RELAXED))
		j->is.counters_global = counters__global(j->target, j->opts.only_new_libs);
}

/* On the second thread. */
static void job__do(void *ctx, struct work *w)
{
	struct planner *p = ctx;
	struct job *j = (struct job *)w;
	uint64_t t0 = now_ns();
	int found;

	if (__atomic_load_n(&j->is_forgotten, __ATOMIC_RELAXED))
		return;
	found = target__refresh(j->target, &j->is.err);
	j->is.look_ns = now_ns() - t0;
	j->opts.cache = p->cache;
	j->opts.stop = worker__stop(p->worker);
	if (found < 0)
		j->is.r = found;
	else if (found || !j->opts.only_new_libs)
		job__plan(j);
	j->is.took_ns = now_ns() - t0;
}

int planner__new(struct planner **ret, struct err *err)
{
	struct planner *p = calloc(1, sizeof(*p));
	int r;

	if (p)
		p->cache = plan_cache__new();
	if (!p || !p->cache)
		r = err_set(err, -ENOMEM, "out of memory");
	else
		r = worker__new(&p->worker, job__do, p, "makes plans", err);
	if (r) {
		planner__free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void planner__free(struct planner *p)
{
	if (!p || worker__end(p->worker, END_S))
		return;
	while (p->jobs) {
		struct job *j = p->jobs;

		p->jobs = j->next;
		job__free(j);
	}
	worker__free(p->worker);
	plan_cache__free(p->cache);
	free(p);
}

int planner__fd(const struct planner *p)
{
	return worker__fd(p->worker);
}

uint64_t planner__ask(struct planner *p, struct target *t, const struct plan_opts *opts)
{
	struct job *j = calloc(1, sizeof(*j));

	if (j)
		j->names = names__new();
	if (!j || !j->names) {
		free(j);
		return 0;
	}
	target__hold(t);
	j->target = t;
	j->opts = *opts;
	j->is.ticket = ++p->tickets;
	j->next = p->jobs;
	p->jobs = j;
	worker__add(p->worker, &j->work);
	return j->is.ticket;
}

void planner__forget(struct planner *p, uint64_t ticket)
{
	for (struct job *j = p->jobs; j && ticket; j = j->next)
		if (j->is.ticket == ticket)
			__atomic_store_n(&j->is_forgotten, 1, __ATOMIC_RELAXED);
}

/* Moves its names into the loop's table. */
static void job__hand_out(struct job *j, struct names *names, struct planned *ret)
{
	if (j->is.plan && plan__rename(j->is.plan, j->names, names) < 0) {
		plan__free(j->is.plan);
		j->is.plan = NULL;
		j->is.r = err_set(&j->is.err, -ENOMEM, "out of memory");
	}
	*ret = j->is;
	j->is.plan = NULL;
	job__free(j);
}

int planner__next(struct planner *p, struct names *names, struct planned *ret)
{
	struct work *w;

	while ((w = worker__done(p->worker))) {
		struct job *j = (struct job *)w, **at = &p->jobs;

		while (*at != j)
			at = &(*at)->next;
		*at = j->next;
		if (!j->is_forgotten) {
			job__hand_out(j, names, ret);
			return 1;
		}
		job__free(j);
	}
	return 0;
}

size_t planner__waiting(const struct planner *p)
{
	size_t cnt = 0;

	for (const struct job *j = p->jobs; j; j = j->next)
		cnt += !j->is_forgotten;
	return cnt;
}
