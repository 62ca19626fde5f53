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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/idle.h"
#include "cmd/lock.h"
#include "event/decode.h"
#include "target/jobs.h"
#include "target/sideband.h"
#include "target/target.h"
#include "trace/trace.h"
#include "view/text.h"

/* A plan that a process and its forked children share: the same files at the same addresses. */
struct plan_ref {
	struct plan *plan;
	uint8_t *seen; /* its guards that were set in one of its processes */
	unsigned users;
};

/* A plan that was set in a process. */
struct proc_plan {
	struct plan_ref *ref;
	int is_full;   /* with the operators that nobody has called */
	int is_unread; /* which those are cannot be read: they stay */
};

struct proc {
	struct target *target;
	struct proc_plan *plans; /* all that were set: the first, and one per batch of new libraries */
	size_t plans_cnt;
	pid_t pid;
	int pidfd, lock_fd;
	int has_new_libs;  /* sideband saw a mapping */
	int has_execed;
	size_t index; /* in follow->procs */
	uint64_t rss_at_ns;   /* when its RSS is read next … */
	uint64_t rss_told[MT_RSS_KINDS], rss_high; /* … and what was read last */
	uint64_t use_at_ns;   /* when its use is read next … */
	uint64_t use_took_ns; /* … and how long that took last time */
	int is_use_noted;     /* it was said that it is not read */
	uint64_t looked_ns, steps_base; /* idle: when its guards were read last; steps when one was news last */
	uint64_t image_ns; /* execs up to this time are accounted for */
	uint64_t found[SRC_CNT], attached[SRC_CNT]; /* by source */
};

#define MET_MAX 64

/* An operator that is called although its probe was taken away. */
struct late_op {
	name_id sym;
	pid_t pid;
	uint64_t since_ns; /* it had not been called then */
};
#define LATE_MAX 256 /* at one time */

struct follow {
	struct follow_env env;
	struct idle *idle;
	struct late_op late[LATE_MAX];
	size_t late_cnt;
	uint64_t news_ns;      /* when an operator was called first, or all probes of a plan were set, last … */
	uint64_t news_hits;    /* … and how many calls of operators had been told by then */
	uint64_t looked_up_ns; /* when a schema was looked up that this look is for; 0: none was */
	uint64_t taken;	       /* probes */
	int has_news, has_retired;
	size_t idle_turn;
	struct proc **procs; /* NULL: gone, the place is free again; epoll knows them by index */
	size_t procs_cnt, live_cnt;
	size_t rss_turn, use_turn; /* whose is read first in the next turn */
	uint64_t sideband_lost;
	/* env.all: jobs that were met since the last settling, and those that could not be attached to */
	pid_t met[MET_MAX], refused[MET_MAX];
	size_t met_cnt, refused_cnt;
	int has_missed; /* some found no room: all are looked at */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static struct proc *follow__proc(const struct follow *f, pid_t pid)
{
	for (size_t i = f->procs_cnt; i-- > 0;)
		if (f->procs[i] && f->procs[i]->pid == pid)
			return f->procs[i];
	return NULL;
}

/*
 * RSS is read, not told by the kernel: its tracepoint is passed twice for every page (bpf/kernel.bpf.c). A reading takes
 * 20 us, so a turn (every 10 ms) that took RSS_TURN_NS ends, and many processes are each read less often. What rose and
 * fell between two readings is known by the kernel's high-water mark; it is told as anonymous, as such memory mostly is.
 */
#define RSS_EVERY_NS 100000000ull
#define RSS_TURN_NS 500000ull
#define RSS_STEP (1u << 20) /* a smaller change is not told, but at the end */

static void follow__push_rss_kind(struct follow *f, const struct proc *p, unsigned kind, uint64_t bytes)
{
	f->env.push(f->env.ctx, (struct event){ .kind = MT_EV_RSS, .pid = (uint32_t)p->pid, .tid = (uint32_t)p->pid,
						.addr = kind, .size = bytes });
}

static bool is_step(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) >= RSS_STEP;
}

static void follow__push_rss(struct follow *f, struct proc *p, bool all)
{
	struct target_rss now;
	uint64_t bytes[MT_RSS_KINDS], total;
	bool is_peak;

	p->rss_at_ns = now_ns() + RSS_EVERY_NS;
	if (target__rss(p->target, &now) < 0)
		return;
	bytes[MT_RSS_FILE] = now.file;
	bytes[MT_RSS_ANON] = now.anon;
	bytes[MT_RSS_SWAP] = now.swap;
	bytes[MT_RSS_SHMEM] = now.shmem;
	total = now.anon + now.file + now.shmem;
	is_peak = p->rss_high && now.high > p->rss_high && now.high > total && is_step(now.high, total);
	p->rss_high = now.high;
	for (unsigned i = 0; i < MT_RSS_KINDS; i++) {
		if (!all && !is_peak && !is_step(bytes[i], p->rss_told[i]))
			continue;
		follow__push_rss_kind(f, p, i, bytes[i]);
		p->rss_told[i] = bytes[i];
	}
	if (!is_peak)
		return;
	follow__push_rss_kind(f, p, MT_RSS_ANON, now.anon + (now.high - total));
	follow__push_rss_kind(f, p, MT_RSS_ANON, now.anon);
}

void follow__push_resident(struct follow *f, int all)
{
	uint64_t begin = now_ns();

	if (!(f->env.plan.sources & SRC_KERNEL))
		return;
	for (size_t i = 0; i < f->procs_cnt && (all || now_ns() - begin < RSS_TURN_NS); i++) {
		struct proc *p = f->procs[(f->rss_turn + i) % f->procs_cnt];

		if (p && (all || begin >= p->rss_at_ns))
			follow__push_rss(f, p, all);
	}
	f->rss_turn = f->procs_cnt ? (f->rss_turn + 1) % f->procs_cnt : 0;
}

/*
 * smaps_rollup walks the page tables of a process under its mmap lock: 13 to 17 ms for a GiB of small pages
 * (0.15 ms of huge ones), and a mmap of the process waited up to 20 ms for it. So the time between two
 * readings is USE_REST times what the last one took, which keeps it at half a percent of a lock; a turn
 * ends after USE_TURN_NS, because rings are not drained meanwhile; and a process is left out whose reading
 * would take longer than USE_READ_MAX bytes of small pages do.
 */
#define USE_EVERY_NS 2000000000ull
#define USE_REST 200
#define USE_TURN_NS 20000000ull
#define USE_END_NS 300000000ull /* at the end there is nothing to drain for */
#define USE_READ_MAX (16ull << 30) /* 0.2 s */

static int follow__may_read_use(struct follow *f, struct proc *p)
{
	struct target_rss now;

	if (target__rss(p->target, &now) < 0)
		return 0;
	if (now.anon + now.file + now.shmem <= USE_READ_MAX)
		return 1;
	if (!p->is_use_noted)
		f->env.push(f->env.ctx, (struct event){
			.kind = EV_NOTE, .pid = (uint32_t)p->pid,
			.name = names__add(f->env.names, "private and shared bytes are not read of processes with more than "
							 "16 GiB: that would hold up their mmap for 0.2 s and more") });
	p->is_use_noted = 1;
	return 0;
}

static void follow__push_use(struct follow *f, struct proc *p)
{
	uint64_t use[MT_USES] = { 0 }, begin = now_ns(), took;

	p->use_at_ns = begin + USE_EVERY_NS;
	if (!follow__may_read_use(f, p) || target__use(p->target, use) < 0)
		return;
	took = now_ns() - begin;
	p->use_took_ns = took;
	if (took > USE_EVERY_NS / USE_REST)
		p->use_at_ns = begin + took * USE_REST;
	for (unsigned i = 0; i < MT_USES; i++)
		f->env.push(f->env.ctx, (struct event){ .ts_ns = begin + took, .kind = EV_USE, .pid = (uint32_t)p->pid,
							.aux = i, .size = use[i] });
}

void follow__push_uses(struct follow *f, int all)
{
	uint64_t begin = now_ns(), turn_ns = all ? USE_END_NS : USE_TURN_NS;

	if (!(f->env.plan.sources & SRC_KERNEL))
		return;
	for (size_t i = 0; i < f->procs_cnt && now_ns() - begin < turn_ns; i++) {
		struct proc *p = f->procs[(f->use_turn + i) % f->procs_cnt];

		if (!p || (!all && begin < p->use_at_ns) || (all && p->use_took_ns > turn_ns))
			continue;
		follow__push_use(f, p);
	}
	f->use_turn = f->procs_cnt ? (f->use_turn + 1) % f->procs_cnt : 0;
}

/* The first reading is where its share of costs is counted from, so it is taken at the attach. */
static void follow__push_cpu(struct follow *f, const struct proc *p)
{
	uint64_t cpu_ns, rss;
	unsigned threads;

	if (!target__usage(p->target, &cpu_ns, &rss, &threads))
		f->env.push(f->env.ctx, (struct event){ .kind = EV_CPU, .pid = (uint32_t)p->pid,
							.size = cpu_ns });
}

static void follow__push_proc(struct follow *f, struct proc *p, enum ev_proc_how how, pid_t ppid)
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
		follow__push_rss(f, p, true);
	follow__push_cpu(f, p);
}

static void follow__push_covers(struct follow *f, const struct proc *p)
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

static int follow__add_vtables(struct follow *f, const struct proc *p, const struct plan *plan)
{
	_Static_assert(sizeof(struct vtable) == sizeof(struct decode_vtable), "the same two fields");

	if (!plan->vtables_cnt)
		return 0;
	return decode__add_vtables(f->env.decode, (uint32_t)p->pid, (const struct decode_vtable *)plan->vtables,
				   plan->vtables_cnt);
}

static void plan_ref__put(struct plan_ref *ref)
{
	if (--ref->users)
		return;
	plan__free(ref->plan);
	free(ref->seen);
	free(ref);
}

/* Takes the plan over, also on failure. */
static struct plan_ref *plan_ref__new(struct plan *plan)
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

static void proc__drop_plans(struct proc *p)
{
	for (size_t i = 0; i < p->plans_cnt; i++)
		plan_ref__put(p->plans[i].ref);
	free(p->plans);
	p->plans = NULL;
	p->plans_cnt = 0;
	memset(p->found, 0, sizeof(p->found));
	memset(p->attached, 0, sizeof(p->attached));
}

/* What became of each symbol. Return sites belong to the symbol's entry. */
static void follow__push_sites(struct follow *f, const struct proc *p, const struct plan *plan,
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

/* Operators that were told so far. */
static uint64_t follow__hits(const struct follow *f)
{
	struct trace_counters c;

	tracer__counters(f->env.tracer, &c);
	return c.hits[MT_PROG_OP] + c.hits[MT_PROG_FLOW_OP];
}

static void follow__news(struct follow *f)
{
	f->news_ns = now_ns();
	f->news_hits = follow__hits(f);
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			f->procs[i]->steps_base = f->env.steps(f->env.ctx, f->procs[i]->pid);
}

/*
 * Sets a plan in a process, keeps a reference to it, and adds what became of it to the sums. is_full: with the operators
 * that nobody has called.
 */
static int follow__set(struct follow *f, struct proc *p, struct plan_ref *ref, int is_full, struct attach_stats *ret,
			struct err *err)
{
	struct proc_plan *plans = realloc(p->plans, (p->plans_cnt + 1) * sizeof(*plans));
	const struct plan *plan = ref->plan;
	struct attach_stats st = { .site_failed = calloc(plan->sites_cnt + 1, 1) };
	int r;

	if (plans)
		p->plans = plans;
	if (!plans || !st.site_failed) {
		free(st.site_failed);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->plans[p->plans_cnt++] = (struct proc_plan){ .ref = ref, .is_full = is_full || !plan->guards_cnt };
	ref->users++;
	if (!is_full && plan->guards_cnt)
		st.wanted = idle__wanted(f->idle, plan);
	else if (plan->guards_cnt)
		follow__news(f);
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

/* Plans what the process has mapped (or, only_new, has mapped since) and sets it. */
static int follow__plan_and_set(struct follow *f, struct proc *p, int only_new, struct attach_stats *ret,
				 struct err *err)
{
	struct plan_opts po = f->env.plan;
	struct plan_ref *ref;
	struct plan *plan;
	int r;

	po.only_new_libs = only_new;
	r = plan__build(&plan, p->target, &po, f->env.names, err);
	if (r < 0)
		return r;
	ref = plan_ref__new(plan);
	if (!ref)
		return err_set(err, -ENOMEM, "out of memory");
	if (plan->sites_cnt || plan->notes_cnt)
		r = follow__set(f, p, ref, 1, ret, err);
	plan_ref__put(ref);
	return r;
}

static void proc__free(struct proc *p)
{
	if (!p)
		return;
	target__free(p->target);
	proc__drop_plans(p);
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->lock_fd >= 0)
		close(p->lock_fd);
	free(p);
}

static int follow__watch(struct follow *f, struct proc *p, struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = (uint64_t)p->index << 32 | f->env.epoll_tag };

	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0 || epoll_ctl(f->env.epoll_fd, EPOLL_CTL_ADD, p->pidfd, &ev) < 0)
		return err_set(err, -errno, "process %d: %s", (int)p->pid, strerror(errno));
	return 0;
}

/* A free place in f->procs; one that a process left first, so that the table is as long as it ever was full. */
static int follow__place(struct follow *f, size_t *ret)
{
	struct proc **procs;

	for (size_t i = 0; f->live_cnt < f->procs_cnt && i < f->procs_cnt; i++) {
		if (!f->procs[i]) {
			*ret = i;
			return 0;
		}
	}
	procs = realloc(f->procs, (f->procs_cnt + 1) * sizeof(*procs));
	if (!procs)
		return -ENOMEM;
	f->procs = procs;
	procs[f->procs_cnt] = NULL;
	*ret = f->procs_cnt++;
	return 0;
}

/* A struct proc that is known to the loop, not yet probed. */
static int follow__add_proc(struct follow *f, pid_t pid, struct proc **ret, struct err *err)
{
	struct proc *p;
	int r;

	if (f->live_cnt >= FOLLOW_PROCS_MAX)
		return err_set(err, -ENOSPC, "more than %u processes", FOLLOW_PROCS_MAX);
	p = calloc(1, sizeof(*p));
	if (!p || follow__place(f, &p->index) < 0) {
		free(p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->pid = pid;
	p->pidfd = p->lock_fd = -1;
	r = target__open(&p->target, pid, err);
	if (!r)
		r = lock_take(pid, &p->lock_fd, err);
	if (!r)
		r = follow__watch(f, p, err);
	if (!r)
		r = tracer__follow(f->env.tracer, pid, err);
	if (r < 0) {
		proc__free(p);
		return r;
	}
	f->procs[p->index] = p;
	f->live_cnt++;
	*ret = p;
	return 0;
}

static void say_attached(const struct follow *f, const struct proc *p, const struct attach_stats *st,
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

int follow__attach(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns,
			   int may_be_empty, struct err *err)
{
	struct attach_stats st = { 0 };
	uint64_t image_ns = now_ns();
	struct proc *p;
	int r = follow__add_proc(f, pid, &p, err);

	if (r < 0)
		return r;
	p->image_ns = image_ns;
	follow__push_proc(f, p, how, target__ppid(p->target));
	r = follow__plan_and_set(f, p, 0, &st, err);
	if (r == -ENOENT && may_be_empty)
		r = 0;
	if (!r && !target__alive(p->target))
		r = err_set(err, -ESRCH, "process %d ended while it was being attached", (int)pid);
	if (r < 0)
		return r;
	say_attached(f, p, &st, since_ns);
	return 0;
}

/* A forked child has its parent's files at its parent's addresses, so the parent's plans fit it. */
static void follow__attach_child(struct follow *f, const struct proc *parent, pid_t pid, uint64_t fork_ns)
{
	struct attach_stats st = { 0 };
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	struct proc *p;
	int r = follow__add_proc(f, pid, &p, &err);

	if (r < 0) {
		if (r != -ESRCH) /* gone again: not worth a word */
			log_warn("child %d of %d is not followed: %s", (int)pid, (int)parent->pid, err.msg);
		return;
	}
	p->image_ns = fork_ns;
	follow__push_proc(f, p, EV_PROC_FORKED, parent->pid);
	for (size_t i = 0; i < parent->plans_cnt && !r; i++)
		r = follow__set(f, p, parent->plans[i].ref, parent->plans[i].is_full, &st, &err);
	if (r < 0 && r != -ESRCH)
		log_warn("child %d of %d: %s", (int)pid, (int)parent->pid, err.msg);
	say_attached(f, p, &st, t0);
}

/* They may have become other programs since they were forked, so each is planned. */
void follow__attach_children(struct follow *f, pid_t pid)
{
	const struct proc *p = follow__proc(f, pid);
	pid_t *kids = NULL;
	int n = p ? target__children(p->target, 1, &kids) : 0;

	for (int i = 0; i < n; i++) {
		struct err err = { 0 };
		int r = 0;

		if (!follow__proc(f, kids[i]))
			r = follow__attach(f, kids[i], EV_PROC_ATTACHED, now_ns(), 1, &err);
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

	if (!follow__proc(f, pid) && !is_in(f->refused, f->refused_cnt, pid))
		r = follow__attach(f, pid, EV_PROC_ATTACHED, now_ns(), 1, &err);
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
	int n = jobs_list(&pids);

	f->has_missed = 0;
	if (n < 0)
		log_warn("looking for jobs: %s", strerror(-n));
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

static void follow__refresh(struct follow *f, struct proc *p)
{
	struct attach_stats st = { 0 };
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	int r;

	p->has_new_libs = 0;
	r = target__refresh(p->target, &err);
	if (r > 0)
		r = follow__plan_and_set(f, p, 1, &st, &err);
	if (st.attached)
		say_attached(f, p, &st, t0);
	if (r < 0 && r != -ESRCH && r != -ENOENT)
		log_warn("new libraries of process %d: %s", (int)p->pid, err.msg);
}

/*
 * Another program in the same process: nothing of the old image is left but the probes, which the
 * kernel sets in the new one's libraries as it maps them, so that not a call of libc is missed.
 */
static void follow__execed(struct follow *f, struct proc *p)
{
	struct attach_stats st = { 0 };
	struct err err = { 0 };
	uint64_t t0 = now_ns();
	struct target *fresh;
	int r;

	p->has_execed = p->has_new_libs = 0;
	if (target__open(&fresh, p->pid, &err) < 0)
		return; /* gone: its pidfd says so */
	target__free(p->target);
	p->target = fresh;
	p->image_ns = t0;
	proc__drop_plans(p);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	follow__push_proc(f, p, EV_PROC_EXECED, target__ppid(fresh));
	r = follow__plan_and_set(f, p, 0, &st, &err);
	if (st.attached)
		say_attached(f, p, &st, t0);
	if (r < 0 && r != -ENOENT && r != -ESRCH)
		log_warn("process %d after exec: %s", (int)p->pid, err.msg);
}

int follow__gone(struct follow *f, uint32_t index)
{
	struct proc *p = index < f->procs_cnt ? f->procs[index] : NULL;
	int status = 0;

	if (!p)
		return 0;
	follow__push_cpu(f, p); /* while it is a corpse: short ones have no other reading */
	if (waitpid(p->pid, &status, WNOHANG) != p->pid)
		status = 0; /* not our child */
	f->procs[index] = NULL;
	f->live_cnt--;
	(void)epoll_ctl(f->env.epoll_fd, EPOLL_CTL_DEL, p->pidfd, NULL);
	tracer__detach(f->env.tracer, p->pid);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	f->env.push(f->env.ctx, (struct event){ .kind = EV_GONE, .pid = (uint32_t)p->pid,
						.aux = (uint32_t)status });
	proc__free(p);
	return status;
}

/* --- operators that nobody calls ------------------------------------------------------------------------ */

/*
 * All operators have probes at the attach: a job at its very beginning loses nothing. What it never calls makes the others'
 * hits dearer (each looks its place up in a tree of all), so those go when no operator was called for the first time for
 * QUIET_NS and three whole steps. Where nobody steps, or steps are very long, time says nothing (a job may import and load
 * data for minutes, and costs nothing meanwhile): there it takes NO_STEPS_HITS calls, too.
 */
#define QUIET_NS 1000000000ull
#define QUIET_STEPS 4 /* boundaries */
#define NO_STEPS_NS 5000000000ull
#define LONG_STEPS_NS 60000000000ull
#define NO_STEPS_HITS 10000
#define LOOK_EVERY_NS 100000000ull
#define LOOK_TURN_NS 500000ull

static void follow__push_idle(struct follow *f)
{
	uint32_t most = 0;

	for (size_t i = 0; i < f->procs_cnt; i++) {
		for (size_t k = 0; f->procs[i] && k < f->procs[i]->plans_cnt; k++) {
			const struct proc_plan *pl = &f->procs[i]->plans[k];
			uint32_t cnt = pl->is_full ? 0 : idle__cnt(f->idle, pl->ref->plan);

			most = cnt > most ? cnt : most;
		}
	}
	f->env.push(f->env.ctx, (struct event){ .kind = EV_IDLE, .size = most, .addr = f->taken });
}

static void follow__push_late(struct follow *f, const struct late_op *l)
{
	uint64_t now = now_ns();

	f->env.push(f->env.ctx, (struct event){ .ts_ns = now, .kind = EV_LATE_OP, .pid = (uint32_t)l->pid, .name = l->sym,
						.size = now > l->since_ns ? now - l->since_ns : 0 });
}

struct look {
	struct follow *f;
	struct proc *p;
	const struct proc_plan *plan;
};

static void look__called(void *ctx, const struct site *s)
{
	struct look *l = ctx;
	struct follow *f = l->f;
	struct late_op late = { s->sym, l->p->pid, l->p->looked_ns };

	f->has_news = 1;
	if (l->plan->is_full)
		return;
	if (f->looked_up_ns > late.since_ns)
		late.since_ns = f->looked_up_ns;
	if (f->late_cnt < LATE_MAX)
		f->late[f->late_cnt++] = late;
	else
		follow__push_late(f, &late);
}

/* Which operators a process has called since. */
static void follow__look(struct follow *f, struct proc *p)
{
	uint64_t begin = now_ns();

	for (size_t i = 0; i < p->plans_cnt; i++) {
		struct proc_plan *pl = &p->plans[i];
		int r;

		if (!pl->ref->plan->guards_cnt || pl->is_unread)
			continue;
		r = idle__look(f->idle, p->target, pl->ref->plan, pl->ref->seen, look__called,
			       &(struct look){ f, p, pl });
		if (!r || r == -ESRCH)
			continue;
		pl->is_unread = 1;
		f->env.push(f->env.ctx, (struct event){
			.kind = EV_NOTE, .pid = (uint32_t)p->pid,
			.name = names__add(f->env.names, "which operators were never called could not be read in a process: "
							 "those that have probes keep them") });
		log_info("guards of process %d: %s", (int)p->pid, strerror(-r));
	}
	p->looked_ns = begin;
}

/* What was called anywhere gets its probe everywhere. */
static void follow__set_called(struct follow *f, struct proc *p)
{
	for (size_t i = 0; i < p->plans_cnt; i++) {
		const struct plan *plan = p->plans[i].ref->plan;
		struct attach_stats st = { .wanted = idle__wanted(f->idle, plan) };
		struct err err = { 0 };

		if (p->plans[i].is_full || !st.wanted)
			continue;
		if (tracer__attach(f->env.tracer, p->pid, plan, &st, &err) < 0)
			log_debug("late operators of process %d: %s", (int)p->pid, err.msg);
	}
}

static void follow__settle_idle(struct follow *f)
{
	if (!f->has_news)
		return;
	f->has_news = 0;
	follow__news(f);
	if (!f->has_retired)
		return;
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			follow__set_called(f, f->procs[i]);
	for (size_t i = 0; i < f->late_cnt; i++)
		follow__push_late(f, &f->late[i]);
	f->late_cnt = 0;
	follow__push_idle(f);
}

static void follow__look_at_all(struct follow *f)
{
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			follow__look(f, f->procs[i]);
}

void follow__late_ops(struct follow *f)
{
	f->looked_up_ns = tracer__looked_up(f->env.tracer);
	if (f->looked_up_ns && f->has_retired) {
		follow__look_at_all(f);
		follow__settle_idle(f);
	}
	f->looked_up_ns = 0;
}

static int proc__may_retire(const struct proc_plan *pl)
{
	return pl->is_full && !pl->is_unread && pl->ref->plan->guards_cnt;
}

static int follow__is_quiet(const struct follow *f)
{
	uint64_t age = now_ns() - f->news_ns;
	int may = 0, has_steps = 0, is_stepping = 0;

	for (size_t i = 0; i < f->procs_cnt; i++) {
		const struct proc *p = f->procs[i];
		uint64_t steps = p ? f->env.steps(f->env.ctx, p->pid) : 0;

		for (size_t k = 0; p && k < p->plans_cnt; k++)
			may |= proc__may_retire(&p->plans[k]);
		has_steps |= steps != 0;
		/* a better kind of mark begins to count anew */
		is_stepping |= steps && (steps >= p->steps_base ? steps - p->steps_base : steps) < QUIET_STEPS;
	}
	if (!may || age < QUIET_NS)
		return 0;
	if (has_steps && !is_stepping)
		return 1;
	return age >= (has_steps ? LONG_STEPS_NS : NO_STEPS_NS) && follow__hits(f) - f->news_hits >= NO_STEPS_HITS;
}

static void follow__retire_proc(struct follow *f, struct proc *p)
{
	for (size_t i = 0; i < p->plans_cnt; i++) {
		struct proc_plan *pl = &p->plans[i];
		const uint8_t *wanted = proc__may_retire(pl) ? idle__wanted(f->idle, pl->ref->plan) : NULL;
		struct retire_stats st;
		int r = wanted ? tracer__retire(f->env.tracer, p->pid, pl->ref->plan, wanted, &st) : 0;

		if (!wanted)
			continue;
		pl->is_full = 0;
		if (r < 0) {
			pl->is_full = pl->is_unread = 1;
			log_info("idle operators of process %d stay: %s", (int)p->pid, strerror(-r));
			continue;
		}
		f->taken += st.taken;
		log_debug("process %d: %u probes of idle operators taken away, %u set anew in %llu us", (int)p->pid, st.taken,
			  st.kept, (unsigned long long)(st.took_ns / 1000));
	}
}

static void follow__retire(struct follow *f)
{
	follow__look_at_all(f);
	if (f->has_news)
		return;
	f->has_retired = 1;
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			follow__retire_proc(f, f->procs[i]);
	follow__push_idle(f);
}

void follow__turn_idle(struct follow *f)
{
	uint64_t begin = now_ns();

	for (size_t i = 0; i < f->procs_cnt && now_ns() - begin < LOOK_TURN_NS; i++) {
		struct proc *p = f->procs[(f->idle_turn + i) % f->procs_cnt];

		if (p && begin >= p->looked_ns + LOOK_EVERY_NS)
			follow__look(f, p);
	}
	f->idle_turn = f->procs_cnt ? (f->idle_turn + 1) % f->procs_cnt : 0;
	follow__settle_idle(f);
	if (follow__is_quiet(f))
		follow__retire(f);
	follow__settle_idle(f);
}

/* --- sideband --------------------------------------------------------------------------------------- */

int follow__sideband_record(void *follow, const struct sb_record *rec)
{
	struct follow *f = follow;
	struct proc *p;

	if (rec->kind == SB_LOST) {
		f->sideband_lost += rec->lost;
		/* Anything may have been missed: look at everything again. */
		for (size_t i = 0; i < f->procs_cnt; i++)
			if (f->procs[i])
				f->procs[i]->has_new_libs = 1;
		f->has_missed = f->env.all;
		return 0;
	}
	if (rec->kind == SB_FORK) {
		p = follow__proc(f, (pid_t)rec->ppid);
		if (p && rec->pid != rec->ppid && f->env.children && !follow__proc(f, (pid_t)rec->pid))
			follow__attach_child(f, p, (pid_t)rec->pid, rec->ts_ns);
		return 0;
	}
	p = follow__proc(f, (pid_t)rec->pid);
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

void follow__settle(struct follow *f)
{
	for (size_t i = 0; i < f->procs_cnt; i++) {
		struct proc *p = f->procs[i];

		if (!p)
			continue;
		if (p->has_execed || (p->has_new_libs && target__is_early(p->target)))
			follow__execed(f, p);
		if (p->has_new_libs)
			follow__refresh(f, p);
	}
	if (f->env.all)
		follow__settle_jobs(f);
}


/* --- life -------------------------------------------------------------------------------------- */

struct follow *follow__new(const struct follow_env *env)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->env = *env;
	f->idle = idle__new();
	if (!f->idle) {
		free(f);
		return NULL;
	}
	return f;
}

void follow__free(struct follow *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->procs_cnt; i++)
		proc__free(f->procs[i]);
	free(f->procs);
	idle__free(f->idle);
	free(f);
}

int follow__is_followed(const struct follow *f, pid_t pid)
{
	return follow__proc(f, pid) != NULL;
}

size_t follow__pids(const struct follow *f, pid_t *ret, size_t max)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->procs_cnt && cnt < max; i++)
		if (f->procs[i])
			ret[cnt++] = f->procs[i]->pid;
	return cnt;
}

size_t follow__live_cnt(const struct follow *f)
{
	return f->live_cnt;
}

uint64_t follow__sideband_lost(const struct follow *f)
{
	return f->sideband_lost;
}

void follow__push_usage(struct follow *f)
{
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			follow__push_cpu(f, f->procs[i]);
}

void follow__detach_all(struct follow *f)
{
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			tracer__detach(f->env.tracer, f->procs[i]->pid);
}

void follow__push_gone_all(struct follow *f)
{
	for (size_t i = 0; i < f->procs_cnt; i++)
		if (f->procs[i])
			f->env.push(f->env.ctx, (struct event){ .kind = EV_GONE, .flags = 1,
								.pid = (uint32_t)f->procs[i]->pid });
}
