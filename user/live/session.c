/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One thread, one epoll loop, driven by time: every DRAIN_MS the rings and the sideband are emptied, and events older than
 * order's slack are passed on (live/stream.h); once a second counters are read, made into events (live/counted.h), and the
 * caller gets a report. Rings wake the loop early only when a quarter full.
 *
 * Everything in a report goes through the stream of events, also what the session itself knows (the target, what could be
 * attached, losses, costs): so a recording replays to the same report.
 */
#define LOG_MODULE "session"
#include "live/session.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/seed.h"
#include "base/signals.h"
#include "keeper/keeper.h"
#include "live/after.h"
#include "live/catching.h"
#include "live/counted.h"
#include "live/counting.h"
#include "live/follow.h"
#include "live/followed.h"
#include "live/gpu_counters.h"
#include "live/record_key.h"
#include "live/launch.h"
#include "live/loop_pace.h"
#include "live/lock.h"
#include "live/naming.h"
#include "live/nvml.h"
#include "live/placing.h"
#include "live/probing.h"
#include "live/stream.h"
#include "live/usage.h"
#include "live/windows.h"
#include "plan/plan.h"
#include "stack/capture.h"
#include "target/sideband.h"
#include "timeline/report.h"

#define COUNT_AHEAD_NS 100000000ull   /* how long before they are shown counters are read: order holds them back */
#define SIDEBAND_PAGES 64
#define SLOW_ATTACH_NS 2000000000ull  /* the time to wait without a message */
#define STACK_RATE 2000		      /* native stacks a second: 33 MB/s through the rings, 2 to 4 % of a core to unwind */
#define MARKS_MAX 99		      /* each needs a name */

enum { WAKE_TIMER = 1, WAKE_COUNT, WAKE_TICK, WAKE_SIGNAL, WAKE_RING, WAKE_SIDEBAND, WAKE_PROC, WAKE_INPUT, WAKE_WATCH,
       WAKE_NAMES, WAKE_PLACES, WAKE_KEEPER, WAKE_PLANS };

/* Why a session ends; < 0: an error. */
enum session_stop { STOP_ASKED = 1, STOP_TIME = 2, STOP_GONE = 3, STOP_OVERHEAD = 4, STOP_AT_ONCE = 5 };

struct session {
	const struct session_opts *opts;
	struct keeper *keeper;
	struct stream stream;
	struct followed followed;
	struct probing *probing;
	struct usage usage;
	struct gpu_counters gpu_counters;
	struct follow *follow;
	struct naming *naming; /* NULL: not requested */
	struct placing *placing; /* the same */
	struct catching catching;
	struct nvml *nvml;     /* NULL: there is none */
	struct counted counted;
	struct counting counting;
	struct tell tell; /* sends events into the stream */
	struct sideband *sideband;
	int is_sideband_armed;
	struct record_key key;
	int epoll_fd, count_fd, tick_fd, signal_fd;
	uint64_t start_ns;
	int stop;	     /* enum session_stop; 0: goes on */
	struct loop_pace pace;
	int has_started;     /* all processes that were named are attached to */
	struct windows windows;
	unsigned marks_cnt;
	pid_t launched;
	int exit_status;
};

/* --- loop --------------------------------------------------------------------------------------------- */

static void session__turn_names(struct session *s)
{
	pid_t pids[FOLLOW_PROCS_MAX];

	if (s->naming)
		naming__turn(s->naming, pids, followed__pids(&s->followed, pids, FOLLOW_PROCS_MAX), now_ns());
}

static void session__turn_catching(struct session *s)
{
	catching__turn(&s->catching, s->windows.levels.is_off || !windows__are_at_rest(&s->windows), now_ns());
}

/* Its last events are read before its end is handled; until then its descriptor stays readable. */
static int session__gone(struct session *s, uint32_t index)
{
	int status;

	if (!follow__is_read(s->follow, index, s->stream.read_ns))
		return 0;
	status = follow__gone(s->follow, index);
	counted__oom_kills(&s->counted);
	if (status)
		s->exit_status = status;
	if (!s->followed.live_cnt && !s->opts->all)
		s->stop = STOP_GONE;
	return 0;
}

static uint64_t ms_or(unsigned ms, unsigned other, unsigned last)
{
	return (ms ? ms : other ? other : last) * 1000000ull;
}

/* The only place where memtrace itself ends a trace: the job comes first. */
static void session__check_overhead(struct session *s)
{
	if (!s->stop && windows__cost_too_much(&s->windows))
		s->stop = STOP_OVERHEAD;
}

static int session__tick(struct session *s)
{
	struct report *rep = NULL;
	int r;

	session__check_overhead(s);
	recorder__tick(&s->stream.recorder, s->stream.model, ms_or(s->opts->tick_ms, 0, 1000));
	if (!s->opts->on_tick || !s->has_started)
		return 0;
	r = session_report(s, s->opts->top, &rep);
	r = r ? r : s->opts->on_tick(s->opts->ctx, rep);
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
	tell__event(&s->tell, (struct event){ .ts_ns = now, .kind = EV_NOTE, .name = names__add(s->tell.names, text) });
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
		record_key__asked(&s->key);
	if (wish & SESSION_TRACE)
		windows__want(&s->windows, EV_WHY_ASKED);
	if (wish & SESSION_END)
		s->stop = STOP_ASKED;
	return 0;
}

int session_report(const struct session *s, size_t top, struct report **ret)
{
	int r = model__report(s->stream.model, top, ret);

	if (!r)
		(*ret)->run.is_live = 1;
	return r;
}

static void session__turn_windows(struct session *s)
{
	bool is_new = windows__turn(&s->windows);

	record_key__turn(&s->key);
	if (is_new) {
		session__turn_catching(s);
		naming__hurry(s->naming);
	}
	naming__hold(s->naming, probing__is_watching(s->probing));
	if (is_new || naming__has_begun(s->naming))
		session__turn_names(s);
}

static void session__sideband(struct session *s)
{
	(void)sideband__drain(s->sideband, follow__sideband_record, s->follow);
	follow__settle(s->follow);
}

/*
 * The first record wakes the loop at once, later ones come with the timer: a user who starts programs all day long wakes it a
 * hundred times a second, not ten thousand times.
 */
static void session__arm_sideband(struct session *s, int is_armed)
{
	struct epoll_event ev = { .events = is_armed ? EPOLLIN : 0, .data.u64 = WAKE_SIDEBAND };

	if (!epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, sideband__fd(s->sideband), &ev))
		s->is_sideband_armed = is_armed;
}

/* Every DRAIN_MS, after the rings were read. */
static void session__on_timer(struct session *s)
{
	if (!s->is_sideband_armed) {
		session__sideband(s);
		session__arm_sideband(s, 1);
	}
	follow__settle(s->follow); /* what had to wait for a certain time */
	usage__turn(&s->usage);
	gpu_counters__turn(&s->gpu_counters, 0);
	probing__turn_idle(s->probing);
	session__turn_windows(s);
	loop_pace__turn(&s->pace, windows__are_idle(&s->windows), windows__are_sparing(&s->windows), &s->usage, s->naming);
}

/* Reads the counters, shortly before they are shown. */
static void session__count(struct session *s)
{
	if (sideband__look_at_cpus(s->sideband) > 0)
		follow__look_again(s->follow);
	counted__probes(&s->counted);
	counted__rest(&s->counted);
	usage__push_uses(&s->usage, 0);
	if (cadence__is_on(&s->windows.levels.cadence))
		counting__turn(&s->counting);
	if (s->stream.capture)
		capture__retry(s->stream.capture);
	session__turn_names(s);
	session__turn_catching(s);
}

static void session__signal(struct session *s, uint32_t signo)
{
	if (signo == SIGUSR1)
		recorder__dump(&s->stream.recorder, s->stream.model, "asked by signal");
	else if (signo == SIGUSR2)
		windows__want(&s->windows, EV_WHY_ASKED);
	else
		s->stop = signo == SIGINT ? STOP_ASKED : STOP_AT_ONCE;
}

static int session__handle(struct session *s, const struct epoll_event *ev)
{
	uint32_t what = (uint32_t)ev->data.u64, arg = (uint32_t)(ev->data.u64 >> 32);
	struct signalfd_siginfo si;
	uint64_t times;

	switch (what) {
	case WAKE_TIMER:
		(void)!read(s->pace.fd, &times, sizeof(times));
		session__on_timer(s);
		return 0;
	case WAKE_COUNT:
		(void)!read(s->count_fd, &times, sizeof(times));
		session__count(s);
		return 0;
	case WAKE_TICK:
		(void)!read(s->tick_fd, &times, sizeof(times));
		return session__tick(s);
	case WAKE_SIGNAL:
		session__signal(s, read(s->signal_fd, &si, sizeof(si)) == sizeof(si) ? si.ssi_signo : 0);
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
		probing__plan_ready(s->probing);
		follow__settle(s->follow); /* what had to wait for a plan */
		return 0;
	case WAKE_NAMES:
		naming__done(s->naming, now_ns());
		return 0;
	case WAKE_PLACES:
		placing__done(s->placing);
		return 0;
	case WAKE_PROC:
		return session__gone(s, arg);
	default:
		return 0;
	}
}

static int session__sleep_ms(const struct session *s)
{
	return s->stream.has_more || s->stream.has_backlog ? 0 : probing__sleep_ms(s->probing);
}

static int session__turn(struct session *s, struct err *err)
{
	struct epoll_event evs[16];
	int n = epoll_wait(s->epoll_fd, evs, 16, session__sleep_ms(s)), r;

	if (n < 0 && errno != EINTR)
		return err_set(err, -errno, "waiting for events: %s", strerror(errno));
	probing__late_ops(s->probing); /* first: until then its calls are missed */
	r = stream__drain(&s->stream);
	if (n < 0 && r >= 0 && s->opts->on_input) /* the terminal window was resized */
		r = session__input(s);
	for (int i = 0; i < n && r >= 0; i++)
		r = session__handle(s, &evs[i]);
	probing__turn(s->probing);
	if (r == -EPIPE)
		return err_wrap(err, keeper_gone(err), "tracing stopped");
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
	return r >= 0 && s->stop == STOP_OVERHEAD ? windows__too_costly(&s->windows, err) : r;
}

/* --- life ------------------------------------------------------------------------------------------------ */

/* The loop reads signals. Blocked before there are threads, which must not get them. */
static void session__open_fds(struct session *s)
{
	const struct session_opts *o = s->opts;
	uint64_t tick_ns = ms_or(o->tick_ms, 0, 1000), view_ns = ms_or(o->view_ms, o->tick_ms, 1000);
	uint64_t ahead_ns = tick_ns / 2 < COUNT_AHEAD_NS ? tick_ns / 2 : COUNT_AHEAD_NS;
	sigset_t mask = signals_that_end();

	if (o->window_ns)
		sigaddset(&mask, SIGUSR1);
	if (o->cadence.every_ns || o->max_overhead > 0)
		sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN); /* a closed reader must not cost the recording its end */
	signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of the recording, and does not end memtrace */
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	loop_pace__open(&s->pace);
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
		r = session__watch(s, s->pace.fd, WAKE_TIMER, err);
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

/* The followed processes, their probes, and what happens to them. */
static int session__init_follow(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	int r;

	s->usage = (struct usage){ .followed = &s->followed, .tell = s->tell, .has_kernel = !!(o->sources & SRC_KERNEL) };
	s->gpu_counters = (struct gpu_counters){ .followed = &s->followed, .tell = s->tell };
	r = probing__new(&s->probing, &(struct probing_env){
		.plan = { .sources = o->sources, .usdt = o->usdt, .usdt_cnt = o->usdt_cnt, .keep_idle = o->keep_idle,
			  .by_windows = o->cadence.every_ns || o->max_overhead > 0,
			  .classes = keeper__insn_classes(s->keeper) },
		.all = o->all,
		.quiet = o->quiet,
		.followed = &s->followed,
		.decode = s->stream.decode,
		.keeper = s->keeper,
		.model = s->stream.model,
		.tell = s->tell }, err);
	if (r < 0)
		return r;
	s->follow = follow__new(&(struct follow_env){
		.children = o->follow,
		.all = o->all,
		.redact = o->redact,
		.followed = &s->followed,
		.probing = s->probing,
		.usage = &s->usage,
		.decode = s->stream.decode,
		.keeper = s->keeper,
		.tell = s->tell,
		.epoll_fd = s->epoll_fd, .epoll_tag = WAKE_PROC });
	if (!s->follow)
		return err_set(err, -ENOMEM, "out of memory");
	return session__watch(s, probing__plans_fd(s->probing), WAKE_PLANS, err);
}

static int session__init_naming(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	int r;

	if (!o->names || !(o->sources & SRC_FRAMEWORK))
		return 0;
	if (o->modules) {
		r = placing__new(&s->placing, &(struct placing_env){ .keeper = s->keeper, .tell = s->tell }, err);
		r = r < 0 ? r : session__watch(s, placing__fd(s->placing), WAKE_PLACES, err);
		if (r < 0)
			return r;
		s->stream.placing = s->placing;
	}
	r = naming__new(&s->naming, &(struct naming_env){ .modules = o->modules, .followed = &s->followed,
							  .keeper = s->keeper, .placing = s->placing,
							  .model = s->stream.model, .tell = s->tell }, err);
	return r < 0 ? r : session__watch(s, naming__fd(s->naming), WAKE_NAMES, err);
}

static int session__init(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	struct tracer_opts to = { .ring_bytes = o->ring_bytes, .min_size = o->min_size,
				  .force_perf = o->force_perf, .kernel = !!(o->sources & SRC_KERNEL),
				  .stacks = o->stacks, .stack_size = o->stack_size, .stack_rate = STACK_RATE };
	int r = stream__init(&s->stream, o, s->keeper, err);

	s->tell = stream__tell(&s->stream);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!r && s->epoll_fd < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	session__open_fds(s);
	r = keeper__trace(s->keeper, &to, err);
	if (!r)
		r = sideband__open(&s->sideband, SIDEBAND_PAGES, err);
	if (!r)
		r = session__watch_all(s, err);
	if (!r)
		r = session__init_naming(s, err);
	if (!r)
		r = session__init_follow(s, err);
	if (r < 0)
		return r;
	s->nvml = o->sources & SRC_SEGMENTS ? nvml__open() : NULL;
	s->windows = (struct windows){ .levels = { .cadence = o->cadence, .between = o->between,
					     .is_auto = o->is_between_auto }, .probing = s->probing,
				       .followed = &s->followed, .model = s->stream.model, .tell = s->tell,
				       .start_ns = s->start_ns, .is_quiet = o->quiet, .is_own = !!o->is_budget_own };
	s->windows.levels.cadence.budget.share = s->windows.overhead.limit = o->max_overhead;
	s->windows.levels.cadence.budget.start_ns = s->start_ns;
	s->windows.levels.cadence.budget.random = hash_two(s->start_ns, (uint64_t)getpid());
	s->catching = (struct catching){ .is_on = !!(to.stacks & MT_STACKS_CATCH), .followed = &s->followed,
					 .keeper = s->keeper, .stream = &s->stream };
	s->key = (struct record_key){ .windows = &s->windows, .recorder = &s->stream.recorder, .model = s->stream.model };
	s->counting = (struct counting){ .followed = &s->followed, .naming = s->naming, .tell = s->tell };
	s->counted = (struct counted){ .tell = s->tell, .stream = &s->stream, .keeper = s->keeper, .usage = &s->usage,
				       .probing = s->probing, .follow = s->follow, .naming = s->naming, .nvml = s->nvml,
				       .oom_kills = UINT64_MAX };
	return 0;
}

/* Before memtrace changes limits or signals, which a command would inherit. */
static int session__launch(struct session *s, struct err *err)
{
	struct asker as;
	int r = launch_user(s->opts->user, &as, err);

	return r < 0 ? r : launch_stopped(s->opts->launch, &as, &s->launched, err);
}

/* From here on this process has no more rights than the user who called it; the keeper does what needs more. */
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

/* Until everything requested has its probes. The loop goes on: processes with probes already report; Ctrl-C ends it. */
static int session__await(struct session *s, struct err *err)
{
	uint64_t t0 = now_ns();
	int r, is_reported = s->opts->quiet;

	while ((r = probing__awaits(s->probing, err)) > 0 && !s->stop) {
		r = session__turn(s, err);
		if (r < 0)
			return r;
		if (!is_reported && now_ns() - t0 > SLOW_ATTACH_NS) {
			fprintf(stderr, "planning and setting probes in %zu process%s ...\n", s->followed.live_cnt,
				s->followed.live_cnt == 1 ? "" : "es");
			is_reported = 1;
		}
	}
	return r < 0 ? r : 0;
}

static int session__start(struct session *s, struct err *err)
{
	const struct session_opts *o = s->opts;
	int r = 0;

	counted__begin(&s->counted, s->start_ns, o->launch ? s->launched : o->pids_cnt ? o->pids[0] : 0);
	if (o->is_budget_own && !o->quiet)
		fprintf(stderr, "tracing %" PRIu64 " whole steps now and then: after half a minute at most %.3g %% of "
			"the job's time; all of them: --max-overhead none\n", o->cadence.steps, 100 * o->max_overhead);
	session__turn_windows(s); /* no step is whole until its first window */
	if (o->launch)
		r = follow__attach(s->follow, s->launched, EV_PROC_LAUNCHED, s->start_ns, 1, err);
	for (size_t i = 0; !o->launch && i < o->pids_cnt && r >= 0; i++) {
		if (followed__find(&s->followed, o->pids[i]))
			continue;
		r = follow__attach(s->follow, o->pids[i], EV_PROC_ATTACHED, s->start_ns, 0, err);
		if (r >= 0 && o->follow)
			follow__attach_children(s->follow, o->pids[i]);
	}
	if (o->all && !o->launch)
		follow__attach_jobs(s->follow);
	if (r >= 0)
		r = session__await(s, err);
	return r < 0 ? r : recorder__begin(&s->stream.recorder, err); /* without space for it nothing is started */
}

/* Of a trace of all steps, where the target lives on, its marks of steps can stay alone, and no view is kept waiting. */
static void session__after(struct session *s)
{
	if ((s->stop == STOP_ASKED || s->stop == STOP_TIME) && !s->opts->on_input && !s->opts->on_watch && !s->opts->usdt_cnt &&
	    !probing__is_setting(s->probing) && !cadence__is_on(&s->windows.levels.cadence))
		after__watch(&(struct after){ .stream = &s->stream, .probing = s->probing, .keeper = s->keeper, .tell = s->tell,
					      .followed = &s->followed, .model = s->stream.model, .signal_fd = s->signal_fd });
}

/* Detach, take what is still in the rings, end the stream. */
static int session__finish(struct session *s, struct err *err)
{
	int r;

	usage__push_resident(&s->usage);
	gpu_counters__turn(&s->gpu_counters, 1);
	usage__push_uses(&s->usage, 1);
	windows__end(&s->windows);
	s->stream.detach_ns = now_ns();
	counted__probes(&s->counted); /* now: while some probes are left, they hit processes half forgotten, and count losses */
	counted__usage(&s->counted);
	session__after(s);
	probing__end(s->probing);
	r = stream__drain_rest(&s->stream);
	placing__finish(s->placing);
	naming__finish(s->naming);
	follow__push_gone_all(s->follow);
	counted__rest(&s->counted);
	tell__event(&s->tell, (struct event){ .kind = EV_END,
					      .aux = s->stop == STOP_GONE ? EV_END_TARGET_GONE :
						     s->stop < 0  ? EV_END_FAILED :
								    EV_END_DETACHED });
	if (r >= 0)
		r = stream__end(&s->stream);
	return r < 0 ? err_set(err, r, "finishing: %s", strerror(-r)) : 0;
}

static void session__done(struct session *s)
{
	const int fds[] = { s->pace.fd, s->count_fd, s->tick_fd, s->signal_fd, s->epoll_fd };

	sideband__free(s->sideband);
	nvml__close(s->nvml);
	naming__free(s->naming);
	s->stream.placing = NULL;
	placing__free(s->placing);
	follow__free(s->follow);
	windows__done(&s->windows);
	probing__free(s->probing);
	followed__done(&s->followed);
	if (s->opts->ret_keeper)
		keeper__untrace(s->keeper);
	else
		keeper__free(s->keeper);
	stream__done(&s->stream);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
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
	struct session s = { .opts = opts, .epoll_fd = -1, .pace = { .fd = -1 }, .count_fd = -1, .tick_fd = -1,
			     .signal_fd = -1 };
	int r, r2;

	s.start_ns = now_ns();
	r = opts->launch ? session__launch(&s, err) : 0;
	if (!r)
		r = stream__open(&s.stream, opts, err);
	if (!r)
		r = session__give_rights_away(&s, err);
	if (!r)
		r = session__init(&s, err);
	if (!r && opts->window_ns)
		r = recorder__open(&s.stream.recorder, err);
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
		(void)model__report(s.stream.model, opts->top, ret_final);
		r2 = recorder__close(&s.stream.recorder, s.stream.model, end_words(&s),
				     *ret_final ? (*ret_final)->run.lost : NULL, r < 0 ? NULL : err);
		if (!r)
			r = r2;
	} else {
		recorder__drop(&s.stream.recorder);
	}
	/* Ctrl-C also reaches the command, which may end after the loop. */
	*ret_exit_status = s.exit_status || !s.launched ? s.exit_status : launch_ended(s.launched);
	session__done(&s);
	return r;
}
