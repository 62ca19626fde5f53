/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * serve: a live trace, and a thread that serves its numbers over HTTP (serve/answers.h).
 *
 * The loop makes a report a second, and reports that cost much more seldom (serve/pace.h).
 *
 * When all traced processes have ended the session is over: probes are gone, a recording is whole. The last report is
 * served on, so that the last numbers of a job that ended between two scrapes are not lost.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/signals.h"
#include "cmd/cmd.h"
#include "cmd/trace_opts.h"
#include "event/event.h"
#include "keeper/keeper.h"
#include "serve/answers.h"
#include "serve/gate.h"
#include "serve/listen.h"
#include "serve/pace.h"
#include "timeline/report.h"
#include "view/page/page_feed.h"

#define FRESH_NS (NS_PER_S / 2) /* a second, but ticks that a busy machine holds up come close together */

struct serve_run {
	const struct options *o;
	struct listen_addr addr; /* with the port it got */
	struct gate gate;
	struct answers *answers;
	const struct session *session; /* NULL: not yet begun */
	struct keeper *keeper; /* it takes the name of a Unix socket away; NULL: a port, or not yet begun */
	int epoll_fd, timer_fd; /* the session watches: a second is over, or a client needs a report soon */
	size_t rep_top; /* of the last report that was made */
	struct pace pace;
};

/* --- reports ---------------------------------------------------------------------------------------------- */

static void serve__make(struct serve_run *x, size_t top)
{
	struct report *rep;

	pace__begin(&x->pace);
	if (session_report(x->session, top, &rep) < 0)
		return; /* the last one stays, with its age */
	answers__tell(x->answers, rep, 0);
	x->rep_top = top;
	pace__made(&x->pace);
}

/* Makes one if the last is old, or lacks tables that a client now needs. */
static void serve__report(struct serve_run *x)
{
	uint64_t age = now_ns() - x->pace.made_ns;
	size_t top = answers__rows(x->answers);

	if (pace__may(&x->pace, age) && (age >= FRESH_NS || top > x->rep_top))
		serve__make(x, top);
}

static int on_watch(void *ctx, const struct session *s)
{
	struct serve_run *x = ctx;
	uint64_t times;

	(void)!read(x->timer_fd, &times, sizeof(times));
	(void)!read(answers__wants_fd(x->answers), &times, sizeof(times));
	x->session = s;
	serve__report(x);
	return answers__begin(x->answers); /* now that there is a report */
}

/* Probes are set: from now on there is something to serve. The port was taken before. */
static void on_start(void *ctx)
{
	struct serve_run *x = ctx;
	const struct listen_addr *a = &x->addr;

	if (x->session)
		serve__make(x, 0); /* with all that is attached to */
	if (x->o->quiet)
		return;
	if (a->is_unix)
		fprintf(stderr, "serving %s: curl --unix-socket %s http://localhost/metrics\n", a->text,
			a->text + strlen("unix:"));
	else
		fprintf(stderr, "serving http://%s/ and http://%s/metrics\n", a->text, a->text);
	if (!a->is_loopback && !a->is_unix)
		fprintf(stderr, "memtrace: there is no TLS: the token and the numbers cross the network as they are\n");
}

static int serve__watch(const struct serve_run *x, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -EIO : 0;
}

/* Before any probe is set, and before rights are given away: the clients that are let in, and the socket. */
static int serve__open(struct serve_run *x, struct err *err)
{
	const struct options *o = x->o;
	struct asker who;
	int r = 0;

	asker__find(&who);
	gate__init(&x->gate, &x->addr, o->allow_hosts, o->allow_hosts_cnt);
	if (o->token_file)
		r = gate__take_token(&x->gate, o->token_file, err);
	return r < 0 ? r : listen_open(&x->addr, &who, o->has_socket_group ? o->socket_group : (gid_t)-1, err);
}

static int serve__begin(struct serve_run *x, struct err *err)
{
	struct itimerspec seconds = { .it_interval = { 1, 0 }, .it_value = { 0, 1 } }; /* the first at once */
	int fd = serve__open(x, err), r;

	if (fd < 0)
		return fd;
	r = answers__new(&x->answers, fd, &x->gate, err);
	if (r < 0)
		return r;
	x->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	x->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (serve__watch(x, answers__wants_fd(x->answers)) || serve__watch(x, x->timer_fd) ||
	    timerfd_settime(x->timer_fd, 0, &seconds, NULL) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void serve__end(struct serve_run *x)
{
	listen_unlink(&x->addr); /* rights are still there; else the keeper does it */
	answers__free(x->answers);
	keeper__free(x->keeper);
	gate__done(&x->gate);
	if (x->timer_fd >= 0)
		close(x->timer_fd);
	if (x->epoll_fd >= 0)
		close(x->epoll_fd);
}

/* All have ended: their last numbers, until a signal or until_ns. */
static int serve__linger(const struct serve_run *x, uint64_t until_ns, struct err *err)
{
	int sig = 0, e = 0, r = answers__begin(x->answers);
	sigset_t mask = signals_that_end(); /* blocked since the session began: none is lost in between */

	if (r < 0)
		return err_set(err, r, "a thread that answers: %s", strerror(-r));
	if (!x->o->quiet)
		fprintf(stderr, "all traced processes have ended; their last numbers stay until Ctrl-C\n");
	while (sig <= 0 && (sig == 0 || e == EINTR)) {
		uint64_t now = now_ns(), left = until_ns > now ? until_ns - now : 0;
		struct timespec ts = { (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) };

		sig = sigtimedwait(&mask, NULL, &ts);
		e = errno;
	}
	return sig < 0 && e != EAGAIN ? err_set(err, -e, "waiting for signals: %s", strerror(e)) : 0;
}

/* In the keeper: the folder of the socket is not ours any more. */
static void at_end(const void *ctx)
{
	listen_unlink(ctx);
}

int cmd_serve(const struct options *o, struct err *err)
{
	struct serve_run *x = calloc(1, sizeof(*x));
	struct session_opts so;
	struct report *rep = NULL;
	uint64_t until_ns = o->duration_ns ? now_ns() + o->duration_ns : UINT64_MAX;
	int r = rights_check(err), status = 0, code = EXIT_OK, has_ended;

	if (!x || r < 0) {
		free(x);
		return r < 0 ? r : err_set(err, -ENOMEM, "out of memory");
	}
	x->o = o;
	x->addr = o->listen;
	x->epoll_fd = x->timer_fd = -1;
	r = serve__begin(x, err);
	if (!r) {
		session_opts_from(&so, o);
		so.top = PAGE_FEED_ROWS;
		so.on_start = on_start;
		so.on_watch = on_watch;
		so.watch_fd = x->epoll_fd;
		so.ctx = x;
		if (x->addr.is_unix) {
			so.at_end = at_end;
			so.end_ctx = &x->addr;
			so.ret_keeper = &x->keeper;
		}
		r = session_run(&so, &rep, &status, err);
		x->session = NULL;
	}
	if (rep) {
		if (o->out && !o->quiet)
			recording_say(o->out, rep);
		code = loss_exit_code(o, rep);
		has_ended = !r && rep->run.end_reason == EV_END_TARGET_GONE;
		answers__tell(x->answers, rep, 1);
		if (has_ended)
			r = serve__linger(x, until_ns, err);
	}
	serve__end(x);
	free(x);
	return r < 0 ? r : code;
}
