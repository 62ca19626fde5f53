/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "follow"
#include "live/probing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "event/decode.h"
#include "keeper/keeper.h"
#include "live/followed.h"
#include "live/gpu_counters.h"
#include "live/planner.h"
#include "live/retire.h"
#include "live/setter.h"
#include "model/model.h"
#include "target/target.h"

/* With only the marks of steps set, steps are watched for a while, to compare the later ones with. */
#define LOOK_STEPS 6 /* boundaries */
#define LOOK_MIN_NS 150000000ull
#define LOOK_NS 400000000ull
#define LOOK_NO_STEPS_NS 250000000ull
#define LOOK_REST 4 /* times the duration of a look at a process's libraries: the pause after it */

struct probing {
	struct probing_env env;
	struct retire *retire;
	struct planner *planner;
	struct setter *setter;
	struct err failed; /* the first failure of a process that the user named; code 0: none */
	int has_started;   /* nothing that is set from now on is waited for */
	size_t awaited_plans;
	uint64_t sites_left_out, files_left_out;
	int is_new; /* some plan was set whole since the last change of level */
	int has_perf; /* each place is a descriptor of its own */
};

/* --- results of a plan ---------------------------------------------------------------------------------- */

static void probing__push_covers(struct probing *g, const struct process *p)
{
	for (unsigned i = 0; i < SRC_CNT; i++) {
		uint64_t found = p->found[i], attached = p->attached[i];

		if ((enum source)(1u << i) == SRC_KERNEL && (g->env.plan.sources & SRC_KERNEL))
			found = attached = 2; /* sys_exit, sched_process_exit */
		if (!found)
			continue;
		tell__event(&g->env.tell, (struct event){ .kind = EV_COVER, .pid = (uint32_t)p->pid,
						       .name = names__add(g->env.tell.names, source_name(1u << i)),
						       .addr = found, .size = attached });
	}
}

/* The result for each symbol. Return sites belong to the symbol's entry. */
static void probing__push_sites(struct probing *g, const struct process *p, const struct plan *plan,
			       const uint8_t *failed)
{
	for (size_t i = 0; i < plan->sites_cnt; i++) {
		const struct site *s = &plan->sites[i];

		if (!s->is_ret)
			tell__event(&g->env.tell, (struct event){
				.kind = EV_SITE, .pid = (uint32_t)p->pid, .name = s->sym, .aux = s->prog,
				.addr = 1, .size = !failed[i], .flags = (uint8_t)__builtin_ctz(s->source) });
	}
}

/* Once everything under way in the process is set. */
static void probing__say_attached(const struct probing *g, struct process *p)
{
	const struct proc_attach at = p->attach;
	char comm[TEXT_BYTES_MAX];

	if (p->settings_cnt || !at.since_ns)
		return;
	p->attach = (struct proc_attach){ 0 };
	/* A shell around the job: no line for it, but for what it starts. */
	if (g->env.quiet || (!at.attached && !at.failed && g->env.plan.sources != SRC_KERNEL))
		return;
	fprintf(stderr, "attached to %d (%s) in %llu ms: %u of %u probes", (int)p->pid,
		safe_text(comm, target__comm(p->target)), (unsigned long long)((now_ns() - at.since_ns) / 1000000),
		at.attached, at.attached + at.failed);
	for (unsigned i = 0; i < SRC_CNT; i++)
		if (at.attached_by_source[i])
			fprintf(stderr, ", %s %llu", source_name(1u << i), (unsigned long long)at.attached_by_source[i]);
	fprintf(stderr, "%s%s\n", g->env.plan.sources & SRC_KERNEL ? ", kernel" : "", at.way ? " (perf uprobes)" : "");
	fflush(stderr);
}

static void probing__add_stats(struct process *p, const struct attach_stats *st)
{
	p->attach.attached += st->attached;
	p->attach.failed += st->failed;
	p->attach.way |= st->way;
	for (unsigned i = 0; i < SRC_CNT; i++) {
		p->found[i] += st->found_by_source[i];
		p->attached[i] += st->attached_by_source[i];
		p->attach.attached_by_source[i] += st->attached_by_source[i];
	}
}

static void probing__set_failed(struct probing *g, const struct setting *one, int r, const struct err *err)
{
	if (one->is_named && !g->failed.code) {
		g->failed = *err;
		g->failed.code = r;
	} else if (r != -ESRCH && !one->is_named) {
		log_warn("process %d: %s", (int)one->p->pid, err->msg);
	}
}

/* 1: a process at work has shown its steps, or that it has none. */
static int probing__has_looked(struct probing *g, struct setting *one)
{
	uint64_t steps = model__steps_of(g->env.model, (uint32_t)one->p->pid), age;

	if (one->is_hasty || !(g->env.plan.sources & SRC_REGIONS))
		return 1;
	if (!one->look_ns) {
		one->look_ns = now_ns();
		one->look_steps = steps;
	}
	age = now_ns() - one->look_ns;
	return age >= LOOK_NS || (steps >= one->look_steps + LOOK_STEPS && age >= LOOK_MIN_NS) ||
	       (steps == one->look_steps && age >= LOOK_NO_STEPS_NS);
}

static int probing__may_begin(void *ctx, struct setting *one)
{
	struct probing *g = ctx;

	if (!probing__has_looked(g, one))
		return 0;
	tell__event(&g->env.tell, (struct event){ .kind = EV_ATTACH, .pid = (uint32_t)one->p->pid, .flags = EV_ATTACH_BEGINS });
	return 1;
}

static void probing__push_attach(struct probing *g, const struct setting *one)
{
	uint64_t now = now_ns();

	if (one->begin_ns)
		tell__event(&g->env.tell, (struct event){
			.ts_ns = now, .kind = EV_ATTACH, .pid = (uint32_t)one->p->pid, .sites = one->st.attached,
			.took_ns = now - one->begin_ns, .slices = one->st.slices,
			.longest_us = (uint32_t)(one->st.longest_ns / 1000) });
}

/* Charges the process for what was set (a part, with -ECANCELED). Late operators were not charged before. */
static void probing__settle_places(struct probing *g, const struct setting *one)
{
	struct process *p = one->p;

	p->places -= one->places + one->file_places;
	p->places += one->st.set + (one->st.set ? one->file_places : 0);
	g->has_perf |= one->st.way;
}

static void probing__note_left_out(const struct probing *g, const struct setting *one)
{
	const struct tell *tell = &g->env.tell;
	pid_t pid = one->p->pid;

	if (one->st.clashed)
		tell__note(tell, pid, "USDT probes with a semaphore could not be set: another tool has probes there without "
				      "it; end that tool and attach again");
	if (one->st.classes_left_out)
		tell__note(tell, pid, "some classes of this process's objects found no room among those of all processes: what "
				      "is done with such objects is not read");
	if (one->st.slots_left_out)
		tell__note(tell, pid, "this process has more probed functions than are counted each: some of them are shown as "
				      "never called, though what they report is there");
}

/* Adds the result of a plan in a process to the sums, and reports it. */
static void probing__set_done(void *ctx, struct setting *one, int r, struct err *err)
{
	const struct plan *plan = one->ref->plan;
	struct process *p = one->p;
	struct probing *g = ctx;

	probing__settle_places(g, one);
	if (one->is_again) {
		if (r < 0 && r != -ECANCELED && r != -ESRCH)
			log_warn("process %d: %s", (int)p->pid, err->msg);
		return;
	}
	if (one->is_late) {
		if (r < 0)
			log_debug("late operators of process %d: %s", (int)p->pid, r == -ECANCELED ? "it is over" : err->msg);
		retire__set_done(g->retire);
		return;
	}
	if (r < 0 && r != -ECANCELED && (r != -ESRCH || target__alive(p->target))) {
		probing__set_failed(g, one, r, err);
		return;
	}
	probing__add_stats(p, &one->st);
	probing__push_covers(g, p);
	if (r < 0) { /* the process has ended, or runs another program now */
		if (one->is_named && !g->failed.code && !target__alive(p->target))
			err_set(&g->failed, -ESRCH, "process %d ended while it was being attached", (int)p->pid);
		return;
	}
	probing__push_attach(g, one);
	if (!one->is_inherited)
		probing__push_sites(g, p, plan, one->st.site_failed);
	probing__note_left_out(g, one);
	if (plan->guards_cnt)
		retire__news(g->retire);
	probing__say_attached(g, p);
}

/* --- plans being set ------------------------------------------------------------------------------------ */

/* A process loads one library after the other. One process of a tree is noted, the others are counted. */
static void probing__has_no_places(struct probing *g, struct process *p, uint64_t sites)
{
	const struct process *kin;

	g->sites_left_out += sites;
	for (size_t at = 0; (kin = followed__next(g->env.followed, &at));)
		if (kin->tree == p->tree && kin->is_places_over)
			return;
	p->is_places_over = 1;
	tell__note(&g->env.tell, p->pid, "this process, with its kin, has as many probes in its libraries as leave room for "
					 "others: none are set in further ones");
}

/* Begins to set a plan in a process, and keeps a reference to the plan. */
static int probing__set(struct probing *g, struct process *p, struct plan_ref *ref, const struct set_how *how,
			struct err *err)
{
	const struct plan *plan = ref->plan;
	int is_full = how->is_full || !plan->guards_cnt;
	const uint8_t *wanted = is_full ? NULL : retire__wanted(g->retire, plan);
	uint64_t sites, files = plan_places(plan, wanted, &sites);
	struct setting *one = NULL;

	if (sites && !followed__may_probe(g->env.followed, p, sites + files,
					  g->has_perf ? FOLLOW_PLACES_PERF_MAX : FOLLOW_PLACES_MAX, g->env.all)) {
		probing__has_no_places(g, p, sites);
		return 0;
	}
	if (process__add_plan(p, ref, is_full))
		one = setter__add(g->setter, p, ref, wanted);
	if (!one || decode__add_vtables(g->env.decode, (uint32_t)p->pid, plan->vtables, plan->vtables_cnt) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (is_full && plan->guards_cnt)
		retire__news(g->retire);
	for (size_t i = 0; i < plan->notes_cnt; i++)
		tell__note(&g->env.tell, p->pid, plan->notes[i]);
	g->is_new = 1;
	one->places = sites;
	one->file_places = files;
	p->places += sites + files;
	one->is_inherited = how->is_inherited;
	one->is_hasty = how->is_hasty;
	one->is_at_work = how->is_at_work;
	one->is_named = how->is_named;
	one->is_awaited = !g->has_started;
	if (how->is_still || !plan->sites_cnt)
		setter__run(g->setter, one);
	return 0;
}

/* --- plans requested ------------------------------------------------------------------------------------------ */

int probing__plan(struct probing *g, struct process *p, int only_new, const struct set_how *how, struct err *err)
{
	struct plan_opts po = g->env.plan;

	po.only_new_libs = only_new;
	p->asked = (struct proc_asked){ .only_new = only_new != 0, .is_named = how->is_named != 0,
					.is_hasty = how->is_hasty != 0, .is_still = how->is_still != 0,
					.is_awaited = !g->has_started,
					.ticket = planner__ask(g->planner, p->target, &po) };
	g->awaited_plans += p->asked.ticket && p->asked.is_awaited;
	return p->asked.ticket ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* The plan is there, or no longer fits: the process has ended or runs another program. */
static void probing__unask(struct probing *g, struct process *p)
{
	planner__forget(g->planner, p->asked.ticket);
	g->awaited_plans -= p->asked.ticket && p->asked.is_awaited;
	p->asked.ticket = 0;
}

static struct process *probing__find_asker(const struct probing *g, uint64_t ticket)
{
	struct process *p;

	for (size_t at = 0; (p = followed__next(g->env.followed, &at));)
		if (p->asked.ticket == ticket)
			return p;
	return NULL;
}

/* Begins to set a plan that is ready. */
static int probing__set_planned(struct probing *g, struct process *p, struct plan *plan, struct err *err)
{
	struct set_how how = { .is_full = 1, .is_hasty = p->asked.is_hasty, .is_named = p->asked.is_named,
			       .is_still = p->asked.is_still,
			       .is_at_work = p->asked.only_new && model__steps_of(g->env.model, (uint32_t)p->pid) };
	unsigned changed = plan__drop_changed(plan);
	struct plan_ref *ref;
	int r = 0;

	if (changed)
		log_info("%u files of process %d were changed while it was planned", changed, (int)p->pid);
	g->files_left_out += plan->files_left_out;
	ref = plan_ref__new(plan);
	if (!ref)
		return err_set(err, -ENOMEM, "out of memory");
	if (plan->sites_cnt || plan->notes_cnt)
		r = probing__set(g, p, ref, &how, err);
	plan_ref__put(ref);
	return r;
}

/* A first plan, one after an exec, or one of new libraries; there may be no plan. */
static void probing__take_plan(struct probing *g, struct process *p, struct planned *pl)
{
	struct proc_asked asked = p->asked;
	struct err err = pl->err;
	int r = pl->r;

	probing__unask(g, p);
	gpu_counters__know(p, pl->counters_global);
	p->look_ns = now_ns() + LOOK_REST * pl->look_ns;
	if (!r && !pl->plan)
		return;
	log_debug("plan of process %d in %.1f ms", (int)p->pid, (double)pl->took_ns / 1e6);
	if (!r)
		r = probing__set_planned(g, p, pl->plan, &err);
	if (r == -ENOENT && (!asked.is_named || asked.is_still)) /* libraries are probed as they come */
		r = 0;
	if ((!r || r == -ESRCH) && asked.is_named && !target__alive(p->target))
		r = err_set(&err, -ESRCH, "process %d ended while it was being attached", (int)p->pid);
	if (r < 0 && asked.is_named && !g->failed.code) {
		g->failed = err;
		g->failed.code = r;
	} else if (r < 0 && r != -ESRCH) {
		log_warn("%s of process %d: %s", asked.only_new ? "new libraries" : "probes", (int)p->pid, err.msg);
	}
	if (!r && !asked.is_still)
		probing__say_attached(g, p);
}

int probing__inherit(struct probing *g, struct process *p, const struct process *parent, struct err *err)
{
	int r = 0;

	gpu_counters__know(p, parent->counters.global);
	for (size_t i = 0; i < parent->plans_cnt && !r; i++) {
		struct set_how how = { .is_full = parent->plans[i].is_full, .is_inherited = 1, .is_hasty = 1 };

		r = probing__set(g, p, parent->plans[i].ref, &how, err);
	}
	probing__say_attached(g, p);
	return r;
}

void probing__drop(struct probing *g, struct process *p)
{
	probing__unask(g, p);
	setter__drop(g->setter, p);
}

/* --- all processes ------------------------------------------------------------------------------------------------ */

int probing__plans_fd(const struct probing *g)
{
	return planner__fd(g->planner);
}

void probing__plan_ready(struct probing *g)
{
	struct planned pl;
	struct process *p;

	if (!planner__next(g->planner, g->env.tell.names, &pl))
		return;
	p = probing__find_asker(g, pl.ticket);
	if (p)
		probing__take_plan(g, p, &pl);
	else
		plan__free(pl.plan);
}

uint64_t probing__sites_left_out(const struct probing *g)
{
	return g->sites_left_out;
}

uint64_t probing__files_left_out(const struct probing *g)
{
	return g->files_left_out;
}

void probing__turn_idle(struct probing *g)
{
	retire__turn(g->retire);
}

void probing__turn(struct probing *g)
{
	setter__turn(g->setter);
}

int probing__sleep_ms(const struct probing *g)
{
	return setter__sleep_ms(g->setter);
}

int probing__awaits(struct probing *g, struct err *err)
{
	if (g->failed.code) {
		*err = g->failed;
		return err->code;
	}
	g->has_started = !g->awaited_plans && !setter__is_awaited(g->setter);
	return !g->has_started;
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

int probing__is_setting(const struct probing *g)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(g->env.followed, &at));)
		if (p->asked.ticket && !p->asked.only_new)
			return 1;
	return !setter__is_idle(g->setter);
}

int probing__is_watching(const struct probing *g)
{
	return g->awaited_plans || setter__is_watching(g->setter);
}

int probing__is_new(const struct probing *g)
{
	return g->is_new;
}

int probing__lower(struct probing *g, enum mt_level level)
{
	struct process *p;
	int is_going = 0;

	if (g->has_perf)
		return -EOPNOTSUPP;
	if (g->is_new || level < MT_LEVEL_FULL)
		retire__go_away(g->retire);
	g->is_new = 0;
	for (size_t at = 0; (p = followed__next(g->env.followed, &at));) {
		uint64_t taken;
		int r = keeper__lower(g->env.keeper, p->pid, level, &taken);

		if (r == -EOPNOTSUPP)
			return r;
		p->places -= p->places < taken ? p->places : taken;
		is_going |= r == 1;
	}
	return is_going;
}

void probing__raise(struct probing *g)
{
	struct process *p;

	retire__come_back(g->retire);
	for (size_t at = 0; (p = followed__next(g->env.followed, &at));) {
		for (size_t i = 0; i < p->plans_cnt; i++) {
			struct plan_ref *ref = p->plans[i].ref;
			const uint8_t *wanted = ref->plan->guards_cnt && !p->plans[i].is_unread ?
							retire__wanted(g->retire, ref->plan) : NULL;
			struct setting *one = setter__add(g->setter, p, ref, wanted);

			if (!one) {
				log_warn("process %d: out of memory", (int)p->pid);
				continue;
			}
			one->is_again = 1;
			one->begin_ns = now_ns();
		}
	}
}

void probing__late_ops(struct probing *g)
{
	retire__late_ops(g->retire);
}

void probing__end(struct probing *g)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(g->env.followed, &at));)
		if (p->settings_cnt)
			tell__note(&g->env.tell, p->pid, "the trace ended before all probes of a process were set");
	setter__drop(g->setter, NULL);
	for (size_t at = 0; (p = followed__next(g->env.followed, &at));)
		keeper__detach(g->env.keeper, p->pid);
}

/* --- life -------------------------------------------------------------------------------------------------- */

int probing__new(struct probing **ret, const struct probing_env *env, struct err *err)
{
	struct probing *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return err_set(err, -ENOMEM, "out of memory");
	g->env = *env;
	g->setter = setter__new(env->keeper, probing__may_begin, probing__set_done, g);
	g->retire = retire__new(&(struct retire_env){ .followed = env->followed, .keeper = env->keeper, .setter = g->setter,
						      .model = env->model, .tell = env->tell });
	r = g->retire && g->setter ? planner__new(&g->planner, err) : err_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		probing__free(g);
		return r;
	}
	*ret = g;
	return 0;
}

void probing__free(struct probing *g)
{
	if (!g)
		return;
	planner__free(g->planner);
	setter__free(g->setter);
	retire__free(g->retire);
	free(g);
}
