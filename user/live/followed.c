/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/followed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quota.h"
#include "target/pages.h"
#include "target/target.h"

/* --- plans ------------------------------------------------------------------------------------- */

struct plan_ref *plan_ref__new(struct plan *plan)
{
	struct plan_ref *ref = malloc(sizeof(*ref));
	uint8_t *seen = calloc(plan->guards_cnt + 1, 1);

	if (!ref || !seen) {
		plan__free(plan);
		free(ref);
		free(seen);
		return NULL;
	}
	*ref = (struct plan_ref){ .plan = plan, .seen = seen, .users = 1 };
	return ref;
}

void plan_ref__put(struct plan_ref *ref)
{
	if (--ref->users)
		return;
	plan__free(ref->plan);
	free(ref->seen);
	free(ref);
}

struct proc_plan *process__add_plan(struct process *p, struct plan_ref *ref, int is_full)
{
	struct proc_plan *plans = reallocarray(p->plans, p->plans_cnt + 1, sizeof(*plans));

	if (!plans)
		return NULL;
	p->plans = plans;
	plans[p->plans_cnt] = (struct proc_plan){ .ref = ref, .is_full = is_full };
	ref->users++;
	return &plans[p->plans_cnt++];
}

uint64_t plan_places(const struct plan *plan, const uint8_t *wanted, uint64_t *ret_sites)
{
	uint64_t files = 0, sites = 0;
	uint32_t lib = UINT32_MAX;

	for (size_t i = 0; i < plan->sites_cnt; i++) {
		if (wanted && !wanted[i])
			continue;
		files += plan->sites[i].lib != lib; /* sites of one file are mostly next to each other */
		lib = plan->sites[i].lib;
		sites++;
	}
	*ret_sites = sites;
	return files * FOLLOW_PLACES_FILE;
}

void process__drop_plans(struct process *p)
{
	for (size_t i = 0; i < p->plans_cnt; i++)
		plan_ref__put(p->plans[i].ref);
	free(p->plans);
	p->plans = NULL;
	p->plans_cnt = 0;
	memset(p->found, 0, sizeof(p->found));
	memset(p->attached, 0, sizeof(p->attached));
}

/* --- processes --------------------------------------------------------------------------------- */

/* The lowest free place, so that the table is never longer than the most processes at one time. */
static int followed__place(struct followed *f, size_t *ret)
{
	struct process **procs;

	for (size_t i = 0; f->live_cnt < f->procs_cnt && i < f->procs_cnt; i++) {
		if (!f->procs[i]) {
			*ret = i;
			return 0;
		}
	}
	procs = reallocarray(f->procs, f->procs_cnt + 1, sizeof(*procs));
	if (!procs)
		return -ENOMEM;
	f->procs = procs;
	procs[f->procs_cnt] = NULL;
	*ret = f->procs_cnt++;
	return 0;
}

static size_t followed__tree_cnt(const struct followed *f, pid_t tree)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->procs_cnt; i++)
		cnt += f->procs[i] && f->procs[i]->tree == tree;
	return cnt;
}

int process__new(struct process **ret, struct followed *f, pid_t pid, const struct process *parent, int may_have_others)
{
	pid_t group = parent ? parent->tree : getpgid(pid), tree = group > 0 ? group : pid;
	size_t cnt = followed__tree_cnt(f, tree);
	struct process *p;

	if (!quota_allows(cnt, f->live_cnt, FOLLOW_PROCS_MAX, may_have_others || cnt < f->live_cnt ? 2 : 1))
		return -ENOSPC;
	p = calloc(1, sizeof(*p));
	if (!p || followed__place(f, &p->index) < 0) {
		free(p);
		return -ENOMEM;
	}
	p->pid = pid;
	p->tree = tree;
	p->parent = parent ? parent->pid : 0;
	p->pidfd = p->lock_fd = -1;
	*ret = p;
	return 0;
}

void proc_counters__done(struct proc_counters *c)
{
	free(c->places);
	free(c->reported);
	*c = (struct proc_counters){ 0 };
}

void proc_usage__done(struct proc_usage *u)
{
	pages_walk__free(u->walk);
	*u = (struct proc_usage){ 0 };
}

void process__free(struct process *p)
{
	if (!p)
		return;
	proc_counters__done(&p->counters);
	proc_usage__done(&p->usage);
	target__free(p->target);
	process__drop_plans(p);
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->lock_fd >= 0)
		close(p->lock_fd);
	free(p);
}

void followed__add(struct followed *f, struct process *p)
{
	f->procs[p->index] = p;
	f->live_cnt++;
}

struct process *followed__take(struct followed *f, size_t index)
{
	struct process *p = index < f->procs_cnt ? f->procs[index] : NULL;

	if (!p)
		return NULL;
	f->procs[index] = NULL;
	f->live_cnt--;
	return p;
}

struct process *followed__find(const struct followed *f, pid_t pid)
{
	for (size_t i = f->procs_cnt; i-- > 0;)
		if (f->procs[i] && f->procs[i]->pid == pid)
			return f->procs[i];
	return NULL;
}

struct process *followed__next(const struct followed *f, size_t *at)
{
	while (*at < f->procs_cnt) {
		struct process *p = f->procs[(*at)++];

		if (p)
			return p;
	}
	return NULL;
}

size_t followed__pids(const struct followed *f, pid_t *ret, size_t max)
{
	const struct process *p;
	size_t cnt = 0;

	for (size_t at = 0; cnt < max && (p = followed__next(f, &at));)
		ret[cnt++] = p->pid;
	return cnt;
}

pid_t followed__tree(const struct followed *f, pid_t pid)
{
	const struct process *p = followed__find(f, pid);

	return p ? p->tree : pid;
}

int followed__may_probe(const struct followed *f, const struct process *p, uint64_t places, uint64_t max, int may_have_others)
{
	uint64_t all = 0, of_tree = 0;

	for (size_t i = 0; i < f->procs_cnt; i++) {
		const struct process *q = f->procs[i];

		all += q ? q->places : 0;
		of_tree += q && q->tree == p->tree ? q->places : 0;
	}
	return quota_allows_more(of_tree, places, all, max, may_have_others || of_tree < all ? 2 : 1);
}

void followed__done(struct followed *f)
{
	for (size_t i = 0; i < f->procs_cnt; i++)
		process__free(f->procs[i]);
	free(f->procs);
	*f = (struct followed){ 0 };
}
