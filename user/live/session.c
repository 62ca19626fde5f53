/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One thread, one epoll loop, driven by time: every DRAIN_MS the rings and the sideband are emptied
 * and what is older than ORDER_SLACK_NS is passed on; once a second counters are read, made into
 * events, and the caller is shown a report. Rings wake the loop early only when a quarter full.
 *
 * A turn at the rings ends after TURN_NS, whatever there is: signals, processes that end, HTTP and the clock come in between.
 * What is passed on is what is complete: a ring that was not read to its end holds all others' later events back. Who is
 * behind does not read on while half the window waits: then rings overflow, which is counted, and order stays right.
 *
 * Everything that a report says goes through the stream of events, the session's own knowledge too
 * (who the target is, what could be attached, losses, costs): so a recording replays to the same
 * report.
 */
#define LOG_MODULE "session"
#include "live/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/self.h"
#include "memtrace/shared.h"
#include "live/follow.h"
#include "live/launch.h"
#include "live/lock.h"
#include "live/naming.h"
#include "live/nvml.h"
#include "live/overhead.h"
#include "record/recorder.h"
#include "live/share.h"
#include "event/decode.h"
#include "event/order.h"
#include "event/pairing.h"
#include "keeper/keeper.h"
#include "memtrace/recording.h"
#include "model/model.h"
#include "plan/plan.h"
#include "stack/capture.h"
#include "target/sideband.h"
#include "timeline/report.h"

#define DRAIN_MS 10
#define TURN_NS 10000000ull	      /* reading rings and passing on; other work gets its turn too */
#define READ_NS 5000000ull	      /* of it: what was read must be passed on, too */
#define PASS_PIECE 1024		      /* events between two looks at the clock */
#define ORDER_SLACK_NS 50000000ull    /* a program can be preempted between clock and reserve */
#define COUNT_AHEAD_NS 100000000ull   /* counters are read so long before they are shown: order holds them back */
#define ORDER_WINDOW_MIN (1u << 19)
#define ORDER_WINDOW_MAX (1u << 24)   /* 1.2 GiB if ever full */
#define RECORD_BYTES_TYPICAL 40	      /* in a ring, its header included */
#define SIDEBAND_PAGES 64
#define SLOW_ATTACH_NS 2000000000ull  /* so long is waited without a word */
#define STACK_RATE 2000		      /* native stacks a second: 33 MB/s through the rings, 2 to 4 % of a core to unwind */
#define MARKS_MAX 99		      /* each is a name */
#define NAMES_BYTES (MTR_NAMES_BYTES_MAX - (1u << 20)) /* what a recording takes */

enum { WAKE_TIMER = 1, WAKE_COUNT, WAKE_TICK, WAKE_SIGNAL, WAKE_RING, WAKE_SIDEBAND, WAKE_PROC, WAKE_INPUT, WAKE_WATCH,
       WAKE_NAMES, WAKE_KEEPER, WAKE_PLANS };

/* Why a session ends; < 0: an error. */
enum session_stop { STOP_ASKED = 1, STOP_TIME = 2, STOP_GONE = 3, STOP_OVERHEAD = 4 };

struct session {
	const struct session_opts *opts;
	struct names *names;
	struct decode *decode;
	struct capture *capture; /* NULL: no stacks are asked for */
	struct order *order;
	struct pairing *pairing;
	struct model *model;
	struct recorder recorder;
	struct keeper *keeper;
	struct sideband *sideband;
	int is_sideband_armed;
	struct follow *follow;
	struct nvml *nvml; /* NULL: there is none */
	struct naming *naming; /* NULL: not asked for */
	int epoll_fd, timer_fd, count_fd, tick_fd, signal_fd;
	uint64_t start_ns;
	uint64_t read_ns;    /* the rings were read until then */
	size_t window;	     /* of order */
	int has_more;	     /* … and hold more: the time was over */
	int has_backlog;     /* what was read was not all passed on */
	uint64_t detach_ns;  /* what happens later is no part of the trace: probes go one after the other */
	int stop;	     /* enum session_stop; 0: goes on */
	int has_started;     /* all processes that were named are attached to */
	struct overhead overhead;
	unsigned marks_cnt;
	pid_t launched;
	int exit_status;
	uint64_t oom_kills; /* as last told; UINT64_MAX: not yet */
	struct share share;
	uint32_t full[16];  /* pids without room for names, not told yet */
	size_t full_cnt;
};

/* --- events ------------------------------------------------------------------------------------ */

/* The last stop before model and recording. */
static int session__pass(void *ctx, const struct event *ev)
{
	struct session *s = ctx;
	int r = model__handle(s->model, ev);

	if (r < 0)
		return r;
	recorder__add(&s->recorder, s->model, ev);
	return 0;
}

static int session__keep(struct session *s, const struct event *ev)
{
	if (ev->kind == EV_GONE || ev->kind == MT_EV_EXIT || (ev->kind == EV_PROC && ev->flags == EV_PROC_EXECED))
		pairing__end(s->pairing, ev->pid);
	return session__pass(s, ev);
}

/* Consumer behind order. */
static int session__ordered(void *ctx, const struct event *in)
{
	struct session *s = ctx;
	struct event ev = *in, before;
	int r = 1;

	decode__resolve(s->decode, &ev);
	if (s->capture)
		r = capture__resolve(s->capture, &ev, session__pass, s);
	if (r <= 0)
		return r;
	if (pairing__event(s->pairing, &ev, &before)) {
		r = session__keep(s, &before);
		if (r < 0)
			return r;
	}
	return session__keep(s, &ev);
}

/* An event of our own making. What order cannot take now it reports again at the next record. */
static void session__push(void *ctx, struct event ev)
{
	struct session *s = ctx;

	if (!ev.ts_ns)
		ev.ts_ns = now_ns();
	if (s->capture && ev.kind == EV_PROC)
		capture__begin(s->capture, (pid_t)ev.pid);
	if (s->capture && ev.kind == EV_GONE)
		capture__end(s->capture, (pid_t)ev.pid);
	(void)order__push(s->order, &ev);
}

/* --- what other rooms ask for ------------------------------------------------------------------- */

static int session__python(void *ctx, pid_t pid, const struct mt_py_proc *how)
{
	const struct session *s = ctx;

	return keeper__python(s->keeper, pid, how);
}

static int session__modules(void *ctx, pid_t pid, const struct mt_module_proc *how)
{
	const struct session *s = ctx;

	return keeper__modules(s->keeper, pid, how);
}

static int session__module(void *ctx, pid_t pid, uint64_t obj, int has_name)
{
	const struct session *s = ctx;

	return keeper__module(s->keeper, pid, obj, has_name);
}

static pid_t session__tree(void *ctx, pid_t pid)
{
	const struct session *s = ctx;

	return follow__tree(s->follow, pid);
}

static uint64_t session__steps(void *ctx, pid_t pid)
{
	const struct session *s = ctx;

	return model__steps_of(s->model, (uint32_t)pid);
}

static void session__note(void *ctx, pid_t pid, const char *text)
{
	struct session *s = ctx;

	session__push(s, (struct event){ .kind = EV_NOTE, .pid = (uint32_t)pid, .name = names__add(s->names, text) });
}

/* A process that makes up names without end. Told later: names are added while order passes events on. */
static void session__names_full(void *ctx, uint32_t pid)
{
	struct session *s = ctx;

	if (s->full_cnt < sizeof(s->full) / sizeof(s->full[0]))
		s->full[s->full_cnt++] = pid;
}

static void session__note_cut(struct session *s, uint32_t pid, uint64_t cnt)
{
	char text[200];

	if (cnt)
		snprintf(text, sizeof(text), "%llu events of process %u were left out for its share", (unsigned long long)cnt,
			 pid);
	else
		snprintf(text, sizeof(text), "process %u told more than its share of what can be followed: part of its events "
			 "was left out, so that the others' are not lost", pid);
	session__note(s, (pid_t)pid, text);
}

/* Who told more than its share: when that is first seen, and at the end how much it was. */
static void session__push_cut(struct session *s, int is_end)
{
	size_t rings_cnt;
	const struct mt_shares *rings = keeper__shares(s->keeper, &rings_cnt);

	for (uint32_t pid; (pid = share__next_cut(&s->share, rings, rings_cnt));)
		session__note_cut(s, pid, 0);
	for (size_t i = 0; is_end && i < s->share.named_cnt; i++)
		session__note_cut(s, s->share.named[i], share__left_out(&s->share, rings, rings_cnt, s->share.named[i]));
}

static void session__push_full(struct session *s)
{
	for (pid_t pid; (pid = keeper__next_held_up(s->keeper));)
		session__note(s, pid, "this process holds up who looks at its memory or files: it is not looked at meanwhile");
	for (pid_t pid; (pid = keeper__next_live_over(s->keeper));)
		session__note(s, pid, "this process has more live blocks above --min-size than leave room for others: further "
				      "ones are not told");
	while (s->full_cnt)
		session__note(s, (pid_t)s->full[--s->full_cnt],
			      "this process has used up its share of names: its further new ones are shown as \"?\"");
	for (pid_t pid; s->capture && (pid = capture__next_over(s->capture));)
		session__note(s, pid, "this process has used up its share of stacks: its further new ones are not told");
}

/* --- records ------------------------------------------------------------------------------------ */

static int session__stack(struct session *s, const void *rec, size_t len)
{
	struct event ev;

	if (!s->capture || !capture__record(s->capture, rec, len, &ev) || ev.ts_ns > s->detach_ns)
		return 0;
	return order__push(s->order, &ev);
}

/* Of order's window, for what was read and not yet passed on: the other half is what rings hold that are read later. */
static size_t session__room(const struct session *s)
{
	return s->window / 2;
}

/* Texts are told once, so they are taken always: others' events may need them. At the end nothing comes any more. */
static int session__takes(struct session *s, const void *rec, size_t len)
{
	const struct mt_hdr *h = rec;

	return len < sizeof(*h) || s->detach_ns != UINT64_MAX || h->kind == MT_EV_NAME || h->kind == MT_EV_STACK_PY ||
	       share__takes(&s->share, h->pid, order__waiting(s->order), session__room(s), s->read_ns);
}

static int session__record(void *ctx, const void *rec, size_t len)
{
	struct session *s = ctx;
	struct event ev;
	int r;

	if (!session__takes(s, rec, len))
		return 0;
	if (capture__wants(rec, len))
		return session__stack(s, rec, len);
	r = decode__record(s->decode, rec, len, &ev);
	if (r != 1 || ev.ts_ns > s->detach_ns)
		return 0; /* a name, or a bad record: counted */
	r = order__push(s->order, &ev);
	for (size_t i = 0, n = decode__args_cnt(rec, len); i < n && !r; i++) {
		struct event arg;

		decode__arg(rec, i, &ev, &arg);
		r = order__push(s->order, &arg);
	}
	return r;
}

/* --- what is counted and read from time to time --------------------------------------------------- */

static void session__push_loss(struct session *s, enum mt_loss reason, uint64_t cnt)
{
	if (cnt)
		session__push(s, (struct event){ .kind = EV_LOSS, .aux = reason, .size = cnt });
}

static void session__fired(void *ctx, name_id sym, uint64_t cnt)
{
	if (cnt)
		session__push(ctx, (struct event){ .kind = EV_FIRED, .name = sym, .size = cnt });
}

/* How many processes the kernel's OOM killer has taken since boot: a death in that second was its work. */
static void session__push_oom_kills(struct session *s)
{
	char line[128];
	unsigned long long cnt;
	FILE *f = fopen("/proc/vmstat", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "oom_kill %llu", &cnt) != 1)
			continue;
		if (cnt != s->oom_kills)
			session__push(s, (struct event){ .kind = EV_OOM_KILL, .size = cnt,
							       .flags = keeper__tells_victims(s->keeper) });
		s->oom_kills = cnt;
		break;
	}
	if (f)
		fclose(f);
}

static void session__push_nvml(struct session *s)
{
	pid_t pids[FOLLOW_PROCS_MAX];
	size_t cnt;

	if (!s->nvml)
		return;
	cnt = follow__pids(s->follow, pids, FOLLOW_PROCS_MAX);
	nvml__read(s->nvml, pids, cnt, session__push, s);
}

static void session__turn_names(struct session *s)
{
	pid_t pids[FOLLOW_PROCS_MAX];

	if (s->naming)
		naming__turn(s->naming, pids, follow__pids(s->follow, pids, FOLLOW_PROCS_MAX), now_ns());
}

/* The probes' counters as events: what they cost, what they lost, which fired. */
static void session__push_probes(struct session *s)
{
	struct trace_counters c;

	keeper__counters(s->keeper, &c);
	for (unsigned i = 1; i < MT_PROG_MAX; i++)
		if (c.hits[i])
			session__push(s, (struct event){ .kind = EV_COST, .aux = i, .addr = c.hits[i],
							       .size = c.cost_ns[i] });
	c.loss[MT_LOSS_SHARE] += s->share.left_out;
	c.loss[MT_LOSS_SITES] += follow__sites_left_out(s->follow);
	c.loss[MT_LOSS_READ_FAULT] += keeper__held_up_cnt(s->keeper);
	for (unsigned i = 1; i < MT_LOSS_MAX; i++)
		session__push_loss(s, (enum mt_loss)i, c.loss[i]);
	(void)keeper__each_fired(s->keeper, session__fired, s);
}

/* All others. */
static void session__push_counters(struct session *s)
{
	uint64_t own_ns, own_rss, keeper_ns = 0, keeper_rss = 0;

	session__push_loss(s, MT_LOSS_DECODE,
			   decode__bad_cnt(s->decode) + (s->capture ? capture__bad_cnt(s->capture) : 0));
	session__push_loss(s, MT_LOSS_STACKS, s->capture ? capture__lost_cnt(s->capture) : 0);
	session__push_loss(s, MT_LOSS_ORDER, order__late_cnt(s->order));
	session__push_loss(s, MT_LOSS_SIDEBAND, follow__sideband_lost(s->follow));
	session__push_loss(s, MT_LOSS_FILES, follow__files_lost(s->follow));
	session__push_loss(s, MT_LOSS_THREADS, follow__procs_left_out(s->follow));
	session__push_loss(s, MT_LOSS_NAMES,
			   names__overflow_cnt(s->names) + (s->naming ? naming__left_out_cnt(s->naming) : 0));
	session__push_full(s);
	session__push_cut(s, s->detach_ns != UINT64_MAX);
	session__push_loss(s, MT_LOSS_RECORDING, recorder__lost(&s->recorder, MT_LOSS_RECORDING));
	session__push_loss(s, MT_LOSS_STALLED, recorder__lost(&s->recorder, MT_LOSS_STALLED));
	follow__push_usage(s->follow);
	session__push_oom_kills(s);
	session__push_nvml(s);
	self_usage(&own_ns, &own_rss);
	(void)keeper__usage(s->keeper, &keeper_ns, &keeper_rss); /* gone: the loop is about to notice */
	session__push(s, (struct event){
		.kind = EV_SELF,
		.addr = keeper_rss + own_rss,
		.size = keeper_ns + recorder__cpu_ns(&s->recorder) + own_ns });
	session__push(s, (struct event){ .kind = EV_TICK });
}

/* Two recordings of one boot have one clock and one space of pids, whatever their containers call the host. */
static uint64_t boot_hash(void)
{
	char id[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(id, 1, sizeof(id), f) : 0;

	if (f)
		fclose(f);
	return n ? XXH3_64bits(id, n) : 0;
}

static void session__push_begin(struct session *s, pid_t main_pid)
{
	struct timespec wall;
	struct utsname u;
	char text[300];

	uname(&u);
	snprintf(text, sizeof(text), "memtrace %s, %s %s, %s", MT_VERSION, u.sysname, u.release, u.nodename);
	clock_gettime(CLOCK_REALTIME, &wall);
	session__push(s, (struct event){
		.ts_ns = s->start_ns,
		.kind = EV_BEGIN,
		.pid = (uint32_t)main_pid,
		.addr = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec - now_ns(),
		.size = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
		.name = names__add(s->names, text) });
	session__push(s, (struct event){ .ts_ns = s->start_ns, .kind = EV_MACHINE, .addr = boot_hash(),
					 .name = names__add(s->names, u.nodename) });
}

/* --- loop --------------------------------------------------------------------------------------------- */

/* What can no longer be overtaken: before it in its ring nothing is missing, nor in any other. */
static int session__pass_on(struct session *s, uint64_t end_ns)
{
	uint64_t until = s->read_ns > ORDER_SLACK_NS ? s->read_ns - ORDER_SLACK_NS : 0;
	int r;

	do {
		r = order__flush_some(s->order, until, PASS_PIECE);
	} while (r == 1 && now_ns() < end_ns);
	s->has_backlog = r == 1;
	return r < 0 ? r : 0;
}

/* Reads the rings as of now and passes on what is complete, as far as the turn's time goes. */
static int session__drain(struct session *s)
{
	uint64_t end_ns = now_ns() + TURN_NS;
	struct drained d;
	int r;

	if (!s->has_backlog || order__waiting(s->order) < session__room(s)) {
		r = keeper__drain(s->keeper, READ_NS, session__record, s, &d);
		if (r < 0)
			return r;
		s->read_ns = d.until_ns;
		s->has_more = d.more;
	}
	return session__pass_on(s, end_ns);
}

/* Its last events come before its end; until they are read its descriptor stays readable. */
static int session__gone(struct session *s, uint32_t index)
{
	int status;

	if (!follow__is_read(s->follow, index, s->read_ns))
		return 0;
	status = follow__gone(s->follow, index);
	session__push_oom_kills(s);
	if (status)
		s->exit_status = status;
	if (!follow__live_cnt(s->follow) && !s->opts->all)
		s->stop = STOP_GONE;
	return 0;
}

static uint64_t ms_or(unsigned ms, unsigned other, unsigned last)
{
	return (ms ? ms : other ? other : last) * 1000000ull;
}

/* The one place where memtrace itself ends a trace: the job comes first. */
static void session__check_overhead(struct session *s)
{
	uint64_t probe_ns, cpu_ns;

	model__overhead(s->model, &probe_ns, &cpu_ns);
	if (!s->stop && overhead__turn(&s->overhead, now_ns(), probe_ns, cpu_ns))
		s->stop = STOP_OVERHEAD;
}

/* The reason, in the recording too. */
static int session__too_costly(struct session *s, struct err *err)
{
	char text[160];

	snprintf(text, sizeof(text), "probes took %.3g %% of the job's CPU time, and --max-overhead allows %.3g %%: detached",
		 100 * s->overhead.share, 100 * s->overhead.limit);
	session__push(s, (struct event){ .kind = EV_NOTE, .name = names__add(s->names, text) });
	err_set(err, -ECANCELED, "%s", text);
	return err_hint(err, "--probes framework costs least; memtrace plan -p PID shows the price of each probe");
}

static int session__tick(struct session *s)
{
	struct report *rep = NULL;
	int r;

	session__check_overhead(s);
	recorder__tick(&s->recorder, s->model, ms_or(s->opts->tick_ms, 0, 1000));
	if (!s->opts->on_tick || !s->has_started)
		return 0;
	r = model__report(s->model, s->opts->top, &rep);
	if (!r)
		r = s->opts->on_tick(s->opts->ctx, rep);
	if (r != 1)
		report__free(rep);
	return r;
}

static void session__mark(struct session *s)
{
	uint64_t now = now_ns();
	char text[80];

	if (s->marks_cnt == MARKS_MAX) {
		log_warn("%u marks are the most", MARKS_MAX);
		return;
	}
	snprintf(text, sizeof(text), "Mark %u, set by hand %.3f s after the start.", ++s->marks_cnt,
		 (double)(now - s->start_ns) / 1e9);
	session__push(s, (struct event){ .ts_ns = now, .kind = EV_NOTE, .name = names__add(s->names, text) });
	fprintf(stderr, "%s\n", text);
}

static int session__input(struct session *s)
{
	int wish = s->opts->on_input(s->opts->ctx);

	if (wish < 0)
		return wish;
	if (wish & SESSION_MARK)
		session__mark(s);
	if (wish & SESSION_RECORD)
		recorder__begin_late(&s->recorder, s->model);
	if (wish & SESSION_END)
		s->stop = STOP_ASKED;
	return 0;
}

int session_report(const struct session *s, size_t top, struct report **ret)
{
	return model__report(s->model, top, ret);
}

static int timer_new(uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec it = {
		.it_value = { (time_t)(first_ns / NS_PER_S), (long)(first_ns % NS_PER_S) },
		.it_interval = { (time_t)(every_ns / NS_PER_S), (long)(every_ns % NS_PER_S) },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0 && timerfd_settime(fd, 0, &it, NULL) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void session__sideband(struct session *s)
{
	(void)sideband__drain(s->sideband, follow__sideband_record, s->follow);
	follow__settle(s->follow);
}

/*
 * The first record wakes the loop at once, the next ones with the timer: whoever starts programs all day long wakes it a
 * hundred times a second, not ten thousand times.
 */
static void session__arm_sideband(struct session *s, int is_armed)
{
	struct epoll_event ev = { .events = is_armed ? EPOLLIN : 0, .data.u64 = WAKE_SIDEBAND };

	if (!epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, sideband__fd(s->sideband), &ev))
		s->is_sideband_armed = is_armed;
}

static int session__handle(struct session *s, const struct epoll_event *ev)
{
	uint32_t what = (uint32_t)ev->data.u64, arg = (uint32_t)(ev->data.u64 >> 32);
	struct signalfd_siginfo si;
	uint64_t times;

	switch (what) {
	case WAKE_TIMER:
		(void)!read(s->timer_fd, &times, sizeof(times));
		if (!s->is_sideband_armed) {
			session__sideband(s);
			session__arm_sideband(s, 1);
		}
		follow__settle(s->follow); /* what had to wait for its time */
		follow__push_resident(s->follow, 0);
		follow__turn_idle(s->follow);
		return 0;
	case WAKE_COUNT:
		(void)!read(s->count_fd, &times, sizeof(times));
		if (sideband__look_at_cpus(s->sideband) > 0)
			follow__look_again(s->follow);
		session__push_probes(s);
		session__push_counters(s);
		follow__push_uses(s->follow, 0);
		if (s->capture)
			capture__retry(s->capture);
		session__turn_names(s);
		return 0;
	case WAKE_TICK:
		(void)!read(s->tick_fd, &times, sizeof(times));
		return session__tick(s);
	case WAKE_SIGNAL:
		if (read(s->signal_fd, &si, sizeof(si)) == sizeof(si) && si.ssi_signo == SIGUSR1)
			recorder__dump(&s->recorder, s->model, "asked by signal");
		else
			s->stop = STOP_ASKED;
		return 0;
	case WAKE_INPUT:
		if (ev->events & (EPOLLHUP | EPOLLERR)) /* the terminal is gone */
			s->stop = STOP_ASKED;
		return session__input(s);
	case WAKE_WATCH:
		return s->opts->on_watch(s->opts->ctx, s);
	case WAKE_SIDEBAND:
		session__sideband(s);
		session__arm_sideband(s, 0);
		return 0;
	case WAKE_KEEPER:
		return -EPIPE;
	case WAKE_PLANS:
		follow__plan_ready(s->follow);
		follow__settle(s->follow); /* what had to wait for a plan */
		return 0;
	case WAKE_NAMES:
		naming__done(s->naming, now_ns());
		return 0;
	case WAKE_PROC:
		return session__gone(s, arg);
	default:
		return 0;
	}
}

static int session__turn(struct session *s, struct err *err)
{
	struct epoll_event evs[16];
	int n = epoll_wait(s->epoll_fd, evs, 16, s->has_more || s->has_backlog ? 0 : follow__sleep_ms(s->follow)), r;

	if (n < 0 && errno != EINTR)
		return err_set(err, -errno, "waiting for events: %s", strerror(errno));
	follow__late_ops(s->follow); /* first: until then its calls are missed */
	r = session__drain(s);
	if (n < 0 && r >= 0 && s->opts->on_input) /* the window has another size */
		r = session__input(s);
	for (int i = 0; i < n && r >= 0; i++)
		r = session__handle(s, &evs[i]);
	follow__turn_set(s->follow);
	if (r == -EPIPE) {
		err_set(err, r, "tracing stopped: the privileged half of memtrace has ended");
		return err_hint(err, "it was killed, or ran out of memory: see dmesg; all probes are gone with it");
	}
	return r < 0 ? err_set(err, r, "tracing stopped: %s", strerror(-r)) : 0;
}

static int session__loop(struct session *s, struct err *err)
{
	uint64_t end_ns = s->opts->duration_ns ? now_ns() + s->opts->duration_ns : UINT64_MAX;
	int r = 0;

	while (!s->stop && r >= 0) {
		r = session__turn(s, err);
		if (now_ns() >= end_ns && !s->stop)
			s->stop = STOP_TIME;
	}
	return r >= 0 && s->stop == STOP_OVERHEAD ? session__too_costly(s, err) : r;
}

/* --- life ------------------------------------------------------------------------------------------------ */

/* Rings are drained one after the other: what all of them hold must fit. Pages are taken when touched. */
size_t session_order_window(uint64_t ring_bytes)
{
	uint64_t events = (ring_bytes ? ring_bytes : trace_ring_bytes()) / RECORD_BYTES_TYPICAL;

	if (events > ORDER_WINDOW_MAX)
		return ORDER_WINDOW_MAX;
	return events > ORDER_WINDOW_MIN ? (size_t)events : ORDER_WINDOW_MIN;
}

/* Signals are read by the loop. Before there are threads, which must not get them. */
static void session__open_fds(struct session *s)
{
	const struct session_opts *o = s->opts;
	uint64_t tick_ns = ms_or(o->tick_ms, 0, 1000), view_ns = ms_or(o->view_ms, o->tick_ms, 1000);
	uint64_t ahead_ns = tick_ns / 2 < COUNT_AHEAD_NS ? tick_ns / 2 : COUNT_AHEAD_NS;
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	if (o->window_ns)
		sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN); /* a reader that went away must not cost the recording its end */
	signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of the recording, not our death */
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	s->timer_fd = timer_new(DRAIN_MS * 1000000ull, DRAIN_MS * 1000000ull);
	s->count_fd = timer_new(tick_ns - ahead_ns, tick_ns);
	s->tick_fd = timer_new(view_ns, view_ns);
}

static int session__watch(struct session *s, int fd, uint32_t what, struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = what };

	if (fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_set(err, -errno, "watching: %s", strerror(errno));
	return 0;
}

static int session__watch_all(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	int r = session__watch(s, s->signal_fd, WAKE_SIGNAL, err);

	if (!r)
		r = session__watch(s, s->timer_fd, WAKE_TIMER, err);
	if (!r)
		r = session__watch(s, s->count_fd, WAKE_COUNT, err);
	if (!r)
		r = session__watch(s, s->tick_fd, WAKE_TICK, err);
	if (!r)
		r = session__watch(s, keeper__fd(s->keeper), WAKE_KEEPER, err);
	if (!r)
		r = session__watch(s, keeper__ring_fd(s->keeper), WAKE_RING, err);
	if (!r)
		r = session__watch(s, sideband__fd(s->sideband), WAKE_SIDEBAND, err);
	s->is_sideband_armed = !r;
	if (!r && o->on_input)
		r = session__watch(s, STDIN_FILENO, WAKE_INPUT, err);
	if (!r && o->on_watch)
		r = session__watch(s, o->watch_fd, WAKE_WATCH, err);
	return r;
}

static int session__init_stacks(struct session *s, struct err *err)
{
	struct capture_env env = { .names = s->names, .native = !!(s->opts->stacks & MT_STACKS_NATIVE),
				   .note = session__note, .ctx = s };

	if (!s->opts->stacks)
		return 0;
	if (s->opts->stacks & MT_STACKS_PYTHON)
		env.python = session__python;
	s->capture = capture__new(&env);
	return s->capture ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/*
 * The recording's file, with the rights that we came with: root without sudo may write where nothing is root's. A window's
 * file gets its name at the end, so whether it can is tried when the rights are gone.
 */
static int session__init_recorder(struct session *s, struct model_opts *ret_model, struct err *err)
{
	const struct session_opts *o = s->opts;
	struct recorder_opts ro = { .path = o->record_path, .how = o->how, .window_ns = o->window_ns,
				    .window_bytes = o->window_bytes, .late_path = o->late_path, .ctx = o->ctx };
	int r;

	*ret_model = (struct model_opts){ .classes = o->classes };
	s->names = names__new();
	if (!s->names)
		return err_set(err, -ENOMEM, "out of memory");
	names__limit(s->names, NAMES_BYTES);
	names__on_full(s->names, session__names_full, s);
	r = recorder__init(&s->recorder, &ro, s->names, ret_model, err);
	return r < 0 || o->window_ns ? r : recorder__open(&s->recorder, err);
}

static int session__init(struct session *s, const struct model_opts *mo, struct err *err)
{
	const struct session_opts *o = s->opts;
	struct tracer_opts to = { .ring_bytes = o->ring_bytes, .min_size = o->min_size,
				  .force_perf = o->force_perf, .kernel = !!(o->sources & SRC_KERNEL),
				  .stacks = o->stacks, .stack_size = o->stack_size, .stack_rate = STACK_RATE };
	int r;

	s->decode = decode__new(s->names);
	s->model = model__new(s->names, mo);
	s->window = session_order_window(o->ring_bytes);
	s->order = order__new(s->window, session__ordered, s);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->pairing = pairing__new();
	if (!s->decode || !s->model || !s->order || !s->pairing || s->epoll_fd < 0)
		return err_set(err, -ENOMEM, "out of memory");
	session__open_fds(s);
	r = session__init_stacks(s, err);
	if (!r)
		r = keeper__trace(s->keeper, &to, err);
	if (!r)
		r = sideband__open(&s->sideband, SIDEBAND_PAGES, err);
	if (!r)
		r = session__watch_all(s, err);
	if (!r && o->names && (o->sources & SRC_FRAMEWORK))
		r = naming__new(&s->naming, &(struct naming_env){ .names = s->names, .model = s->model, .push = session__push,
								  .modules = o->modules ? session__modules : NULL,
								  .module = session__module, .tree = session__tree, .ctx = s },
				err);
	if (!r && s->naming)
		r = session__watch(s, naming__fd(s->naming), WAKE_NAMES, err);
	if (r < 0)
		return r;
	r = follow__new(&s->follow, &(struct follow_env){
		.plan = { .sources = o->sources, .usdt = o->usdt, .usdt_cnt = o->usdt_cnt, .keep_idle = o->keep_idle,
			  .classes = keeper__insn_classes(s->keeper) },
		.children = o->follow,
		.all = o->all,
		.redact = o->redact,
		.quiet = o->quiet,
		.names = s->names,
		.decode = s->decode,
		.keeper = s->keeper,
		.epoll_fd = s->epoll_fd,
		.epoll_tag = WAKE_PROC,
		.push = session__push,
		.steps = session__steps,
		.ctx = s }, err);
	return r < 0 ? r : session__watch(s, follow__plans_fd(s->follow), WAKE_PLANS, err);
}

/* Before memtrace changes anything of its own that a command would inherit: limits, signals. */
static int session__launch(struct session *s, struct err *err)
{
	struct asker as;
	int r = launch_user(s->opts->user, &as, err);

	return r < 0 ? r : launch_stopped(s->opts->launch, &as, &s->launched, err);
}

/* From here on this process may do no more than whoever called it; what takes more is asked of the keeper. */
static int session__give_rights_away(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	char *room = o->record_path ? outfile_room(o->record_path) : strdup(".");
	struct wards_opts wards = { .pids = o->launch ? &s->launched : o->pids, .pids_cnt = o->launch ? 1 : o->pids_cnt,
				    .children = o->follow, .jobs = o->all };
	struct asker as;
	int r;

	asker__find(&as);
	r = keeper__start(&s->keeper,
			  &(struct keeper_opts){ .as = &as, .wards = wards, .writes = room, .lock = lock_take,
						 .at_end = o->at_end, .end_ctx = o->end_ctx },
			  err);
	if (!r && o->ret_keeper)
		*o->ret_keeper = s->keeper;
	free(room);
	return r;
}

/* What this kernel cannot probe without harm: memtrace has just tried. */
static void session__push_harmful(struct session *s)
{
	char list[600], text[800];

	if (!insn_classes_harmful(keeper__insn_classes(s->keeper), list, sizeof(list)))
		return;
	snprintf(text, sizeof(text), "on this kernel a probe on some instructions does harm, and none is set there: %s", list);
	session__push(s, (struct event){ .kind = EV_NOTE, .name = names__add(s->names, text) });
}

/* Until all that was asked for has its probes. The loop goes on: those that have theirs already tell, and Ctrl-C ends it. */
static int session__await(struct session *s, struct err *err)
{
	uint64_t t0 = now_ns();
	int r, is_said = s->opts->quiet;

	while ((r = follow__awaits(s->follow, err)) > 0 && !s->stop) {
		r = session__turn(s, err);
		if (r < 0)
			return r;
		if (!is_said && now_ns() - t0 > SLOW_ATTACH_NS) {
			fprintf(stderr, "planning and setting probes in %zu process%s ...\n", follow__live_cnt(s->follow),
				follow__live_cnt(s->follow) == 1 ? "" : "es");
			is_said = 1;
		}
	}
	return r < 0 ? r : 0;
}

static int session__start(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	uint64_t t0 = s->start_ns;
	int r = 0;

	if (o->sources & SRC_SEGMENTS)
		s->nvml = nvml__open();
	if (o->launch) {
		session__push_begin(s, s->launched);
		session__push_oom_kills(s);
		session__push_harmful(s);
		r = follow__attach(s->follow, s->launched, EV_PROC_LAUNCHED, t0, 1, err);
		if (!r)
			r = session__await(s, err);
		return r ? r : recorder__begin(&s->recorder, err); /* no room for it: nothing is started */
	}
	session__push_begin(s, o->pids_cnt ? o->pids[0] : 0);
	session__push_oom_kills(s);
	session__push_harmful(s);
	for (size_t i = 0; i < o->pids_cnt && r >= 0; i++) {
		if (follow__is_followed(s->follow, o->pids[i]))
			continue;
		r = follow__attach(s->follow, o->pids[i], EV_PROC_ATTACHED, t0, 0, err);
		if (r >= 0 && o->follow)
			follow__attach_children(s->follow, o->pids[i]);
	}
	if (o->all)
		follow__attach_jobs(s->follow);
	if (r >= 0)
		r = session__await(s, err);
	return r < 0 ? r : recorder__begin(&s->recorder, err);
}

/* Detach, take what is still in the rings, end the stream. */
static int session__finish(struct session *s, struct err *err)
{
	struct drained d = { 0 };
	int r = 0;

	follow__push_resident(s->follow, 1);
	follow__push_uses(s->follow, 1);
	s->detach_ns = now_ns();
	session__push_probes(s); /* now: until the last probe is gone others meet a process half forgotten, and lose */
	follow__detach_all(s->follow);
	for (int turn = 0; d.until_ns < s->detach_ns && turn < 64 && r >= 0; turn++)
		r = keeper__drain(s->keeper, UINT64_MAX, session__record, s, &d);
	follow__push_gone_all(s->follow);
	session__push_counters(s);
	session__push(s, (struct event){ .kind = EV_END,
					       .aux = s->stop == STOP_GONE ? EV_END_TARGET_GONE :
						      s->stop < 0  ? EV_END_FAILED :
								     EV_END_DETACHED });
	if (r >= 0)
		r = order__flush(s->order, UINT64_MAX);
	if (r >= 0)
		r = model__end(s->model);
	return r < 0 ? err_set(err, r, "finishing: %s", strerror(-r)) : 0;
}

static void session__done(struct session *s)
{
	sideband__free(s->sideband);
	nvml__close(s->nvml);
	naming__free(s->naming);
	follow__free(s->follow);
	if (s->opts->ret_keeper)
		keeper__untrace(s->keeper);
	else
		keeper__free(s->keeper);
	capture__free(s->capture);
	order__free(s->order);
	pairing__free(s->pairing);
	model__free(s->model);
	decode__free(s->decode);
	recorder__done(&s->recorder);
	names__free(s->names);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->count_fd >= 0)
		close(s->count_fd);
	if (s->tick_fd >= 0)
		close(s->tick_fd);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
}

static const char *end_words(const struct session *s)
{
	return s->stop == STOP_GONE ? "the target is gone" :
	       s->stop == STOP_TIME ? "time is over" :
	       s->stop < 0	    ? "failed" :
				      "stopped";
}

int session_run(const struct session_opts *opts, struct report **ret_final, int *ret_exit_status,
		struct err *err)
{
	struct session s = { .opts = opts, .detach_ns = UINT64_MAX, .oom_kills = UINT64_MAX, .epoll_fd = -1, .timer_fd = -1,
			     .count_fd = -1, .tick_fd = -1, .signal_fd = -1 };
	struct model_opts mo;
	int r, r2;

	s.start_ns = now_ns();
	s.overhead.limit = opts->max_overhead;
	r = opts->launch ? session__launch(&s, err) : 0;
	if (!r)
		r = session__init_recorder(&s, &mo, err);
	if (!r)
		r = session__give_rights_away(&s, err);
	if (!r)
		r = session__init(&s, &mo, err);
	if (!r && opts->window_ns)
		r = recorder__open(&s.recorder, err);
	if (!r)
		r = session__start(&s, err);
	if (s.launched)
		r = launch_continue(s.launched, r, err);
	s.has_started = !r;
	if (!r && opts->on_start)
		opts->on_start(opts->ctx);
	if (!r) {
		r = session__loop(&s, err);
		if (r < 0)
			s.stop = r;
		r2 = session__finish(&s, r < 0 ? NULL : err);
		if (!r)
			r = r2;
		(void)model__report(s.model, opts->top, ret_final);
		r2 = recorder__close(&s.recorder, s.model, end_words(&s), *ret_final ? (*ret_final)->lost : NULL,
				     r < 0 ? NULL : err);
		if (!r)
			r = r2;
	} else {
		recorder__drop(&s.recorder);
	}
	*ret_exit_status = s.exit_status;
	session__done(&s);
	return r;
}
