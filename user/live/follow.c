/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A forked child runs the same files at the same addresses, so it is attached with its parent's
 * plans, without planning again: DataLoader workers come by the dozen. An exec throws all of it away.
 * Between a fork and our attach the child runs unseen for some milliseconds: the kernel offers no way
 * to inherit the probes of a process filter.
 */
#define LOG_MODULE "follow"
#include "live/follow.h"

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
#include "base/text.h"
#include "event/decode.h"
#include "keeper/keeper.h"
#include "live/followed.h"
#include "live/lock.h"
#include "live/planner.h"
#include "live/redact.h"
#include "live/retire.h"
#include "live/setter.h"
#include "live/usage.h"
#include "target/jobs.h"
#include "target/sideband.h"
#include "target/target.h"

#define MET_MAX 64
#define SHORT_MAX 64
/* Before a process's operators are set its steps are looked at, to have something to compare the later ones with. */
#define LOOK_STEPS 6 /* boundaries */
#define LOOK_MIN_NS 150000000ull
#define LOOK_NS 400000000ull
#define LOOK_NO_STEPS_NS 250000000ull
#define RECOVER_REST 9 /* times what looking at everything again took */
#define LOOK_REST 4  /* times what a look at a process's libraries took: the pause behind it */
#define EARLY_MAX 4  /* looks amid one exec, which takes a millisecond; a process can make believe that it has no arguments */

struct follow {
	struct follow_env env;
	struct followed followed;
	struct usage usage;
	struct retire *retire;
	struct planner *planner;
	struct setter *setter;
	struct err failed; /* of a process that the user named; code 0: none did */
	int has_started;   /* what is set from now on nobody waits for */
	size_t awaited_plans;
	uint64_t sideband_lost, files_lost, procs_left_out, sites_left_out;
	int has_perf;	   /* each place is a descriptor of its own */
	/* env.all: jobs that were met since the last settling, and those that could not be attached to */
	pid_t met[MET_MAX], refused[MET_MAX];
	size_t met_cnt, refused_cnt;
	int has_missed; /* some found no room: all are looked at … */
	uint64_t jobs_ns; /* … not before this time */
	struct short_lived { /* children that ended before their own were heard of, and whose they were */
		pid_t pid, parent;
	} shorts[SHORT_MAX];
	size_t shorts_at;
	int is_cut_told;
	int has_lost;	/* sideband records: everything is looked at again … */
	uint64_t recover_ns; /* … not before this time */
};

/* What the process chose. */
static name_id follow__name(struct follow *f, pid_t pid, const char *text)
{
	return names__add_of(f->env.names, (uint32_t)pid, text, strlen(text));
}

static void follow__push_proc(struct follow *f, struct process *p, enum ev_proc_how how, pid_t ppid)
{
	const char *const *labels, *cmdline = target__cmdline(p->target);
	size_t cnt = target__labels(p->target, &labels);
	char left[TEXT_BYTES_MAX];

	if (f->env.redact)
		cmdline = redact_cmdline(left, sizeof(left), cmdline);
	f->env.push(f->env.ctx, (struct event){
		.kind = EV_PROC,
		.pid = (uint32_t)p->pid,
		.tid = (uint32_t)p->pid,
		.aux = (uint32_t)ppid,
		.flags = (uint8_t)how,
		.size = target__start_ns(p->target),
		.addr = follow__name(f, p->pid, cmdline).v,
		.name = follow__name(f, p->pid, target__comm(p->target)) });
	for (size_t i = 0; i < cnt; i++)
		if (!f->env.redact || redact_keeps_label(labels[i]))
			f->env.push(f->env.ctx, (struct event){ .kind = EV_LABEL, .pid = (uint32_t)p->pid,
							       .name = follow__name(f, p->pid, labels[i]) });
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

static void follow__note(struct follow *f, const struct process *p, const char *text)
{
	f->env.push(f->env.ctx, (struct event){ .kind = EV_NOTE, .pid = (uint32_t)p->pid,
						.name = names__add(f->env.names, text) });
}

/* Once all that was under way in the process is set. */
static void follow__say_attached(const struct follow *f, struct process *p)
{
	const struct proc_attach at = p->attach;
	char comm[TEXT_BYTES_MAX];

	if (p->settings_cnt || !at.since_ns)
		return;
	p->attach = (struct proc_attach){ 0 };
	/* A shell around the job: not worth a word; what it starts is. */
	if (f->env.quiet || (!at.attached && !at.failed && f->env.plan.sources != SRC_KERNEL))
		return;
	fprintf(stderr, "attached to %d (%s) in %llu ms: %u of %u probes", (int)p->pid,
		safe_text(comm, target__comm(p->target)), (unsigned long long)((now_ns() - at.since_ns) / 1000000),
		at.attached, at.attached + at.failed);
	for (unsigned i = 0; i < SRC_CNT; i++)
		if (at.attached_by_source[i])
			fprintf(stderr, ", %s %llu", source_name(1u << i), (unsigned long long)at.attached_by_source[i]);
	fprintf(stderr, "%s%s\n", f->env.plan.sources & SRC_KERNEL ? ", kernel" : "", at.way ? " (perf uprobes)" : "");
	fflush(stderr);
}

static void follow__add_stats(struct process *p, const struct attach_stats *st)
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

static void follow__set_failed(struct follow *f, const struct setting *one, int r, const struct err *err)
{
	if (one->is_named && !f->failed.code) {
		f->failed = *err;
		f->failed.code = r;
	} else if (r != -ESRCH && !one->is_named) {
		log_warn("process %d: %s", (int)one->p->pid, err->msg);
	}
}

/* A process that is at work has shown its steps, or that it has none. */
static int follow__has_looked(struct follow *f, struct setting *one)
{
	uint64_t steps = f->env.steps(f->env.ctx, one->p->pid), age;

	if (one->is_hasty || !(f->env.plan.sources & SRC_REGIONS))
		return 1;
	if (!one->look_ns) {
		one->look_ns = now_ns();
		one->look_steps = steps;
	}
	age = now_ns() - one->look_ns;
	return age >= LOOK_NS || (steps >= one->look_steps + LOOK_STEPS && age >= LOOK_MIN_NS) ||
	       (steps == one->look_steps && age >= LOOK_NO_STEPS_NS);
}

static int follow__may_begin(void *ctx, struct setting *one)
{
	struct follow *f = ctx;

	if (!follow__has_looked(f, one))
		return 0;
	f->env.push(f->env.ctx, (struct event){ .kind = EV_ATTACH, .pid = (uint32_t)one->p->pid, .flags = EV_ATTACH_BEGINS });
	return 1;
}

static void follow__push_attach(struct follow *f, const struct setting *one)
{
	uint64_t now = now_ns();

	if (one->begin_ns)
		f->env.push(f->env.ctx, (struct event){
			.ts_ns = now, .kind = EV_ATTACH, .pid = (uint32_t)one->p->pid, .addr = one->st.attached,
			.size = now - one->begin_ns, .aux = one->st.slices, .seq = (uint32_t)(one->st.longest_ns / 1000) });
}

/* What was set is known now; with -ECANCELED a part. Late operators were not charged before. */
static void follow__settle_places(struct follow *f, const struct setting *one)
{
	struct process *p = one->p;

	p->places -= one->places + one->file_places;
	p->places += one->st.set + (one->st.set ? one->file_places : 0);
	f->has_perf |= one->st.way;
}

/* Adds what became of a plan in a process to the sums, and tells it. */
static void follow__set_done(void *ctx, struct setting *one, int r, struct err *err)
{
	const struct plan *plan = one->ref->plan;
	struct process *p = one->p;
	struct follow *f = ctx;

	follow__settle_places(f, one);
	if (one->is_late) {
		if (r < 0)
			log_debug("late operators of process %d: %s", (int)p->pid, r == -ECANCELED ? "it is over" : err->msg);
		retire__set_done(f->retire);
		return;
	}
	if (r < 0 && r != -ECANCELED && (r != -ESRCH || target__alive(p->target))) {
		follow__set_failed(f, one, r, err);
		return;
	}
	follow__add_stats(p, &one->st);
	follow__push_covers(f, p);
	if (r < 0) { /* it is over, or is another program now */
		if (one->is_named && !f->failed.code && !target__alive(p->target))
			err_set(&f->failed, -ESRCH, "process %d ended while it was being attached", (int)p->pid);
		return;
	}
	follow__push_attach(f, one);
	if (!one->is_inherited)
		follow__push_sites(f, p, plan, one->st.site_failed);
	if (one->st.clashed)
		follow__note(f, p, "USDT probes with a semaphore could not be set: another tool has probes there without it; "
				   "end that tool and attach again");
	if (one->st.classes_left_out)
		follow__note(f, p, "some classes of this process's objects found no room among those of all processes: what is "
				   "done with such objects is not read");
	if (one->st.slots_left_out)
		follow__note(f, p, "this process has more probed functions than are counted each: some of them are shown as "
				   "never called, though what they told is there");
	if (plan->guards_cnt)
		retire__news(f->retire);
	follow__say_attached(f, p);
}

/* How a plan gets into a process, beside what it is. */
struct set_how {
	int is_full; /* with the operators that nobody has called */
	int is_inherited, is_hasty, is_at_work, is_named; /* struct setting */
	int is_still; /* nobody runs there: at once */
};

/* A process that loads one library after the other. Of a tree one process is named, the others are counted. */
static void follow__has_no_places(struct follow *f, struct process *p, uint64_t sites)
{
	const struct process *kin;

	f->sites_left_out += sites;
	for (size_t at = 0; (kin = followed__next(&f->followed, &at));)
		if (kin->tree == p->tree && kin->is_places_over)
			return;
	p->is_places_over = 1;
	follow__note(f, p, "this process, with its kin, has as many probes in its libraries as leave room for others: none are "
			   "set in further ones");
}

/* Begins to set a plan in a process, and keeps a reference to it. */
static int follow__set(struct follow *f, struct process *p, struct plan_ref *ref, const struct set_how *how,
			struct err *err)
{
	const struct plan *plan = ref->plan;
	int is_full = how->is_full || !plan->guards_cnt;
	const uint8_t *wanted = is_full ? NULL : retire__wanted(f->retire, plan);
	uint64_t sites, files = plan_places(plan, wanted, &sites);
	struct setting *one = NULL;

	if (sites && !followed__may_probe(&f->followed, p, sites + files,
					  f->has_perf ? FOLLOW_PLACES_PERF_MAX : FOLLOW_PLACES_MAX, f->env.all)) {
		follow__has_no_places(f, p, sites);
		return 0;
	}
	if (process__add_plan(p, ref, is_full))
		one = setter__add(f->setter, p, ref, wanted);
	if (!one || follow__add_vtables(f, p, plan) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (is_full && plan->guards_cnt)
		retire__news(f->retire);
	for (size_t i = 0; i < plan->notes_cnt; i++)
		follow__note(f, p, plan->notes[i]);
	one->places = sites;
	one->file_places = files;
	p->places += sites + files;
	one->is_inherited = how->is_inherited;
	one->is_hasty = how->is_hasty;
	one->is_at_work = how->is_at_work;
	one->is_named = how->is_named;
	one->is_awaited = !f->has_started;
	if (how->is_still || !plan->sites_cnt)
		setter__run(f->setter, one);
	return 0;
}

/* --- plans ------------------------------------------------------------------------------------------ */

/*
 * Asks for a plan of what the process has mapped (or, only_new, has mapped since); follow__plan_ready begins to set it. Until
 * then the process's libraries are not read again: the planner looks at them.
 */
static int follow__ask(struct follow *f, struct process *p, int only_new, const struct set_how *how, struct err *err)
{
	struct plan_opts po = f->env.plan;

	po.only_new_libs = only_new;
	p->asked = (struct proc_asked){ .only_new = only_new != 0, .is_named = how->is_named != 0,
					.is_hasty = how->is_hasty != 0, .is_still = how->is_still != 0,
					.is_awaited = !f->has_started,
					.ticket = planner__ask(f->planner, p->target, &po) };
	f->awaited_plans += p->asked.ticket && p->asked.is_awaited;
	return p->asked.ticket ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* What is being made fits the process no more: it is another program, or gone; or it is there. */
static void follow__unask(struct follow *f, struct process *p)
{
	planner__forget(f->planner, p->asked.ticket);
	f->awaited_plans -= p->asked.ticket && p->asked.is_awaited;
	p->asked.ticket = 0;
}

static struct process *follow__find_asker(const struct follow *f, uint64_t ticket)
{
	struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		if (p->asked.ticket == ticket)
			return p;
	return NULL;
}

/* Begins to set a plan that is ready. */
static int follow__set_planned(struct follow *f, struct process *p, struct plan *plan, struct err *err)
{
	struct set_how how = { .is_full = 1, .is_hasty = p->asked.is_hasty, .is_named = p->asked.is_named,
			       .is_still = p->asked.is_still,
			       .is_at_work = p->asked.only_new && f->env.steps(f->env.ctx, p->pid) };
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
		r = follow__set(f, p, ref, &how, err);
	plan_ref__put(ref);
	return r;
}

/* A first plan, one after an exec, or one of new libraries; or there are none. */
static void follow__take_plan(struct follow *f, struct process *p, struct planned *pl)
{
	struct proc_asked asked = p->asked;
	struct err err = pl->err;
	int r = pl->r;

	follow__unask(f, p);
	p->look_ns = now_ns() + LOOK_REST * pl->look_ns;
	if (!r && !pl->plan)
		return;
	log_debug("plan of process %d in %.1f ms", (int)p->pid, (double)pl->took_ns / 1e6);
	if (!r)
		r = follow__set_planned(f, p, pl->plan, &err);
	if (r == -ENOENT && (!asked.is_named || asked.is_still)) /* libraries are probed as they come */
		r = 0;
	if ((!r || r == -ESRCH) && asked.is_named && !target__alive(p->target))
		r = err_set(&err, -ESRCH, "process %d ended while it was being attached", (int)p->pid);
	if (r < 0 && asked.is_named && !f->failed.code) {
		f->failed = err;
		f->failed.code = r;
	} else if (r < 0 && r != -ESRCH) {
		log_warn("%s of process %d: %s", asked.only_new ? "new libraries" : "probes", (int)p->pid, err.msg);
	}
	if (!r && !asked.is_still)
		follow__say_attached(f, p);
}

int follow__plans_fd(const struct follow *f)
{
	return planner__fd(f->planner);
}

void follow__plan_ready(struct follow *f)
{
	struct planned pl;
	struct process *p;

	if (!planner__next(f->planner, f->env.names, &pl))
		return;
	p = follow__find_asker(f, pl.ticket);
	if (p)
		follow__take_plan(f, p, &pl);
	else
		plan__free(pl.plan);
}

uint64_t follow__procs_left_out(const struct follow *f)
{
	return f->procs_left_out;
}

uint64_t follow__sites_left_out(const struct follow *f)
{
	return f->sites_left_out;
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

/* A struct process that is known to the loop, not yet probed. image: forked by that one, whose plans fit it; or NULL. */
static int follow__add_proc(struct follow *f, pid_t pid, const struct process *parent, const struct target *image,
			    struct process **ret, struct err *err)
{
	uint64_t wait_ns = f->env.all || f->followed.live_cnt ? 0 : LOCK_WAIT_NS; /* nothing is drained meanwhile */
	struct process *p;
	int r;

	r = process__new(&p, &f->followed, pid, parent, f->env.all);
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
	followed__add(&f->followed, p);
	*ret = p;
	return 0;
}

/* What it does to others would be told, and be done for that again. */
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
	return follow__ask(f, p, 0, &set, err);
}

int follow__attach(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns,
			   int may_be_empty, struct err *err)
{
	return follow__attach_below(f, pid, NULL, how, since_ns, may_be_empty, err);
}

/* A child that is not followed. Of those that find no room one is told of, the others are counted. */
static void follow__left_out(struct follow *f, struct process *parent, pid_t pid, int r, const struct err *err)
{
	struct process *root = followed__find(&f->followed, parent->tree);

	root = root ? root : parent;
	if (r == -ESRCH || (r == -ENOSPC && root->is_tree_over)) /* gone again: not worth a word */
		return;
	log_warn("child %d of %d is not followed: %s", (int)pid, (int)parent->pid, err->msg);
	if (r != -ENOSPC)
		return;
	root->is_tree_over = 1;
	follow__note(f, root, "this process has more children than are followed, so that others find room: what further ones "
			      "do is not seen");
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

/* The followed process that such a one descended from. NULL: it is none. */
static struct process *follow__find_short(struct follow *f, pid_t pid)
{
	struct process *p = NULL;

	for (size_t i = 0; i < SHORT_MAX && pid && !p; i++) {
		pid = follow__parent_of_short(f, pid);
		p = pid ? followed__find(&f->followed, pid) : NULL;
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
 * A forked child has its parent's files at its parent's addresses, so the parent's plans fit it. has_image: that parent is the
 * one that forked it; else one between them had ended by then, and who knows what program that was.
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
	if (!has_image)
		r = follow__ask(f, p, 0, &(struct set_how){ .is_hasty = 1 }, &err);
	for (size_t i = 0; i < parent->plans_cnt && !r && !p->asked.ticket; i++) {
		struct set_how how = { .is_full = parent->plans[i].is_full, .is_inherited = 1, .is_hasty = 1 };

		r = follow__set(f, p, parent->plans[i].ref, &how, &err);
	}
	if (r < 0)
		log_warn("child %d of %d: %s", (int)pid, (int)parent->pid, err.msg);
	if (!p->asked.ticket)
		follow__say_attached(f, p);
}

/* They may have become other programs since they were forked, so each is planned. */
static void follow__attach_kin(struct follow *f, struct process *p, struct proc_kin *all, size_t all_cnt)
{
	pid_t *kids = NULL;
	int n = processes_below(all, all_cnt, p->pid, 1, &kids);

	for (int i = 0; i < n; i++) {
		struct err err = { 0 };
		int r = 0;

		if (!followed__find(&f->followed, kids[i]) && !is_memtrace(f, kids[i]))
			r = follow__attach_below(f, kids[i], p, EV_PROC_ATTACHED, now_ns(), 1, &err);
		if (r < 0)
			follow__left_out(f, p, kids[i], r, &err);
	}
	free(kids);
}

void follow__attach_children(struct follow *f, pid_t pid)
{
	struct process *p = followed__find(&f->followed, pid);
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
	uint64_t begin_ns = now_ns();
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
	f->jobs_ns = now_ns() + RECOVER_REST * (now_ns() - begin_ns);
}

static void follow__settle_jobs(struct follow *f)
{
	size_t cnt = f->met_cnt;

	f->met_cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		follow__attach_job(f, f->met[i]);
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
	if (follow__ask(f, p, 1, &(struct set_how){ .is_hasty = 1 }, &err) < 0)
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

	p->early_cnt = p->has_execed ? 0 : p->early_cnt + 1;
	p->has_execed = p->has_new_libs = 0;
	if (target__open_bare(&fresh, p->pid, NULL, &err) < 0)
		return; /* gone: its pidfd says so */
	follow__unask(f, p);
	setter__drop(f->setter, p);
	target__free(p->target);
	p->target = fresh;
	p->image_ns = t0;
	p->attach = (struct proc_attach){ .since_ns = t0 };
	process__drop_plans(p);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	follow__push_proc(f, p, EV_PROC_EXECED, target__ppid(fresh));
	if (follow__ask(f, p, 0, &(struct set_how){ .is_hasty = 1 }, &err) < 0)
		log_warn("process %d after exec: %s", (int)p->pid, err.msg);
}

int follow__is_read(struct follow *f, uint32_t index, uint64_t read_ns)
{
	struct process *p = index < f->followed.procs_cnt ? f->followed.procs[index] : NULL;

	if (p && !p->gone_ns)
		p->gone_ns = now_ns();
	return !p || read_ns >= p->gone_ns;
}

int follow__gone(struct follow *f, uint32_t index)
{
	struct process *p = followed__take(&f->followed, index);
	int status = 0;

	if (!p)
		return 0;
	if (p->parent)
		follow__note_short(f, p->pid, p->parent);
	follow__unask(f, p);
	usage__push_cpu(&f->usage, p); /* while it is a corpse: short ones have no other reading */
	if (waitpid(p->pid, &status, WNOHANG) != p->pid)
		status = 0; /* not our child */
	(void)epoll_ctl(f->env.epoll_fd, EPOLL_CTL_DEL, p->pidfd, NULL);
	setter__drop(f->setter, p);
	keeper__detach(f->env.keeper, p->pid);
	(void)keeper__tree(f->env.keeper, p->pid, 0);
	decode__drop_pid(f->env.decode, (uint32_t)p->pid);
	names__drop_owner(f->env.names, (uint32_t)p->pid);
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

static void follow__forked(struct follow *f, const struct sb_record *rec)
{
	struct process *maker = followed__find(&f->followed, (pid_t)rec->ppid), *p = maker;

	if (rec->pid == rec->ppid || !f->env.children) /* a thread */
		return;
	follow__forget_short(f, (pid_t)rec->pid); /* the number is this one's */
	p = p ? p : follow__find_short(f, (pid_t)rec->ppid);
	if (p && !followed__find(&f->followed, (pid_t)rec->pid))
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
							.name = follow__name(f, p->pid, rec->text) });
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
	struct proc_kin *all = NULL;
	uint64_t begin_ns = now_ns();
	int all_cnt = f->env.children ? processes_read(&all) : 0;

	f->has_lost = 0;
	f->has_missed = f->env.all;
	for (size_t i = 0; i < cnt; i++) {
		struct process *p = followed__find(&f->followed, pids[i]);

		p->has_new_libs = 1;
		p->has_execed |= target__has_execed(p->target);
		if (all_cnt > 0 && !followed__find(&f->followed, p->parent))
			follow__attach_kin(f, p, all, (size_t)all_cnt); /* and what descends from its children */
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
	for (size_t at = 0; (p = followed__next(&f->followed, &at));) {
		if (p->has_execed || (p->has_new_libs && p->early_cnt < EARLY_MAX && target__is_early(p->target)))
			follow__execed(f, p);
		if (p->has_new_libs && !p->asked.ticket && now >= p->look_ns) /* else when its plan is there */
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
	f->setter = setter__new(env->keeper, follow__may_begin, follow__set_done, f);
	f->retire = retire__new(&(struct retire_env){ .followed = &f->followed, .names = env->names, .keeper = env->keeper,
						      .setter = f->setter, .push = env->push, .steps = env->steps,
						      .ctx = env->ctx });
	r = f->retire && f->setter ? planner__new(&f->planner, err) : err_set(err, -ENOMEM, "out of memory");
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
	setter__free(f->setter);
	followed__done(&f->followed);
	retire__free(f->retire);
	free(f);
}

pid_t follow__tree(const struct follow *f, pid_t pid)
{
	const struct process *p = followed__find(&f->followed, pid);

	return p ? p->tree : pid;
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

void follow__turn_set(struct follow *f)
{
	setter__turn(f->setter);
}

int follow__sleep_ms(const struct follow *f)
{
	return setter__sleep_ms(f->setter);
}

int follow__awaits(struct follow *f, struct err *err)
{
	if (f->failed.code) {
		*err = f->failed;
		return err->code;
	}
	f->has_started = !f->awaited_plans && !setter__is_awaited(f->setter);
	return !f->has_started;
}

void follow__late_ops(struct follow *f)
{
	retire__late_ops(f->retire);
}

void follow__detach_all(struct follow *f)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		if (p->settings_cnt)
			follow__note(f, p, "the trace ended before all probes of a process were set");
	setter__drop(f->setter, NULL);
	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		keeper__detach(f->env.keeper, p->pid);
}

void follow__push_gone_all(struct follow *f)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(&f->followed, &at));)
		f->env.push(f->env.ctx, (struct event){ .kind = EV_GONE, .flags = 1, .pid = (uint32_t)p->pid });
}
