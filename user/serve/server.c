/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * libmicrohttpd in its external mode: it has an epoll of its own, which stands with a timer in ours, so the caller's loop
 * watches one descriptor; work per wake-up is bounded (RUNS_MAX).
 *
 * libmicrohttpd's own timeout counts from the last byte, so a client that sends one now and then is never too late. Here
 * the time of a whole request counts: once a second the sockets of late clients are shut down, which libmicrohttpd sees
 * as clients that left.
 */
#define LOG_MODULE "serve"
#include "serve/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "serve/accept.h"
#include "serve/gate.h"
#include "serve/mhd.h"
#include "serve/pack.h"
#include "serve/place.h"
#include "view/page/html_page.h"

#define RUNS_MAX 16
#define DROPPED_MS 3000
#define EVENT_BLOCK_BYTES (8u << 10)
#define POLICY_NOTHING "default-src 'none'; frame-ancestors 'none'"

struct message {
	unsigned refs;
	size_t len;
	char text[];
};

struct client {
	struct server *s;
	struct place *place; /* of the same number */
	struct MHD_Connection *conn;
	int fd;
	struct message *msg; /* that it is being sent; NULL: it has all */
	size_t at;
	uint64_t number; /* of the last message that it was given */
	int is_suspended;
};

/* Metrics made for an earlier request. */
struct kept_metrics {
	struct MHD_Response *r; /* NULL: none */
	uint64_t number, made_ns;
};

struct server {
	struct server_opts opts;
	struct MHD_Daemon *daemon;
	int epoll_fd, timer_fd;
	struct client clients[SERVER_CLIENTS_MAX];
	struct place places[SERVER_CLIENTS_MAX];
	size_t clients_cnt, listeners_cnt, changes_cnt; /* of connections, made and closed */
	struct message *latest;
	uint64_t latest_number; /* from 1 */
	uint64_t swept_ns;
	struct MHD_Response *page, *page_packed;
	struct kept_metrics metrics[2][2]; /* by form; as it is, and packed */
	int is_stopping;
};

/* --- messages -------------------------------------------------------------------------------------------- */

static void message__put(struct message *m)
{
	if (m && !--m->refs)
		free(m);
}

static ssize_t client__read(void *ctx, uint64_t pos, char *buf, size_t max)
{
	struct client *c = ctx;
	struct server *s = c->s;
	size_t n;

	(void)pos;
	if (s->is_stopping)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!c->msg && s->latest && c->number != s->latest_number) {
		c->msg = s->latest;
		c->msg->refs++;
		c->number = s->latest_number;
		c->at = 0;
		c->place->since_ns = now_ns();
	}
	if (!c->msg) {
		c->is_suspended = 1;
		mhd.suspend_connection(c->conn);
		return 0;
	}
	n = c->msg->len - c->at < max ? c->msg->len - c->at : max;
	memcpy(buf, c->msg->text + c->at, n);
	c->at += n;
	if (c->at == c->msg->len) {
		message__put(c->msg);
		c->msg = NULL;
	}
	return (ssize_t)n;
}

static void server__resume_all(struct server *s)
{
	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		struct client *c = &s->clients[i];

		if (!c->conn || !c->is_suspended)
			continue;
		c->is_suspended = 0;
		c->place->since_ns = now_ns();
		mhd.resume_connection(c->conn);
	}
}

int server__push(struct server *s, const char *text, size_t len)
{
	static const char begin[] = "data: ", end[] = "\n\n";
	size_t whole = sizeof(begin) - 1 + len + sizeof(end) - 1;
	struct message *m = malloc(sizeof(*m) + whole);

	if (!m)
		return -ENOMEM;
	m->refs = 1;
	m->len = whole;
	memcpy(m->text, begin, sizeof(begin) - 1);
	memcpy(m->text + sizeof(begin) - 1, text, len);
	memcpy(m->text + sizeof(begin) - 1 + len, end, sizeof(end) - 1);
	message__put(s->latest);
	s->latest = m;
	s->latest_number++;
	server__resume_all(s);
	return 0;
}

/* --- clients --------------------------------------------------------------------------------------------- */

/* Drops what it has not read: a flood of such clients would fill the kernel's memory for minutes. */
static void client__drop(struct client *c)
{
	unsigned ms = DROPPED_MS;

	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	c->s->listeners_cnt -= c->place->state == LISTENS;
	c->place->state = LEAVES;
	(void)shutdown(c->fd, SHUT_RDWR);
}

static void client__done(struct client *c)
{
	struct server *s = c->s;

	message__put(c->msg);
	s->listeners_cnt -= c->place->state == LISTENS;
	s->clients_cnt--;
	*c->place = (struct place){ 0 };
	*c = (struct client){ 0 };
}

/* There is room: fewer have a place than libmicrohttpd lets in. */
static struct client *server__place(struct server *s, struct MHD_Connection *conn, int fd)
{
	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (!s->clients[i].conn) {
			s->places[i] = (struct place){ .state = WAITS, .since_ns = now_ns() };
			peer__of(&s->places[i].peer, fd);
			s->clients[i] = (struct client){ .s = s, .place = &s->places[i], .conn = conn, .fd = fd };
			s->clients_cnt++;
			return &s->clients[i];
		}
	return NULL;
}

/* A connection was made or is gone. */
static void on_connection(void *ctx, struct MHD_Connection *conn, void **slot, enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct server *s = ctx;
	size_t worst;

	s->changes_cnt++;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (*slot)
			client__done(*slot);
		return;
	}
	worst = s->clients_cnt < SERVER_CLIENTS_EASY ? SERVER_CLIENTS_MAX : place_to_clear(s->places, SERVER_CLIENTS_MAX);
	if (worst < SERVER_CLIENTS_MAX)
		client__drop(&s->clients[worst]);
	info = mhd.get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	*slot = info ? server__place(s, conn, info->connect_fd) : NULL;
}

static struct client *client_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info = mhd.get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void on_completed(void *ctx, struct MHD_Connection *conn, void **unused, enum MHD_RequestTerminationCode code)
{
	struct server *s = ctx;
	struct client *c = client_of(conn);

	(void)unused;
	(void)code;
	if (!c)
		return;
	s->listeners_cnt -= c->place->state == LISTENS;
	message__put(c->msg);
	c->msg = NULL;
	c->place->state = c->place->state == LEAVES ? LEAVES : WAITS;
	c->place->since_ns = now_ns();
}

/* Those that take too long, once a second. */
static void server__sweep(struct server *s)
{
	uint64_t now = now_ns();

	if (now - s->swept_ns < NS_PER_S)
		return;
	s->swept_ns = now;
	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		const struct place *p = &s->places[i];
		uint64_t limit = (p->state == WAITS ? SERVER_WAIT_S : SERVER_SEND_S) * NS_PER_S;
		int is_busy = p->state == WAITS || p->state == IS_ANSWERED || (p->state == LISTENS && s->clients[i].msg);

		if (is_busy && now - p->since_ns > limit)
			client__drop(&s->clients[i]);
	}
}

/* --- answers --------------------------------------------------------------------------------------------- */

static struct MHD_Response *with_headers(struct MHD_Response *r, const char *type, const char *policy)
{
	if (!r)
		return NULL;
	mhd.add_response_header(r, "Content-Type", type);
	mhd.add_response_header(r, "Content-Security-Policy", policy);
	mhd.add_response_header(r, "X-Content-Type-Options", "nosniff");
	mhd.add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	mhd.add_response_header(r, "Referrer-Policy", "no-referrer");
	mhd.add_response_header(r, "Cache-Control", "no-store");
	return r;
}

/* Hands r over. */
static enum MHD_Result answer(struct MHD_Connection *conn, unsigned code, struct MHD_Response *r)
{
	enum MHD_Result done;

	if (!r)
		return MHD_NO;
	done = mhd.queue_response(conn, code, r);
	mhd.destroy_response(r);
	return done;
}

static struct MHD_Response *plain(const char *text)
{
	return with_headers(mhd.create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT),
			    "text/plain; charset=utf-8", POLICY_NOTHING);
}

static enum MHD_Result refuse(struct MHD_Connection *conn, unsigned code, const char *text, int is_last)
{
	struct MHD_Response *r = plain(text);

	if (r && is_last)
		mhd.add_response_header(r, "Connection", "close");
	if (r && code == MHD_HTTP_UNAUTHORIZED) {
		mhd.add_response_header(r, "WWW-Authenticate", "Bearer realm=\"memtrace\"");
		/* browsers ask for this one */
		mhd.add_response_header(r, "WWW-Authenticate", "Basic realm=\"memtrace\", charset=\"UTF-8\"");
	}
	if (r && code == MHD_HTTP_METHOD_NOT_ALLOWED)
		mhd.add_response_header(r, "Allow", "GET, HEAD");
	if (r && code == MHD_HTTP_SERVICE_UNAVAILABLE)
		mhd.add_response_header(r, "Retry-After", "10");
	return answer(conn, code, r);
}

static struct MHD_Response *made(char *text, size_t len, const char *type)
{
	struct MHD_Response *r = text ? mhd.create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;

	if (!r)
		free(text);
	return with_headers(r, type, POLICY_NOTHING);
}

static int takes_gzip(struct MHD_Connection *conn)
{
	return accept_gzip(mhd.lookup_connection_value(conn, MHD_HEADER_KIND, "Accept-Encoding"));
}

/* Metrics as they are now; NULL: there are none. */
static struct MHD_Response *metrics_response(struct server *s, enum metrics_form form, int is_packed)
{
	size_t len = 0;
	char *text = s->opts.metrics(s->opts.ctx, form, &len), *packed = NULL;
	struct MHD_Response *r;

	if (text && is_packed)
		packed = pack_gzip(text, len, PACK_QUICKLY, &len);
	if (packed)
		free(text);
	r = made(packed ? packed : text, len, form == METRICS_OPENMETRICS ? CONTENT_OPENMETRICS : CONTENT_TEXT);
	if (r)
		mhd.add_response_header(r, "Vary", "Accept, Accept-Encoding");
	if (r && packed)
		mhd.add_response_header(r, "Content-Encoding", "gzip");
	return r;
}

static enum MHD_Result answer_metrics(struct server *s, struct MHD_Connection *conn)
{
	enum metrics_form form = accept_form(mhd.lookup_connection_value(conn, MHD_HEADER_KIND, "Accept"));
	int is_packed = takes_gzip(conn);
	struct kept_metrics *k = &s->metrics[form][is_packed];
	uint64_t number = s->opts.number(s->opts.ctx), now = now_ns();

	if (!k->r || k->number != number || now - k->made_ns > SERVER_SAME_S * NS_PER_S) {
		if (k->r)
			mhd.destroy_response(k->r); /* connections that are being sent it keep it */
		*k = (struct kept_metrics){ metrics_response(s, form, is_packed), number, now };
	}
	if (!k->r)
		return refuse(conn, MHD_HTTP_SERVICE_UNAVAILABLE, "no metrics now\n", 0);
	return mhd.queue_response(conn, MHD_HTTP_OK, k->r);
}

static enum MHD_Result answer_health(struct server *s, struct MHD_Connection *conn)
{
	int is_well = 0;
	size_t len = 0;
	char *text = s->opts.health(s->opts.ctx, &is_well, &len);

	return answer(conn, is_well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, made(text, len, "text/plain; charset=utf-8"));
}

static enum MHD_Result answer_events(struct server *s, struct MHD_Connection *conn, struct client *c, int is_head)
{
	struct MHD_Response *r;

	if (!is_head && s->listeners_cnt >= SERVER_LISTENERS_MAX)
		return refuse(conn, MHD_HTTP_SERVICE_UNAVAILABLE, "too many listen already\n", 0);
	r = is_head ? mhd.create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT) :
		      mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK_BYTES, client__read, c, NULL);
	if (!is_head && r) {
		c->place->state = LISTENS;
		c->number = 0;
		s->listeners_cnt++;
		s->opts.listener(s->opts.ctx);
	}
	return answer(conn, MHD_HTTP_OK, with_headers(r, "text/event-stream", POLICY_NOTHING));
}

static enum MHD_Result answer_page(struct server *s, struct MHD_Connection *conn)
{
	if (!s->page)
		return refuse(conn, MHD_HTTP_NOT_FOUND, "no page in this build (make page-library); /metrics is there\n", 0);
	return mhd.queue_response(conn, MHD_HTTP_OK, s->page_packed && takes_gzip(conn) ? s->page_packed : s->page);
}

static int has_body(struct MHD_Connection *conn)
{
	const char *len = mhd.lookup_connection_value(conn, MHD_HEADER_KIND, "Content-Length");

	return (len && strcmp(len, "0")) || mhd.lookup_connection_value(conn, MHD_HEADER_KIND, "Transfer-Encoding");
}

/* The error of a request that is refused before its path counts. 0: none. */
static unsigned server__objects(const struct server *s, struct MHD_Connection *conn, const char *method, const char **ret_why)
{
	enum gate_says says = gate__ask(s->opts.gate, mhd.lookup_connection_value(conn, MHD_HEADER_KIND, "Host"),
					mhd.lookup_connection_value(conn, MHD_HEADER_KIND, "Authorization"));

	*ret_why = "GET and HEAD only\n";
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	*ret_why = "no body, please\n";
	if (has_body(conn))
		return MHD_HTTP_CONTENT_TOO_LARGE;
	*ret_why = "ask for it by its address, as localhost, or by a name of --allow-host\n";
	if (says == GATE_OTHER_HOST)
		return MHD_HTTP_MISDIRECTED_REQUEST;
	*ret_why = "the token, please: Authorization: Bearer TOKEN, or as a password\n";
	return says == GATE_NO_TOKEN ? MHD_HTTP_UNAUTHORIZED : 0;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *conn, const char *url, const char *method,
				  const char *version, const char *body, size_t *body_len, void **slot)
{
	struct server *s = ctx;
	struct client *c = client_of(conn);
	const char *why;
	unsigned code;

	(void)version;
	(void)body;
	(void)body_len;
	if (!c || c->place->state == LEAVES)
		return MHD_NO;
	if (!*slot && !has_body(conn)) { /* an answer before the second call would be the connection's last */
		*slot = c;
		return MHD_YES;
	}
	c->place->state = IS_ANSWERED;
	c->place->since_ns = now_ns();
	code = server__objects(s, conn, method, &why);
	if (code)
		return refuse(conn, code, why, code != MHD_HTTP_MISDIRECTED_REQUEST);
	c->place->is_known = s->opts.gate->has_token;
	if (!strcmp(url, "/metrics"))
		return answer_metrics(s, conn);
	if (!strcmp(url, "/healthz"))
		return answer_health(s, conn);
	if (!strcmp(url, "/events"))
		return answer_events(s, conn, c, !strcmp(method, "HEAD"));
	if (!strcmp(url, "/"))
		return answer_page(s, conn);
	return refuse(conn, MHD_HTTP_NOT_FOUND, "there are /, /metrics and /healthz\n", 0);
}

/* Keeps paths escaped: no %00, no second spelling of one. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *conn, char *text)
{
	(void)ctx;
	(void)conn;
	return strlen(text);
}

/* --- life ------------------------------------------------------------------------------------------------ */

static void on_log(void *ctx, const char *format, va_list args)
{
	char text[300];

	(void)ctx;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libmicrohttpd: %s", text);
}

/* Takes text over. */
static struct MHD_Response *page_response(char *text, size_t len)
{
	struct MHD_Response *r = mhd.create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);

	if (!r)
		free(text);
	else
		mhd.add_response_header(r, "Vary", "Accept-Encoding");
	return with_headers(r, "text/html; charset=utf-8", html_page__policy());
}

/* The same page as an exported one, with the source of its data in place of the data. */
static void make_page(struct server *s)
{
	static const char where[] = "{\"feed\":\"events\"}";
	struct html_part head = html_page__head(), tail = html_page__tail();
	size_t len = head.len + sizeof(where) - 1 + tail.len, packed_len;
	char *text = html_page__missing() ? NULL : malloc(len), *packed;

	if (!text)
		return;
	memcpy(text, head.text, head.len);
	memcpy(text + head.len, where, sizeof(where) - 1);
	memcpy(text + head.len + sizeof(where) - 1, tail.text, tail.len);
	packed = pack_gzip(text, len, PACK_WELL, &packed_len);
	s->page = page_response(text, len);
	s->page_packed = packed ? page_response(packed, packed_len) : NULL;
	if (s->page_packed)
		mhd.add_response_header(s->page_packed, "Content-Encoding", "gzip");
}

static int server__watch(struct server *s, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -EIO : 0;
}

int server__start(struct server **ret, const struct server_opts *opts, struct err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;
	int r = s ? mhd_open(err) : err_set(err, -ENOMEM, "out of memory");

	if (r < 0) {
		free(s);
		close(opts->fd);
		return r;
	}
	s->opts = *opts;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	s->daemon = mhd.start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, s,
				     MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, opts->fd,
				     MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_CLIENTS_MAX,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_HEADER_BYTES,
				     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_SEND_S,
				     MHD_OPTION_STRICT_FOR_CLIENT, 1,
				     MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
				     MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_END);
	info = s->daemon ? mhd.get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!s->daemon)
		close(opts->fd);
	if (!info || server__watch(s, info->epoll_fd) || server__watch(s, s->timer_fd)) {
		server__stop(s);
		return err_set(err, -EIO, "starting the HTTP server: %s", strerror(errno));
	}
	make_page(s);
	*ret = s;
	return 0;
}

void server__stop(struct server *s)
{
	if (!s)
		return;
	s->is_stopping = 1;
	server__resume_all(s); /* a suspended connection must not be there when the daemon ends */
	if (s->daemon) {
		(void)mhd.run(s->daemon);
		mhd.stop_daemon(s->daemon);
	}
	if (s->page)
		mhd.destroy_response(s->page);
	if (s->page_packed)
		mhd.destroy_response(s->page_packed);
	for (size_t i = 0; i < 4; i++)
		if (s->metrics[i / 2][i % 2].r)
			mhd.destroy_response(s->metrics[i / 2][i % 2].r);
	message__put(s->latest);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s);
}

int server__fd(const struct server *s)
{
	return s->epoll_fd;
}

size_t server__listeners(const struct server *s)
{
	return s->listeners_cnt;
}

void server__run(struct server *s)
{
	struct itimerspec it = { 0 };
	MHD_UNSIGNED_LONG_LONG ms = 1;
	uint64_t times;
	int has_more = 1;

	(void)!read(s->timer_fd, &times, sizeof(times));
	server__sweep(s); /* not by the timer, which each turn sets anew */
	for (int i = 0; i < RUNS_MAX && has_more; i++) {
		size_t before = s->changes_cnt;

		(void)mhd.run(s->daemon);
		/* A place that became free is given to a waiting client in the next run only. */
		has_more = before != s->changes_cnt || (mhd.get_timeout(s->daemon, &ms) == MHD_YES && !ms);
	}
	if (has_more)
		it.it_value.tv_nsec = 1; /* after the caller's other work */
	else
		it.it_value.tv_sec = s->clients_cnt ? 1 : 0;
	(void)timerfd_settime(s->timer_fd, 0, &it, NULL);
}
