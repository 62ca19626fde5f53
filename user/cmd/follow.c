/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A forked child runs the same files at the same addresses, so it is attached with its parent's
 * plans, without planning again: DataLoader workers come by the dozen. An exec throws all of it away.
 * Between a fork and our attach the child runs unseen for some milliseconds: the kernel offers no way
 * to inherit the probes of a process filter.
 */
#define LOG_MODULE "follow"
#include "cmd/follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/followed.h"
#include "cmd/lock.h"
#include "cmd/planner.h"
#include "cmd/retire.h"
#include "cmd/usage.h"
#include "event/decode.h"
#include "target/jobs.h"
#include "target/sideband.h"
#include "target/target.h"
#include "trace/trace.h"
#include "view/text.h"

#define MET_MAX 64

struct follow {
	struct follow_env env;
	struct followed followed;
	struct usage usage;
	struct retire *retire;
	struct planner *planner;
	size_t users_waiting; /* processes that the user asked for, whose first plan is not there yet */
	uint64_t sideband_lost, files_lost;
	/* env.all: jobs that were met since the last settling, and those that could not be attached to */
	pid_t met[MET_MAX], refused[MET_MAX];
	size_t met_cnt, refused_cnt;
	int has_missed; /* some found no room: all are looked at */
	int is_cut_told;
	int has_lost;	/* sideband records: everything is looked at again */
};

static void follow__push_proc(struct follow *f, struct process *p, enum ev_proc_how how, pid_t ppid)
{
	const char *const *labels;
	size_t cnt = target__labels(p->target, &labels);

	f->env.push(f->env.ctx, (struct event){
		.kind = EV_PROC,
		.pid = (uint32_t)p->pid,
		.tid = (uint32_t)p->pid,
		.aux = (uint32_t)ppid,
		.flags = (uint8_t)how,
		.size = target__start_ns(p->target),
		.addr = names__add(f->env.names, target__cmdline(p->target)).v,
		.name = names__add(f->env.names, target__comm(p->target)) });
	for (size_t i = 0; i < cnt; i++)
		f->env.push(f->env.ctx, (struct event){ .kind = EV_LABEL, .pid = (uint32_t)p->pid,
						       .name = names__add(f->env.names, labels[i]) });
	if (f->env.plan.sources & SRC_KERNEL)
		usage__push_rss(&f->usage, p, 1);
	usage__push_cpu(&f->usage, p);
}

static void follow__push_covers(struct follow *f, const struct process *p)
{
	for (unsigned i = 0; i < SRC_CNT; i++) {
		uint64_t found = p->found[i], attached = p->attached[i];

		if ((enum source)(1u << i) == SRC_KERNEL && (f->env.plan.sources & SRC_KERNEL))
			found = attached = 2; /* sys_exit, sched_process_exit */
		if (!found)
			continue;
		f->env.push(f->env.ctx, (struct event){ .kind = EV_COVER, .pid = (uint32_t)p->pid,
						       .name = names__add(f->env.names, source_name(1u << i)),
						       .addr = found, .size = attached });
	}
}

static int follow__add_vtables(struct follow *f, const struct process *p, const struct plan *plan)
{
	_Static_assert(sizeof(struct vtable) == sizeof(struct decode_vtable), "the same two fields");

	if (!plan->vtables_cnt)
		return 0;
	return decode__add_vtables(f->env.decode, (uint32_t)p->pid, (const struct decode_vtable *)plan->vtables,
				   plan->vtables_cnt);
}

/* What became of each symbol. Return sites belong to the symbol's entry. */
static void follow__push_sites(struct follow *f, const struct process *p, const struct plan *plan,
			       const uint8_t *failed)
{
	for (size_t i = 0; i < plan->sites_cnt; i++) {
		const struct site *s = &plan->sites[i];

		if (!s->is_ret)
			f->env.push(f->env.ctx, (struct event){
				.kind = EV_SITE, .pid = (uint32_t)p->pid, .name = s->sym, .aux = s->prog,
				.addr = 1, .size = !failed[i], .flags = (uint8_t)__builtin_ctz(s->source) });
	}
}

/*
 * Sets a plan in a process, keeps a reference to it, and adds what became of it to the sums. is_full: with the operators
 * that nobody has called.
 */
static int follow__set(struct follow *f, struct process *p, struct plan_ref *ref, int is_full, struct attach_stats *ret,
			struct err *err)
{
	const struct plan *plan = ref->plan;
	struct attach_stats st = { .site_failed = calloc(plan->sites_cnt + 1, 1) };
	int r;

	if (!st.site_failed || !process__add_plan(p, ref, is_full || !plan->guards_cnt)) {
		free(st.site_failed);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (!is_full && plan->guards_cnt)
		st.wanted = retire__wanted(f->retire, plan);
	else if (plan->guards_cnt)
		retire__news(f->retire);
	r = tracer__attach(f->env.tracer, p->pid, plan, &st, err);
	if (!r && ref->users <= 2) /* the planner's and this process's: not the plan of a parent again */
		follow__push_sites(f, p, plan, st.site_failed);
	free(st.site_failed);
	if (r < 0)
		return r;
	ret->attached += st.attached;
	ret->failed += st.failed;
	if (st.clashed)
		f->env.push(f->env.ctx, (struct event){
			.kind = EV_NOTE, .pid = (uint32_t)p->pid,
			.name = names__add(f->env.names, "USDT probes with a semaphore could not be set: another tool has "
							 "probes there without it; end that tool and attach again") });
	ret->way = st.way;
	for (unsigned i = 0; i < SRC_CNT; i++) {
		p->found[i] += st.found_by_source[i];
		p->attached[i] += st.attached_by_source[i];
		ret->attached_by_source[i] += st.attached_by_source[i];
	}
	for (size_t i = 0; i < plan->notes_cnt; i++)
		f->env.push(f->env.ctx, (struct event){ .kind = EV_NOTE, .pid = (uint32_t)p->pid,
						       .name = names__add(f->env.names, plan->notes[i]) });
	r = follow__add_vtables(f, p, plan);
	if (r < 0)
		return err_set(err, r, "out of memory");
	follow__push_covers(f, p);
	return 0;
}

static void say_attached(const struct follow *f, const struct process *p, const struct attach_stats *st,
			 uint64_t since_ns)
{
	char comm[TEXT_BYTES_MAX];

	/* A shell around the job: not worth a word; what it starts is. */
	if (f->env.quiet || (!st->attached && !st->failed && f->env.plan.sources != SRC_KERNEL))
		return;
	fprintf(stderr, "attached to %d (%s) in %llu ms: %u of %u probes", (int)p->pid,
		safe_text(comm, target__comm(p->target)),
		(unsigned long long)((now_ns() - since_ns) / 1000000), st->attached, st->attached + st->failed);
	for (unsigned i = 0; i < SRC_CNT; i++)
		if (st->attached_by_source[i])
			fprintf(stderr, ", %s %u", source_name(1u << i), st->attached_by_source[i]);
	fprintf(stderr, "%s%s\n", f->env.plan.sources & SRC_KERNEL ? ", kernel" : "",
		st->way ? " (perf uprobes)" : "");
	fflush(stderr);
}

/* --- plans ------------------------------------------------------------------------------------------ */

/*
 * Asks for a plan of what the process has mapped (or, only_new, has mapped since); follow__plan_ready sets it. Until then
 * the process's libraries are not read again: the planner looks at them.
 */
static int follow__ask(struct follow *f, struct process *p, int only_new, uint64_t since_ns, struct err *err)
{
	struct plan_opts po = f->env.plan;

	po.only_new_libs = only_new;
	p->asked.only_new = (uint8_t)only_new;
	p->asked.since_ns = since_ns;
	p->asked.ticket = planner__ask(f->planner, p->target, &po);
	return p->asked.ticket ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* What is being made fits the process no more: it is another program, or gone. */
static void follow__unask(struct follow *f, struct process *p)
{
	planner__forget(f->planner, p->asked.ticket);
	f->users_waiting -= p->asked.ticket && p->asked.is_users;
	p->asked.ticket = 0;
	p->asked.is_users = 0;
}

static struct process *follow__find_asker(const struct follow *f, uint64_t ticket)
{
	struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		if (p->asked.ticket == ticket)
			return p;
	return NULL;
}

/* Sets a plan that is ready. */
static int follow__set_planned(struct follow *f, struct process *p, struct plan *plan, struct attach_stats *ret,
			       struct err *err)
{
	unsigned changed = plan__drop_changed(plan);
	struct plan_ref *ref;
	int r = 0;

	if (changed)
		log_info("%u files of process %d were changed while it was planned", changed, (int)p->pid);
	f->files_lost += plan->files_left_out;
	ref = plan_ref__new(plan);
	if (!ref)
		return err_set(err, -ENOMEM, "out of memory");
	if (plan->sites_cnt || plan->notes_cnt)
		r = follow__set(f, p, ref, 1, ret, err);
	plan_ref__put(ref);
	return r;
}

/* A first plan, one after an exec, or one of new libraries. The answer is an error of the command if a user asked. */
static int follow__take_plan(struct follow *f, struct process *p, struct planned *pl, struct err *err)
{
	struct attach_stats st = { 0 };
	int is_first = p->asked.is_first, is_users = p->asked.is_users, r = pl->r;
	uint64_t since_ns = p->asked.since_ns;

	follow__unask(f, p);
	*err = pl->err;
	log_debug("plan of process %d in %.1f ms", (int)p->pid, (double)pl->took_ns / 1e6);
	if (!r)
		r = follow__set_planned(f, p, pl->plan, &st, err);
	if (r == -ENOENT && (p->asked.may_be_empty || !is_first))
		r = 0;
	if (!r && is_first && !target__alive(p->target))
		r = err_set(err, -ESRCH, "process %d ended while it was being attached", (int)p->pid);
	if (!r && (is_first || st.attached))
		say_attached(f, p, &st, since_ns);
	if (r < 0 && !is_users && r != -ESRCH)
		log_warn("%s of process %d: %s", p->asked.only_new ? "new libraries" : "probes", (int)p->pid, err->msg);
	return is_users ? r : 0;
}

int follow__plans_fd(const struct follow *f)
{
	return planner__fd(f->planner);
}

int follow__plan_ready(struct follow *f, struct err *err)
{
	struct err why = { 0 };
	struct planned pl;
	struct process *p;
	int r;

	if (!planner__next(f->planner, f->env.names, &pl))
		return 0;
	p = follow__find_asker(f, pl.ticket);
	if (!p) {
		plan__free(pl.plan);
		return 0;
	}
	r = follow__take_plan(f, p, &pl, &why);
	if (r < 0 && err)
		*err = why;
	return r;
}

size_t follow__users_waiting(const struct follow *f)
{
	return f->users_waiting;
}

uint64_t follow__files_lost(const struct follow *f)
{
	return f->files_lost;
}

/* --- processes -------------------------------------------------------------------------------------- */

static int follow__watch(struct follow *f, struct process *p, struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = (uint64_t)p->index << 32 | f->env.epoll_tag };

	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0 || epoll_ctl(f->env.epoll_fd, EPOLL_CTL_ADD, p->pidfd, &ev) < 0)
		return err_set(err, -errno, "process %d: %s", (int)p->pid, strerror(errno));
	return 0;
}

/* A struct process that is known to the loop, not yet probed. */
static int follow__add_proc(struct follow *f, pid_t pid, struct process **ret, struct err *err)
{
	struct process *p;
	int r;

	r = process__new(&p, &f->followed, pid);
	if (r == -ENOSPC)
		return err_set(err, r, "more than %u processes", FOLLOW_PROCS_MAX);
	if (r < 0)
		return err_set(err, r, "out of memory");
	r = target__open(&p->target, pid, err);
	if (!r)
		r = lock_take(pid, &p->lock_fd, err);
	if (!r)
		r = follow__watch(f, p, err);
	if (!r)
		r = tracer__follow(f->env.tracer, pid, err);
	if (r < 0) {
		process__free(p);
		return r;
	}
	followed__add(&f->followed, p);
	*ret = p;
	return 0;
}

static int follow__attach_as(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns, int may_be_empty,
			     int is_users, struct err *err)
{
	uint64_t image_ns = now_ns();
	struct process *p;
	int r = follow__add_proc(f, pid, &p, err);

	if (r < 0)
		return r;
	p->image_ns = image_ns;
	p->asked.is_first = 1;
	p->asked.may_be_empty = (uint8_t)may_be_empty;
	p->asked.is_users = (uint8_t)is_users;
	f->users_waiting += (size_t)is_users;
	follow__push_proc(f, p, how, target__ppid(p->target));
	return follow__ask(f, p, 0, since_ns, err);
}

int follow__attach(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns, int may_be_empty, struct err *err)
{
	return follow__attach_as(f, pid, how, since_ns, may_be_empty, 1, err);
}

/* A forked child has its parent's files at its parent's addresses, so the parent's plans fit it. */
static void follow__attach_child(struct follow *f, const struct process *parent, pid_t pid, uint64_t fork_ns)
{
	struct attach_stats st = { 0 };
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	struct process *p;
	int r = follow__add_proc(f, pid, &p, &err);

	if (r < 0) {
		if (r != -ESRCH) /* gone again: not worth a word */
			log_warn("child %d of %d is not followed: %s", (int)pid, (int)parent->pid, err.msg);
		return;
	}
	p->image_ns = fork_ns;
	follow__push_proc(f, p, EV_PROC_FORKED, parent->pid);
	if (parent->asked.ticket) { /* whose own plan is still being made */
		p->asked.is_first = p->asked.may_be_empty = 1;
		r = follow__ask(f, p, 0, t0, &err);
	}
	for (size_t i = 0; i < parent->plans_cnt && !r && !p->asked.ticket; i++)
		r = follow__set(f, p, parent->plans[i].ref, parent->plans[i].is_full, &st, &err);
	if (r < 0 && r != -ESRCH)
		log_warn("child %d of %d: %s", (int)pid, (int)parent->pid, err.msg);
	if (!p->asked.ticket)
		say_attached(f, p, &st, t0);
}

/* They may have become other programs since they were forked, so each is planned. */
void follow__attach_children(struct follow *f, pid_t pid)
{
	const struct process *p = followed__find(&f->followed, pid);
	pid_t *kids = NULL;
	int n = p ? target__children(p->target, 1, &kids) : 0;

	for (int i = 0; i < n; i++) {
		struct err err = { 0 };
		int r = 0;

		if (!followed__find(&f->followed, kids[i]))
			r = follow__attach_as(f, kids[i], EV_PROC_ATTACHED, now_ns(), 1, 0, &err);
		if (r < 0 && r != -ESRCH)
			log_warn("child %d of %d is not followed: %s", (int)kids[i], (int)pid, err.msg);
	}
	free(kids);
}

/* --- all jobs ---------------------------------------------------------------------------------- */

static int is_in(const pid_t *pids, size_t cnt, pid_t pid)
{
	for (size_t i = 0; i < cnt; i++)
		if (pids[i] == pid)
			return 1;
	return 0;
}

static void follow__meet(struct follow *f, pid_t pid)
{
	if (is_in(f->met, f->met_cnt, pid) || is_in(f->refused, f->refused_cnt, pid))
		return;
	if (f->met_cnt < MET_MAX)
		f->met[f->met_cnt++] = pid;
	else
		f->has_missed = 1;
}

/* One that cannot be attached to (another memtrace has it) is left alone until it has ended, or 64 others came. */
static void follow__attach_job(struct follow *f, pid_t pid)
{
	struct err err = { 0 };
	int r = 0;

	if (!followed__find(&f->followed, pid) && !is_in(f->refused, f->refused_cnt, pid))
		r = follow__attach_as(f, pid, EV_PROC_ATTACHED, now_ns(), 1, 0, &err);
	if (r >= 0 || r == -ESRCH)
		return;
	log_warn("process %d is not followed: %s", (int)pid, err.msg);
	if (f->refused_cnt == MET_MAX)
		memmove(f->refused, f->refused + 1, --f->refused_cnt * sizeof(f->refused[0]));
	f->refused[f->refused_cnt++] = pid;
}

static void follow__forgive(struct follow *f, pid_t pid)
{
	for (size_t i = 0; i < f->refused_cnt; i++)
		if (f->refused[i] == pid)
			f->refused[i] = f->refused[--f->refused_cnt];
}

void follow__attach_jobs(struct follow *f)
{
	pid_t *pids = NULL;
	size_t cut;
	int n = jobs_list(&pids, &cut);

	f->has_missed = 0;
	if (n < 0)
		log_warn("looking for jobs: %s", strerror(-n));
	if (cut && !f->is_cut_told)
		log_warn("%zu processes have more mappings than are read: if they are jobs, they are not followed", cut);
	f->is_cut_told |= cut != 0;
	for (int i = 0; i < n; i++)
		follow__attach_job(f, pids[i]);
	free(pids);
}

static void follow__settle_jobs(struct follow *f)
{
	size_t cnt = f->met_cnt;

	f->met_cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		follow__attach_job(f, f->met[i]);
	if (f->has_missed)
		follow__attach_jobs(f);
}

/* --- one process, later ------------------------------------------------------------------------- */

static void follow__refresh(struct follow *f, struct process *p)
{
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	int r;

	p->has_new_libs = 0;
	r = target__refresh(p->target, &err);
	if (r > 0) {
		p->asked.is_first = 0;
		r = follow__ask(f, p, 1, t0, &err);
	}
	if (r < 0 && r != -ESRCH && r != -ENOENT)
		log_warn("new libraries of process %d: %s", (int)p->pid, err.msg);
}

/*
 * Another program in the same process: nothing of the old image is left but the probes, which the
 * kernel sets in the new one's libraries as it maps them, so that not a call of libc is missed.
 */
static void follow__execed(struct follow *f, struct process *p)
{
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	struct target *fresh;

	p->has_execed = p->has_new_libs = 0;
	if (target__open(&fresh, p->pid, &err) < 0)
		return; /* gone: its pidfd says so */
	follow__unask(f, p);
	target__free(p->target);
	p->target = fresh;
	p->image_ns = t0;
	process__drop_plans(p);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	follow__push_proc(f, p, EV_PROC_EXECED, target__ppid(fresh));
	p->asked.is_first = 0;
	if (follow__ask(f, p, 0, t0, &err) < 0)
		log_warn("process %d after exec: %s", (int)p->pid, err.msg);
}

int follow__gone(struct follow *f, uint32_t index)
{
	struct process *p = followed__take(&f->followed, index);
	int status = 0;

	if (!p)
		return 0;
	follow__unask(f, p);
	usage__push_cpu(&f->usage, p); /* while it is a corpse: short ones have no other reading */
	if (waitpid(p->pid, &status, WNOHANG) != p->pid)
		status = 0; /* not our child */
	(void)epoll_ctl(f->env.epoll_fd, EPOLL_CTL_DEL, p->pidfd, NULL);
	tracer__detach(f->env.tracer, p->pid);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	f->env.push(f->env.ctx, (struct event){ .kind = EV_GONE, .pid = (uint32_t)p->pid,
						.aux = (uint32_t)status });
	process__free(p);
	return status;
}

void follow__look_again(struct follow *f)
{
	f->has_lost = 1;
}

/* --- sideband --------------------------------------------------------------------------------------- */

int follow__sideband_record(void *follow, const struct sb_record *rec)
{
	struct follow *f = follow;
	struct process *p;

	if (rec->kind == SB_LOST) {
		f->sideband_lost += rec->lost;
		follow__look_again(f);
		return 0;
	}
	if (rec->kind == SB_FORK) {
		p = followed__find(&f->followed, (pid_t)rec->ppid);
		if (p && rec->pid != rec->ppid && f->env.children && !followed__find(&f->followed, (pid_t)rec->pid))
			follow__attach_child(f, p, (pid_t)rec->pid, rec->ts_ns);
		return 0;
	}
	p = followed__find(&f->followed, (pid_t)rec->pid);
	if (!p && f->env.all && rec->kind == SB_MMAP && (pid_t)rec->pid != getpid() && is_job_library(rec->text))
		follow__meet(f, (pid_t)rec->pid);
	if (!p && f->env.all && rec->kind == SB_EXIT && rec->tid == rec->pid)
		follow__forgive(f, (pid_t)rec->pid);
	if (!p)
		return 0;
	if (rec->kind == SB_MMAP)
		p->has_new_libs = 1;
	else if (rec->kind == SB_EXEC && rec->ts_ns > p->image_ns)
		p->has_execed = 1;
	else if (rec->kind == SB_COMM && rec->tid == rec->pid)
		f->env.push(f->env.ctx, (struct event){ .kind = EV_COMM, .pid = rec->pid, .tid = rec->tid,
							.name = names__add(f->env.names, rec->text) });
	return 0;
}

/*
 * Records were lost, and anything may have been in them: libraries, another program, children, jobs. Each process is looked
 * at again through /proc. (What is not found again: a child that has ended meanwhile, or whose parent has.)
 */
static void follow__recover(struct follow *f)
{
	pid_t pids[FOLLOW_PROCS_MAX];
	size_t cnt = follow__pids(f, pids, FOLLOW_PROCS_MAX);

	f->has_lost = 0;
	f->has_missed = f->env.all;
	for (size_t i = 0; i < cnt; i++) {
		struct process *p = followed__find(&f->followed, pids[i]);

		p->has_new_libs = 1;
		p->has_execed |= target__has_execed(p->target);
		if (f->env.children)
			follow__attach_children(f, pids[i]);
	}
}

void follow__settle(struct follow *f)
{
	struct process *p;

	if (f->has_lost)
		follow__recover(f);
	for (size_t at = 0; (p = followed__next(&f->followed, &at));) {
		if (p->has_execed || (p->has_new_libs && target__is_early(p->target)))
			follow__execed(f, p);
		if (p->has_new_libs && !p->asked.ticket) /* else when its plan is there */
			follow__refresh(f, p);
	}
	if (f->env.all)
		follow__settle_jobs(f);
}

/* --- life -------------------------------------------------------------------------------------- */

int follow__new(struct follow **ret, const struct follow_env *env, struct err *err)
{
	struct follow *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->env = *env;
	f->usage = (struct usage){ .followed = &f->followed, .names = env->names, .push = env->push, .ctx = env->ctx };
	f->retire = retire__new(&(struct retire_env){ .followed = &f->followed, .names = env->names, .tracer = env->tracer,
						      .push = env->push, .steps = env->steps, .ctx = env->ctx });
	r = f->retire ? planner__new(&f->planner, err) : err_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		follow__free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void follow__free(struct follow *f)
{
	if (!f)
		return;
	planner__free(f->planner);
	followed__done(&f->followed);
	retire__free(f->retire);
	free(f);
}

int follow__is_followed(const struct follow *f, pid_t pid)
{
	return followed__find(&f->followed, pid) != NULL;
}

size_t follow__pids(const struct follow *f, pid_t *ret, size_t max)
{
	const struct process *p;
	size_t cnt = 0;

	for (size_t at = 0; cnt < max && (p = followed__next(&f->followed, &at));)
		ret[cnt++] = p->pid;
	return cnt;
}

size_t follow__live_cnt(const struct follow *f)
{
	return f->followed.live_cnt;
}

uint64_t follow__sideband_lost(const struct follow *f)
{
	return f->sideband_lost;
}

void follow__push_usage(struct follow *f)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		usage__push_cpu(&f->usage, p);
}

void follow__push_resident(struct follow *f, int all)
{
	if (f->env.plan.sources & SRC_KERNEL)
		usage__push_resident(&f->usage, all);
}

void follow__push_uses(struct follow *f, int all)
{
	if (f->env.plan.sources & SRC_KERNEL)
		usage__push_uses(&f->usage, all);
}

void follow__turn_idle(struct follow *f)
{
	retire__turn(f->retire);
}

void follow__late_ops(struct follow *f)
{
	retire__late_ops(f->retire);
}

void follow__detach_all(struct follow *f)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		tracer__detach(f->env.tracer, p->pid);
}

void follow__push_gone_all(struct follow *f)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		f->env.push(f->env.ctx, (struct event){ .kind = EV_GONE, .flags = 1, .pid = (uint32_t)p->pid });
}
