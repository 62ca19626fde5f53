/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * All operators have probes at the attach: a job at its very beginning loses nothing. Operators that it never calls make the
 * hits of others more expensive (each hit looks its place up in a tree of all), so their probes are removed when no operator
 * was called for the first time for QUIET_NS and three whole steps. Where there are no steps, or very long ones, time alone
 * means nothing (a job may import and load data for minutes, and costs nothing meanwhile): there it takes NO_STEPS_HITS calls,
 * too.
 */
#define LOG_MODULE "follow"
#include "live/retire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "live/followed.h"
#include "live/idle.h"
#include "live/setter.h"
#include "event/event.h"
#include "keeper/keeper.h"
#include "model/model.h"

#define QUIET_NS 1000000000ull
#define QUIET_STEPS 4 /* boundaries */
#define NO_STEPS_NS 5000000000ull
#define LONG_STEPS_NS 60000000000ull
#define NO_STEPS_HITS 10000
#define LOOK_EVERY_NS 100000000ull
#define LOOK_TURN_NS 500000ull

/* An operator that is called although its probe was removed. */
struct late_op {
	name_id sym;
	pid_t pid;
	uint64_t since_ns; /* it had not been called at this time */
};
#define LATE_MAX 256 /* at one time */

struct retire {
	struct retire_env env;
	struct idle *idle;
	struct late_op late[LATE_MAX];
	size_t late_cnt;
	size_t settings;       /* number of settings under way for such operators */
	uint64_t news_ns;      /* when an operator was last new … */
	uint64_t news_hits;    /* … and the number of operator calls reported by then */
	uint64_t looked_up_ns; /* when a schema was looked up that caused this look; 0: none */
	uint64_t taken;	       /* probes removed */
	int has_news, has_retired;
	int is_away;	 /* no operator has a probe for now */
	int is_dropping; /* some idle operators still have their probes */
	uint64_t due_ns; /* no slice before this time */
	size_t turn; /* index of the process that is looked at first in the next turn */
};

struct retire *retire__new(const struct retire_env *env)
{
	struct retire *rt = calloc(1, sizeof(*rt));

	if (!rt)
		return NULL;
	rt->env = *env;
	rt->idle = idle__new();
	if (!rt->idle) {
		free(rt);
		return NULL;
	}
	return rt;
}

void retire__free(struct retire *rt)
{
	if (!rt)
		return;
	idle__free(rt->idle);
	free(rt);
}

const uint8_t *retire__wanted(struct retire *rt, const struct plan *plan)
{
	return idle__wanted(rt->idle, plan);
}

/* Operator calls reported so far. */
static uint64_t retire__hits(const struct retire *rt)
{
	struct trace_counters c;

	keeper__counters(rt->env.keeper, &c);
	return c.hits[MT_PROG_OP] + c.hits[MT_PROG_FLOW_OP];
}

void retire__news(struct retire *rt)
{
	struct process *p;

	rt->news_ns = now_ns();
	rt->news_hits = retire__hits(rt);
	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));)
		p->steps_base = model__steps_of(rt->env.model, (uint32_t)p->pid);
}

static void retire__push_idle(struct retire *rt)
{
	const struct process *p;
	uint32_t most = 0;

	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));) {
		for (size_t k = 0; k < p->plans_cnt; k++) {
			const struct proc_plan *pl = &p->plans[k];
			uint32_t cnt = pl->is_full ? 0 : idle__cnt(rt->idle, pl->ref->plan);

			most = cnt > most ? cnt : most;
		}
	}
	tell__event(&rt->env.tell, (struct event){ .kind = EV_IDLE, .size = most, .addr = rt->taken });
}

static void retire__push_late(struct retire *rt, const struct late_op *l)
{
	uint64_t now = now_ns();

	tell__event(&rt->env.tell, (struct event){ .ts_ns = now, .kind = EV_LATE_OP, .pid = (uint32_t)l->pid, .name = l->sym,
						  .size = now > l->since_ns ? now - l->since_ns : 0 });
}

struct use_look {
	struct retire *rt;
	struct process *p;
	const struct proc_plan *plan;
};

static void use_look__called(void *ctx, const struct site *s)
{
	struct use_look *l = ctx;
	struct retire *rt = l->rt;
	struct late_op late = { s->sym, l->p->pid, l->p->looked_ns };

	rt->has_news = 1;
	if (l->plan->is_full)
		return;
	if (rt->looked_up_ns > late.since_ns)
		late.since_ns = rt->looked_up_ns;
	if (rt->late_cnt < LATE_MAX)
		rt->late[rt->late_cnt++] = late;
	else
		retire__push_late(rt, &late);
}

/* Is the library mapped by a process that is followed? */
static int retire__is_used(void *ctx, uint64_t dev, uint64_t ino)
{
	const struct retire *rt = ctx;
	const struct process *p;

	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));)
		for (size_t i = 0; i < p->plans_cnt; i++)
			for (size_t k = 0; k < p->plans[i].ref->plan->libs_cnt; k++)
				if (p->plans[i].ref->plan->libs[k].dev == dev && p->plans[i].ref->plan->libs[k].ino == ino)
					return 1;
	return 0;
}

/* Finds the operators that a process has called since. */
static void retire__look(struct retire *rt, struct process *p)
{
	uint64_t begin = now_ns();

	for (size_t i = 0; i < p->plans_cnt; i++) {
		struct proc_plan *pl = &p->plans[i];
		int r;

		if (!pl->ref->plan->guards_cnt || pl->is_unread)
			continue;
		r = idle__look(rt->idle, p->target, pl->ref->plan, pl->ref->seen, use_look__called,
			       &(struct use_look){ rt, p, pl });
		if (r == -ENOSPC) {
			idle__prune(rt->idle, retire__is_used, rt);
			r = idle__look(rt->idle, p->target, pl->ref->plan, pl->ref->seen, use_look__called,
				       &(struct use_look){ rt, p, pl });
		}
		if (!r || r == -ESRCH)
			continue;
		pl->is_unread = 1;
		tell__note(&rt->env.tell, p->pid, "which operators were never called could not be read in a process: those "
						  "that have probes keep them");
		log_info("guards of process %d: %s", (int)p->pid, strerror(-r));
	}
	p->looked_ns = begin;
}

/* An operator called anywhere gets its probe everywhere, slice by slice: a new phase of a job begins with hundreds. */
static void retire__set_called(struct retire *rt, struct process *p)
{
	for (size_t i = 0; i < p->plans_cnt; i++) {
		struct plan_ref *ref = p->plans[i].ref;
		const uint8_t *wanted = p->plans[i].is_full ? NULL : idle__wanted(rt->idle, ref->plan);
		int r = wanted ? setter__add_late(rt->env.setter, p, ref, wanted) : 0;

		rt->settings += r > 0;
		if (r < 0)
			log_debug("late operators of process %d: %s", (int)p->pid, strerror(-r));
	}
}

/* Their calls may be missing up to now. */
static void retire__tell_late(struct retire *rt)
{
	for (size_t i = 0; i < rt->late_cnt; i++)
		retire__push_late(rt, &rt->late[i]);
	rt->late_cnt = 0;
	retire__push_idle(rt);
}

void retire__set_done(struct retire *rt)
{
	if (!--rt->settings)
		retire__tell_late(rt);
}

static void retire__settle(struct retire *rt)
{
	struct process *p;

	if (!rt->has_news)
		return;
	rt->has_news = 0;
	retire__news(rt);
	if (rt->is_away)
		rt->late_cnt = 0; /* not late: no operator is seen at all */
	if (!rt->has_retired || rt->is_away)
		return;
	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));)
		retire__set_called(rt, p);
	if (rt->settings)
		setter__turn(rt->env.setter); /* the first slice at once */
	else
		retire__tell_late(rt);
}

static void retire__look_at_all(struct retire *rt)
{
	struct process *p;

	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));)
		retire__look(rt, p);
}

void retire__late_ops(struct retire *rt)
{
	rt->looked_up_ns = keeper__looked_up(rt->env.keeper);
	if (rt->looked_up_ns && rt->has_retired) {
		retire__look_at_all(rt);
		retire__settle(rt);
	}
	rt->looked_up_ns = 0;
}

void retire__go_away(struct retire *rt)
{
	struct process *p;

	rt->is_away = rt->has_retired = 1;
	rt->is_dropping = 0;
	retire__look_at_all(rt);
	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));)
		for (size_t i = 0; i < p->plans_cnt; i++)
			p->plans[i].is_full = 0;
	retire__settle(rt);
}

void retire__come_back(struct retire *rt)
{
	retire__look_at_all(rt);
	retire__settle(rt);
	rt->is_away = 0;
	retire__push_idle(rt);
}

static int retire__may(const struct process *p, const struct proc_plan *pl)
{
	return !p->settings_cnt && pl->is_full && !pl->is_unread && pl->ref->plan->guards_cnt;
}

static int retire__is_quiet(const struct retire *rt)
{
	uint64_t age = now_ns() - rt->news_ns;
	int may = 0, has_steps = 0, is_stepping = 0;
	const struct process *p;

	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));) {
		uint64_t steps = model__steps_of(rt->env.model, (uint32_t)p->pid);

		for (size_t k = 0; k < p->plans_cnt; k++)
			may |= retire__may(p, &p->plans[k]);
		has_steps |= steps != 0;
		/* the count restarts when a better kind of mark appears */
		is_stepping |= steps && (steps >= p->steps_base ? steps - p->steps_base : steps) < QUIET_STEPS;
	}
	if (!may || age < QUIET_NS)
		return 0;
	if (has_steps && !is_stepping)
		return 1;
	return age >= (has_steps ? LONG_STEPS_NS : NO_STEPS_NS) && retire__hits(rt) - rt->news_hits >= NO_STEPS_HITS;
}

/* One slice of the removal: operators called meanwhile are wanted in the next one. */
static void retire__drop_idle(struct retire *rt, struct process *p, struct proc_plan *pl)
{
	struct retire_stats st = { .budget_ns = SLICE_NS };
	const uint8_t *wanted;
	int r;

	retire__look(rt, p);
	wanted = retire__may(p, pl) ? idle__wanted(rt->idle, pl->ref->plan) : NULL;
	r = wanted ? keeper__retire(rt->env.keeper, p->pid, pl->ref->plan, wanted, &st) : -ENODATA;
	rt->taken += st.taken;
	p->places -= p->places < st.taken ? p->places : st.taken;
	if (r == 1)
		return;
	pl->is_full = 0;
	if (r < 0) {
		pl->is_full = pl->is_unread = 1;
		log_info("idle operators of process %d stay: %s", (int)p->pid, strerror(-r));
		return;
	}
	log_debug("process %d: %u probes of idle operators taken away, %u set anew, the last in %llu us", (int)p->pid, st.taken,
		  st.kept, (unsigned long long)(st.took_ns / 1000));
}

static void retire__begin_drop(struct retire *rt)
{
	retire__look_at_all(rt);
	rt->is_dropping = !rt->has_news;
	rt->has_retired |= rt->is_dropping;
}

static void retire__go_on_drop(struct retire *rt)
{
	struct process *p;

	for (size_t at = 0; (p = followed__next(rt->env.followed, &at));) {
		for (size_t i = 0; i < p->plans_cnt; i++) {
			if (!retire__may(p, &p->plans[i]))
				continue;
			retire__drop_idle(rt, p, &p->plans[i]);
			rt->due_ns = now_ns() + REST_NS;
			return;
		}
	}
	rt->is_dropping = 0;
	retire__push_idle(rt);
}

void retire__turn(struct retire *rt)
{
	uint64_t begin = now_ns();

	for (size_t i = 0; i < rt->env.followed->procs_cnt && now_ns() - begin < LOOK_TURN_NS; i++) {
		struct process *p = rt->env.followed->procs[(rt->turn + i) % rt->env.followed->procs_cnt];

		if (p && begin >= p->looked_ns + LOOK_EVERY_NS)
			retire__look(rt, p);
	}
	rt->turn = rt->env.followed->procs_cnt ? (rt->turn + 1) % rt->env.followed->procs_cnt : 0;
	retire__settle(rt);
	if (rt->is_away)
		return;
	if (!rt->is_dropping && retire__is_quiet(rt))
		retire__begin_drop(rt);
	else if (rt->is_dropping && begin >= rt->due_ns)
		retire__go_on_drop(rt);
	retire__settle(rt);
}
