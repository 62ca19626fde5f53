/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A forked child runs the same files at the same addresses, so it is attached with its parent's plans, without planning again:
 * DataLoader workers come by the dozen. An exec discards all of it. Between a fork and our attach the child runs unseen for
 * some milliseconds: the kernel offers no way to inherit the probes of a process filter.
 */
#define LOG_MODULE "follow"
#include "live/follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "event/decode.h"
#include "keeper/keeper.h"
#include "live/followed.h"
#include "live/launch.h"
#include "live/lock.h"
#include "live/probing.h"
#include "live/redact.h"
#include "live/usage.h"
#include "target/jobs.h"
#include "target/kin.h"
#include "target/sideband.h"
#include "target/target.h"

#define FOUND_MAX 64
#define SHORT_MAX 64
#define RECOVER_REST 9 /* times the duration of looking at everything again */
#define EARLY_MAX 4    /* looks during one exec, which takes a ms; a process can pretend to have no arguments */

struct follow {
	struct follow_env env;
	uint64_t sideband_lost, procs_left_out;
	/* env.all: jobs found since the last settling, and those that could not be attached to */
	pid_t found[FOUND_MAX], refused[FOUND_MAX];
	size_t found_cnt, refused_cnt;
	int has_missed; /* some found no place: all are looked at … */
	uint64_t jobs_ns; /* … not before this time */
	struct short_lived { /* processes that ended before their children became known, and their parents */
		pid_t pid, parent;
	} shorts[SHORT_MAX];
	size_t shorts_at;
	int is_cut_reported;
	int has_lost;	/* sideband records were lost: everything is looked at again … */
	uint64_t recover_ns; /* … not before this time */
};

static void follow__push_proc(struct follow *f, struct process *p, enum ev_proc_how how, pid_t ppid)
{
	const char *const *labels, *cmdline = target__cmdline(p->target);
	size_t cnt = target__labels(p->target, &labels);
	uint64_t now = now_ns(); /* one time, so that no event of its own comes in between */
	char left[TEXT_BYTES_MAX];

	if (f->env.redact)
		cmdline = redact_cmdline(left, sizeof(left), cmdline);
	tell__event(&f->env.tell, (struct event){
		.ts_ns = now,
		.kind = EV_PROC,
		.pid = (uint32_t)p->pid,
		.tid = (uint32_t)p->pid,
		.aux = (uint32_t)ppid,
		.flags = (uint8_t)how,
		.size = target__start_ns(p->target),
		.addr = tell__name(&f->env.tell, p->pid, cmdline).v,
		.name = tell__name(&f->env.tell, p->pid, target__comm(p->target)) });
	for (size_t i = 0; i < cnt; i++)
		if (!f->env.redact || redact_keeps_label(labels[i]))
			tell__event(&f->env.tell, (struct event){ .ts_ns = now, .kind = EV_LABEL, .pid = (uint32_t)p->pid,
							       .name = tell__name(&f->env.tell, p->pid, labels[i]) });
	usage__push_rss(f->env.usage, p, 1);
	usage__push_cpu(f->env.usage, p);
}

uint64_t follow__procs_left_out(const struct follow *f)
{
	return f->procs_left_out;
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

/* A struct process that the loop knows, not yet probed. image: its parent, whose plans fit it; or NULL. */
static int follow__add_proc(struct follow *f, pid_t pid, const struct process *parent, const struct target *image,
			    struct process **ret, struct err *err)
{
	uint64_t wait_ns = f->env.all || f->env.followed->live_cnt ? 0 : LOCK_WAIT_NS; /* nothing is drained while it waits */
	struct process *p;
	int r;

	r = process__new(&p, f->env.followed, pid, parent, f->env.all);
	if (r == -ENOSPC) {
		f->procs_left_out++;
		return err_set(err, r, "more than %u processes", FOLLOW_PROCS_MAX);
	}
	if (r < 0)
		return err_set(err, r, "out of memory");
	if (keeper__tree(f->env.keeper, pid, p->tree) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (!r)
		r = target__open_bare(&p->target, pid, image, err);
	if (!r)
		r = keeper__lock(f->env.keeper, pid, target__start_ns(p->target), wait_ns, &p->lock_fd, err);
	if (!r)
		r = follow__watch(f, p, err);
	if (!r)
		r = keeper__follow(f->env.keeper, pid, err);
	if (r < 0) {
		(void)keeper__tree(f->env.keeper, pid, 0);
		process__free(p);
		return r;
	}
	followed__add(f->env.followed, p);
	*ret = p;
	return 0;
}

/* memtrace would report what it does for others, and cause more of it by that. */
static int is_memtrace(const struct follow *f, pid_t pid)
{
	return pid == getpid() || pid == keeper__pid(f->env.keeper);
}

static int follow__attach_below(struct follow *f, pid_t pid, const struct process *parent, enum ev_proc_how how,
				uint64_t since_ns, int may_be_empty, struct err *err)
{
	struct set_how set = { .is_full = 1, .is_still = how == EV_PROC_LAUNCHED };
	uint64_t image_ns = now_ns();
	struct process *p;
	int r;

	if (is_memtrace(f, pid)) {
		err_set(err, -EINVAL, "process %d is this memtrace itself", (int)pid);
		return err_hint(err, "in a container, let it see the pids of the host, or of the job's container (--pid)");
	}
	r = follow__add_proc(f, pid, parent, NULL, &p, err);
	if (r < 0)
		return r;
	p->image_ns = image_ns;
	p->attach.since_ns = since_ns;
	set.is_named = set.is_still || !may_be_empty;
	follow__push_proc(f, p, how, target__ppid(p->target));
	return probing__plan(f->env.probing, p, 0, &set, err);
}

int follow__attach(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns,
			   int may_be_empty, struct err *err)
{
	return follow__attach_below(f, pid, NULL, how, since_ns, may_be_empty, err);
}

/* A child that is not followed. Of those that find no place the first is noted, the others are counted. */
static void follow__left_out(struct follow *f, struct process *parent, pid_t pid, int r, const struct err *err)
{
	struct process *root = followed__find(f->env.followed, parent->tree);

	root = root ? root : parent;
	if (r == -ESRCH || (r == -ENOSPC && root->is_tree_over)) /* it has ended: not worth a line */
		return;
	log_warn("child %d of %d is not followed: %s", (int)pid, (int)parent->pid, err->msg);
	if (r != -ENOSPC)
		return;
	root->is_tree_over = 1;
	tell__note(&f->env.tell, root->pid, "this process has more children than are followed, so that others find room: what "
					    "further ones do is not seen");
}

static void follow__note_short(struct follow *f, pid_t pid, pid_t parent)
{
	f->shorts[f->shorts_at++ % SHORT_MAX] = (struct short_lived){ pid, parent };
}

static pid_t follow__parent_of_short(const struct follow *f, pid_t pid)
{
	for (size_t i = 0; i < SHORT_MAX; i++)
		if (f->shorts[i].pid == pid)
			return f->shorts[i].parent;
	return 0;
}

/* The followed process from which `pid` descends. NULL: none. */
static struct process *follow__find_short(struct follow *f, pid_t pid)
{
	struct process *p = NULL;

	for (size_t i = 0; i < SHORT_MAX && pid && !p; i++) {
		pid = follow__parent_of_short(f, pid);
		p = pid ? followed__find(f->env.followed, pid) : NULL;
	}
	return p;
}

static void follow__forget_short(struct follow *f, pid_t pid)
{
	for (size_t i = 0; i < SHORT_MAX; i++)
		if (f->shorts[i].pid == pid)
			f->shorts[i].pid = 0;
}

/*
 * A forked child has its parent's files at its parent's addresses, so the parent's plans fit it. has_image: the given parent
 * itself forked it. Otherwise the direct parent has ended, and its program is unknown.
 */
static void follow__attach_child(struct follow *f, struct process *parent, pid_t pid, uint64_t fork_ns, int has_image)
{
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	struct process *p;
	int r;

	has_image &= !parent->asked.ticket; /* its own plan is still being made */
	r = follow__add_proc(f, pid, parent, has_image ? parent->target : NULL, &p, &err);
	if (r == -ESRCH)
		follow__note_short(f, pid, parent->pid);
	if (r < 0) {
		follow__left_out(f, parent, pid, r, &err);
		return;
	}
	p->image_ns = fork_ns;
	p->attach.since_ns = t0;
	follow__push_proc(f, p, EV_PROC_FORKED, parent->pid);
	p->has_new_libs = parent->has_new_libs;
	if (has_image)
		r = probing__inherit(f->env.probing, p, parent, &err);
	else
		r = probing__plan(f->env.probing, p, 0, &(struct set_how){ .is_hasty = 1 }, &err);
	if (r < 0)
		log_warn("child %d of %d: %s", (int)pid, (int)parent->pid, err.msg);
}

/* They may have run another program since they were forked, so each is planned. */
static void follow__attach_kin(struct follow *f, struct process *p, struct proc_kin *all, size_t all_cnt)
{
	pid_t *kids = NULL;
	int n = processes_below(all, all_cnt, p->pid, 1, &kids);

	for (int i = 0; i < n; i++) {
		struct err err = { 0 };
		int r = 0;

		if (!followed__find(f->env.followed, kids[i]) && !is_memtrace(f, kids[i]))
			r = follow__attach_below(f, kids[i], p, EV_PROC_ATTACHED, now_ns(), 1, &err);
		if (r < 0)
			follow__left_out(f, p, kids[i], r, &err);
	}
	free(kids);
}

void follow__attach_children(struct follow *f, pid_t pid)
{
	struct process *p = followed__find(f->env.followed, pid);
	struct proc_kin *all = NULL;
	int cnt = p ? processes_read(&all) : 0;

	if (cnt > 0)
		follow__attach_kin(f, p, all, (size_t)cnt);
	free(all);
}

/* --- all jobs ---------------------------------------------------------------------------------- */

static int is_in(const pid_t *pids, size_t cnt, pid_t pid)
{
	for (size_t i = 0; i < cnt; i++)
		if (pids[i] == pid)
			return 1;
	return 0;
}

static void follow__note_job(struct follow *f, pid_t pid)
{
	if (is_in(f->found, f->found_cnt, pid) || is_in(f->refused, f->refused_cnt, pid))
		return;
	if (f->found_cnt < FOUND_MAX)
		f->found[f->found_cnt++] = pid;
	else
		f->has_missed = 1;
}

/* A job that cannot be attached to (another memtrace has it) is left alone until it has ended, or 64 others came. */
static void follow__attach_job(struct follow *f, pid_t pid)
{
	struct err err = { 0 };
	int r = 0;

	if (!followed__find(f->env.followed, pid) && !is_in(f->refused, f->refused_cnt, pid))
		r = follow__attach(f, pid, EV_PROC_ATTACHED, now_ns(), 1, &err);
	if (r >= 0 || r == -ESRCH)
		return;
	log_warn("process %d is not followed: %s", (int)pid, err.msg);
	if (f->refused_cnt == FOUND_MAX)
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
	uint64_t begin_ns = now_ns();
	size_t cut;
	int n = jobs_list(&pids, &cut);

	f->has_missed = 0;
	if (n < 0)
		log_warn("looking for jobs: %s", strerror(-n));
	if (cut && !f->is_cut_reported)
		log_warn("%zu processes have more mappings than are read: if they are jobs, they are not followed", cut);
	f->is_cut_reported |= cut != 0;
	for (int i = 0; i < n; i++)
		follow__attach_job(f, pids[i]);
	free(pids);
	f->jobs_ns = now_ns() + RECOVER_REST * (now_ns() - begin_ns);
}

static void follow__settle_jobs(struct follow *f)
{
	size_t cnt = f->found_cnt;

	f->found_cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		follow__attach_job(f, f->found[i]);
	if (f->has_missed && now_ns() >= f->jobs_ns)
		follow__attach_jobs(f);
}

/* --- one process, later ------------------------------------------------------------------------- */

static void follow__refresh(struct follow *f, struct process *p)
{
	struct err err = { 0 };

	p->has_new_libs = 0;
	if (!p->settings_cnt)
		p->attach.since_ns = now_ns();
	if (probing__plan(f->env.probing, p, 1, &(struct set_how){ .is_hasty = 1 }, &err) < 0)
		log_warn("new libraries of process %d: %s", (int)p->pid, err.msg);
}

/*
 * Another program in the same process: nothing of the old image is left but the probes. The kernel sets them in the new image's
 * libraries as it maps them, so no call of libc is missed.
 */
static void follow__execed(struct follow *f, struct process *p)
{
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	struct target *fresh;

	p->early_cnt = p->has_execed ? 0 : p->early_cnt + 1;
	p->has_execed = p->has_new_libs = 0;
	if (target__open_bare(&fresh, p->pid, NULL, &err) < 0)
		return; /* it has ended: its pidfd reports that */
	probing__drop(f->env.probing, p);
	proc_usage__done(&p->usage);
	target__free(p->target);
	p->target = fresh;
	p->image_ns = t0;
	p->attach = (struct proc_attach){ .since_ns = t0 };
	process__drop_plans(p);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	follow__push_proc(f, p, EV_PROC_EXECED, target__ppid(fresh));
	if (probing__plan(f->env.probing, p, 0, &(struct set_how){ .is_hasty = 1 }, &err) < 0)
		log_warn("process %d after exec: %s", (int)p->pid, err.msg);
}

int follow__is_read(struct follow *f, uint32_t index, uint64_t read_ns)
{
	struct process *p = index < f->env.followed->procs_cnt ? f->env.followed->procs[index] : NULL;

	if (p && !p->gone_ns)
		p->gone_ns = now_ns();
	return !p || read_ns >= p->gone_ns;
}

int follow__gone(struct follow *f, uint32_t index)
{
	struct process *p = followed__take(f->env.followed, index);
	int status;

	if (!p)
		return 0;
	if (p->parent)
		follow__note_short(f, p->pid, p->parent);
	usage__push_cpu(f->env.usage, p); /* while it is a zombie: short ones have no other reading */
	status = launch_ended(p->pid); /* if it is our child */
	(void)epoll_ctl(f->env.epoll_fd, EPOLL_CTL_DEL, p->pidfd, NULL);
	probing__drop(f->env.probing, p);
	keeper__detach(f->env.keeper, p->pid);
	(void)keeper__tree(f->env.keeper, p->pid, 0);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	names__drop_owner(f->env.tell.names, (uint32_t)p->pid);
	tell__event(&f->env.tell, (struct event){ .kind = EV_GONE, .pid = (uint32_t)p->pid,
						.aux = (uint32_t)status });
	process__free(p);
	return status;
}

void follow__look_again(struct follow *f)
{
	f->has_lost = 1;
}

/* --- sideband --------------------------------------------------------------------------------------- */

static void follow__forked(struct follow *f, const struct sb_record *rec)
{
	struct process *maker = followed__find(f->env.followed, (pid_t)rec->ppid), *p = maker;

	if (rec->pid == rec->ppid || !f->env.children) /* a thread */
		return;
	follow__forget_short(f, (pid_t)rec->pid); /* the pid belongs to this process now */
	p = p ? p : follow__find_short(f, (pid_t)rec->ppid);
	if (p && !followed__find(f->env.followed, (pid_t)rec->pid))
		follow__attach_child(f, p, (pid_t)rec->pid, rec->ts_ns, maker != NULL);
}

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
		follow__forked(f, rec);
		return 0;
	}
	p = followed__find(f->env.followed, (pid_t)rec->pid);
	if (!p && f->env.all && rec->kind == SB_MMAP && (pid_t)rec->pid != getpid() && is_job_library(rec->text))
		follow__note_job(f, (pid_t)rec->pid);
	if (!p && f->env.all && rec->kind == SB_EXIT && rec->tid == rec->pid)
		follow__forgive(f, (pid_t)rec->pid);
	if (!p)
		return 0;
	if (rec->kind == SB_MMAP)
		p->has_new_libs = 1;
	else if (rec->kind == SB_EXEC && rec->ts_ns > p->image_ns)
		p->has_execed = 1;
	else if (rec->kind == SB_COMM && rec->tid == rec->pid)
		tell__event(&f->env.tell, (struct event){ .kind = EV_COMM, .pid = rec->pid, .tid = rec->tid,
							.name = tell__name(&f->env.tell, p->pid, rec->text) });
	return 0;
}

/*
 * Records were lost, and anything may have been in them: libraries, another program, children, jobs. Each process is looked at
 * again through /proc. (Not found again: a child that has ended meanwhile, or whose parent has.)
 */
static void follow__recover(struct follow *f)
{
	pid_t pids[FOLLOW_PROCS_MAX];
	size_t cnt = followed__pids(f->env.followed, pids, FOLLOW_PROCS_MAX);
	struct proc_kin *all = NULL;
	uint64_t begin_ns = now_ns();
	int all_cnt = f->env.children ? processes_read(&all) : 0;

	f->has_lost = 0;
	f->has_missed = f->env.all;
	for (size_t i = 0; i < cnt; i++) {
		struct process *p = followed__find(f->env.followed, pids[i]);

		p->has_new_libs = 1;
		p->has_execed |= target__has_execed(p->target);
		if (all_cnt > 0 && !followed__find(f->env.followed, p->parent))
			follow__attach_kin(f, p, all, (size_t)all_cnt); /* and the descendants of its children */
	}
	free(all);
	f->recover_ns = now_ns() + RECOVER_REST * (now_ns() - begin_ns);
}

void follow__settle(struct follow *f)
{
	uint64_t now = now_ns();
	struct process *p;

	if (f->has_lost && now >= f->recover_ns)
		follow__recover(f);
	for (size_t at = 0; (p = followed__next(f->env.followed, &at));) {
		if (p->has_execed || (p->has_new_libs && p->early_cnt < EARLY_MAX && target__is_early(p->target)))
			follow__execed(f, p);
		if (p->has_new_libs && !p->asked.ticket && now >= p->look_ns) /* otherwise once its plan is there */
			follow__refresh(f, p);
	}
	if (f->env.all)
		follow__settle_jobs(f);
}

/* --- life -------------------------------------------------------------------------------------- */

struct follow *follow__new(const struct follow_env *env)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (f)
		f->env = *env;
	return f;
}

void follow__free(struct follow *f)
{
	free(f);
}

uint64_t follow__sideband_lost(const struct follow *f)
{
	return f->sideband_lost;
}

void follow__push_gone_all(struct follow *f)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(f->env.followed, &at));)
		tell__event(&f->env.tell, (struct event){ .kind = EV_GONE, .flags = 1, .pid = (uint32_t)p->pid });
}
