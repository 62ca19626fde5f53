/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * serve: a live trace, and an HTTP server on the same loop (serve/server.h).
 *
 * Numbers are made when somebody asks, and reports that cost much are made seldom: no sooner than COST_FACTOR times what the
 * last one took, and a second, so that making them never takes more than 1/COST_FACTOR of a core, whoever asks how
 * often. Once a second a report without tables is kept for the page's chart, and with listeners a document is pushed.
 *
 * When all traced processes have ended the session is over: probes are gone, a recording is whole. What it ended with is
 * served on, so that the last numbers of a job that died between two scrapes are not lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/trace_opts.h"
#include "event/event.h"
#include "keeper/keeper.h"
#include "serve/gate.h"
#include "serve/server.h"
#include "timeline/report.h"
#include "view/outbuf.h"
#include "view/page_feed.h"
#include "view/report_words.h"

#define NS_PER_S 1000000000ull
#define COST_FACTOR 200
#define FRESH_NS (NS_PER_S * 9 / 10) /* timers are not exact */
#define KEEP_ALIVE_S 15 /* nothing new: listeners are told all the same, which finds those that left */

struct serve_run {
	const struct options *o;
	const struct session *session; /* NULL: over, or not yet begun */
	struct listen_addr addr; /* with the port it got */
	struct gate gate;
	struct server *server;
	struct keeper *keeper; /* it takes the name of a Unix socket away; NULL: a port, or not yet begun */
	struct page_feed *feed;
	struct metrics_seen seen;
	int epoll_fd, timer_fd;
	struct report *rep; /* the last one; the final one once the session is over */
	uint64_t rep_number; /* of all that were */
	size_t rep_top;
	uint64_t rep_ns, rep_cost_ns; /* when it was made, and how long that took */
	uint64_t sampled_ns, pushed_ns; /* rep_ns of the last one that was kept; when a document was pushed */
};

/* --- numbers --------------------------------------------------------------------------------------------- */

/* No older than need be, with `top` rows at least if that can be had now. NULL: there is none yet. */
static const struct report *serve__report(struct serve_run *x, size_t top)
{
	uint64_t before = now_ns(), age = before - x->rep_ns;
	struct report *rep = NULL;

	if (!x->session || (x->rep && (age < x->rep_cost_ns * COST_FACTOR || (age < FRESH_NS && top <= x->rep_top))))
		return x->rep;
	if (session_report(x->session, top, &rep) < 0)
		return x->rep;
	report__free(x->rep);
	x->rep = rep;
	x->rep_number++;
	x->rep_top = top;
	x->rep_ns = now_ns();
	x->rep_cost_ns = x->rep_ns - before;
	return x->rep;
}

/* MemTotal and MemAvailable; 0: cannot be read. */
static void machine_memory(uint64_t *ret_all, uint64_t *ret_available)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemTotal: %" SCNu64, &kib) == 1)
			*ret_all = kib * 1024;
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) {
			*ret_available = kib * 1024;
			break;
		}
	}
	if (f)
		fclose(f);
}

static uint64_t on_number(void *ctx)
{
	struct serve_run *x = ctx;

	(void)serve__report(x, 0);
	return x->rep_number;
}

static char *on_metrics(void *ctx, enum metrics_form form, size_t *ret_len)
{
	struct serve_run *x = ctx;
	struct metrics_opts opts = { .form = form, .seen = &x->seen };
	const struct report *r = serve__report(x, 0);
	struct outbuf o = { 0 };
	char *text = NULL;
	FILE *out = r ? open_memstream(&text, ret_len) : NULL;
	int err = !out || outbuf__init(&o, out);

	if (!err) {
		machine_memory(&opts.memory_bytes, &opts.memory_available_bytes);
		metrics__write(&o, r, &opts);
		err = outbuf__flush(&o);
	}
	outbuf__done(&o);
	if (out && fclose(out))
		err = 1;
	if (!err)
		return text;
	free(text);
	return NULL;
}

static char *on_health(void *ctx, int *ret_is_well, size_t *ret_len)
{
	struct serve_run *x = ctx;
	const struct report *r = serve__report(x, 0);
	uint64_t lost = r ? report_lost_events(r) : 0;
	size_t up = r ? metrics_up(r) : 0;
	char *text = NULL;
	int n;

	*ret_is_well = x->session && (up || x->o->all_jobs); /* of all jobs there may be none */
	n = *ret_is_well ? asprintf(&text, "ok: %zu process%s traced, %" PRIu64 " event%s lost\n", up,
			     up == 1 ? "" : "es", lost, lost == 1 ? "" : "s") :
			   asprintf(&text, "all traced processes have ended\n");
	*ret_len = n > 0 ? (size_t)n : 0;
	return n > 0 ? text : NULL;
}

static void serve__push(struct serve_run *x, const struct report *r)
{
	size_t len;
	char *text = page_feed__document(x->feed, r, &len);

	if (text)
		(void)server__push(x->server, text, len);
	free(text);
	x->pushed_ns = now_ns();
}

static void on_listener(void *ctx)
{
	struct serve_run *x = ctx;
	const struct report *r = serve__report(x, PAGE_FEED_ROWS);

	if (r && now_ns() - x->pushed_ns > NS_PER_S / 2)
		serve__push(x, r);
}

/* Once a second. */
static void serve__tick(struct serve_run *x)
{
	size_t listeners = server__listeners(x->server);
	const struct report *r = serve__report(x, listeners ? PAGE_FEED_ROWS : 0);

	if (!r)
		return;
	if (x->session && x->rep_ns != x->sampled_ns) {
		x->sampled_ns = x->rep_ns;
		page_feed__sample(x->feed, r);
		if (listeners)
			serve__push(x, r);
	} else if (listeners && now_ns() - x->pushed_ns > KEEP_ALIVE_S * NS_PER_S) {
		serve__push(x, r);
	}
}

/* --- the loop -------------------------------------------------------------------------------------------- */

static void serve__turn(struct serve_run *x)
{
	uint64_t times;

	if (read(x->timer_fd, &times, sizeof(times)) > 0)
		serve__tick(x);
	server__run(x->server);
}

/* Probes are set: the first moment at which there is something to ask for. The port was taken before. */
static void on_start(void *ctx)
{
	const struct serve_run *x = ctx;
	const struct listen_addr *a = &x->addr;

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

static int on_watch(void *ctx, const struct session *s)
{
	struct serve_run *x = ctx;

	x->session = s;
	serve__turn(x);
	return 0;
}

static int serve__watch(const struct serve_run *x, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -EIO : 0;
}

/* Before any probe is set, and before rights are given away: who may come in, and the socket. */
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
	struct itimerspec second = { { 1, 0 }, { 1, 0 } };
	struct server_opts so = { .gate = &x->gate, .number = on_number, .metrics = on_metrics, .health = on_health,
				  .listener = on_listener, .ctx = x };
	int r;

	so.fd = serve__open(x, err);
	if (so.fd < 0)
		return so.fd;
	r = server__start(&x->server, &so, err);
	if (r < 0)
		return r;
	x->feed = page_feed__new();
	x->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	x->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!x->feed || serve__watch(x, server__fd(x->server)) || serve__watch(x, x->timer_fd) ||
	    timerfd_settime(x->timer_fd, 0, &second, NULL) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void serve__end(struct serve_run *x)
{
	listen_unlink(&x->addr); /* nothing was given away yet; else the keeper does it */
	server__stop(x->server);
	keeper__free(x->keeper);
	gate__done(&x->gate);
	page_feed__free(x->feed);
	if (x->timer_fd >= 0)
		close(x->timer_fd);
	if (x->epoll_fd >= 0)
		close(x->epoll_fd);
}

/* All have ended: their last numbers, until a signal or until_ns. */
static int serve__linger(struct serve_run *x, uint64_t until_ns, struct err *err)
{
	struct epoll_event evs[4], on_signal = { .events = EPOLLIN, .data.u64 = 1 };
	int fd, n = 0, is_over = 0;
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	fd = signalfd(-1, &mask, SFD_CLOEXEC); /* blocked since the session began: none is lost in between */
	if (fd < 0 || epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, fd, &on_signal) < 0)
		return err_set(err, -errno, "waiting for signals: %s", strerror(errno));
	if (!x->o->quiet)
		fprintf(stderr, "all traced processes have ended; their last numbers stay until Ctrl-C\n");
	if (server__listeners(x->server))
		serve__push(x, x->rep);
	while (!is_over && now_ns() < until_ns) {
		n = epoll_wait(x->epoll_fd, evs, 4, -1);
		if (n < 0 && errno != EINTR)
			break;
		for (int i = 0; i < n; i++)
			is_over |= evs[i].data.u64 == 1;
		serve__turn(x);
	}
	close(fd);
	return n < 0 && errno != EINTR ? err_set(err, -errno, "waiting for clients: %s", strerror(errno)) : 0;
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
	int r = rights_check(err), status = 0, code;

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
		report__free(x->rep);
		x->rep = rep;
		x->rep_number++;
	}
	if (rep && o->out && !o->quiet)
		recording_say(o->out, rep);
	if (!r && rep && rep->end_reason == EV_END_TARGET_GONE)
		r = serve__linger(x, until_ns, err);
	code = rep ? loss_exit_code(o, rep) : EXIT_OK;
	serve__end(x);
	free(x);
	report__free(rep);
	return r < 0 ? r : code;
}
