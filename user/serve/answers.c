/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Measured before there was a thread, on two cores with a load of eight (tests/faults all_floods_at_once): a turn of the
 * session's loop took 2 to 15 ms of CPU time and waited 20 to 150 ms for a core, since a thread that uses all it can get waits
 * longest; answers took 33 ms (median) to 244 ms. This one sleeps between requests, so the scheduler lets it run at once.
 *
 * A report is whole and has one owner (its strings are copies), so it is handed over and nothing is shared: the lock is held
 * for an exchange of pointers. If the loop makes two while this thread sleeps, the first is dropped.
 */
#define LOG_MODULE "serve"
#include "serve/answers.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "serve/server.h"
#include "timeline/report.h"
#include "view/outbuf.h"
#include "view/page/page_feed.h"

#define KEEP_ALIVE_S 15 /* nothing new: listeners are sent something even so, which finds those that left */

/* The loop's hand-over. */
struct handed_report {
	struct report *rep; /* NULL: nothing new */
	uint64_t made_ns;
	int is_over;
};

struct answers {
	struct server *server;
	struct page_feed *feed;
	struct metrics_seen seen;
	int epoll_fd, news_fd, wants_fd;
	pthread_t thread;
	int has_thread;
	pthread_mutex_t lock; /* of `next` */
	struct handed_report next;
	int is_ending;	/* atomic */
	size_t rows;	/* atomic: for the loop */
	/* the thread's */
	struct handed_report now;
	uint64_t number; /* of the report, from 1 */
	uint64_t sampled_ns, pushed_ns;
};

static void wake(int eventfd)
{
	(void)!write(eventfd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

static void calm(int eventfd)
{
	uint64_t times;

	(void)!read(eventfd, &times, sizeof(times));
}

/* --- answers ---------------------------------------------------------------------------------------------- */

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

static uint64_t answers__age_ns(const struct answers *a)
{
	return a->now.is_over ? 0 : now_ns() - a->now.made_ns;
}

static uint64_t on_number(void *ctx)
{
	const struct answers *a = ctx;

	return a->number;
}

static char *on_metrics(void *ctx, enum metrics_form form, size_t *ret_len)
{
	struct answers *a = ctx;
	struct metrics_opts opts = { .form = form, .seen = &a->seen, .age_ns = answers__age_ns(a) };
	const struct report *r = a->now.rep;
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
	const struct answers *a = ctx;
	const struct report *r = a->now.rep;
	uint64_t lost = r ? report_lost_events(r) : 0, age_s = r ? answers__age_ns(a) / NS_PER_S : 0;
	size_t up = r ? metrics_up(r) : 0;
	char *text = NULL;
	int n;

	*ret_is_well = r && !a->now.is_over && age_s <= ANSWERS_OLD_S;
	if (*ret_is_well)
		n = asprintf(&text, "ok: %zu process%s traced, %" PRIu64 " event%s lost\n", up, up == 1 ? "" : "es", lost,
			     lost == 1 ? "" : "s");
	else if (!r)
		n = asprintf(&text, "nothing is traced yet\n");
	else if (a->now.is_over)
		n = asprintf(&text, "all traced processes have ended\n");
	else
		n = asprintf(&text, "memtrace is held up: its numbers are %" PRIu64 " s old\n", age_s);
	*ret_len = n > 0 ? (size_t)n : 0;
	return n > 0 ? text : NULL;
}

static void answers__push(struct answers *a)
{
	size_t len;
	char *text = page_feed__document(a->feed, a->now.rep, &len);

	if (text)
		(void)server__push(a->server, text, len);
	free(text);
	a->pushed_ns = now_ns();
}

/* Sends the report at once, and tables as soon as the loop has made some. */
static void on_listener(void *ctx)
{
	struct answers *a = ctx;

	if (a->now.rep && now_ns() - a->pushed_ns > NS_PER_S / 2)
		answers__push(a);
	__atomic_store_n(&a->rows, PAGE_FEED_ROWS, __ATOMIC_RELAXED);
	wake(a->wants_fd);
}

/* --- the thread ------------------------------------------------------------------------------------------- */

static void answers__take(struct answers *a)
{
	struct handed_report t;
	uint64_t now = now_ns();

	pthread_mutex_lock(&a->lock);
	t = a->next;
	a->next.rep = NULL;
	pthread_mutex_unlock(&a->lock);
	if (!t.rep)
		return;
	report__free(a->now.rep);
	a->now = t;
	a->number++;
	if (!t.is_over && now - a->sampled_ns > NS_PER_S / 2) {
		a->sampled_ns = now;
		page_feed__sample(a->feed, t.rep);
	}
	if (server__listeners(a->server))
		answers__push(a);
}

static void *answers__work(void *arg)
{
	struct answers *a = arg;
	struct epoll_event evs[2];

	while (!__atomic_load_n(&a->is_ending, __ATOMIC_ACQUIRE)) {
		size_t listeners = server__listeners(a->server);

		__atomic_store_n(&a->rows, listeners ? (size_t)PAGE_FEED_ROWS : 0, __ATOMIC_RELAXED);
		(void)epoll_wait(a->epoll_fd, evs, 2, listeners ? 1000 : -1);
		calm(a->news_fd);
		answers__take(a);
		if (listeners && a->now.rep && now_ns() - a->pushed_ns > KEEP_ALIVE_S * NS_PER_S)
			answers__push(a);
		server__run(a->server);
	}
	return NULL;
}

/* --- from outside ----------------------------------------------------------------------------------------- */

int answers__begin(struct answers *a)
{
	int r = a->has_thread ? 0 : -pthread_create(&a->thread, NULL, answers__work, a);

	a->has_thread |= !r;
	return r;
}

void answers__tell(struct answers *a, struct report *r, int is_over)
{
	struct report *before;

	pthread_mutex_lock(&a->lock);
	before = a->next.rep;
	a->next = (struct handed_report){ r, now_ns(), is_over };
	pthread_mutex_unlock(&a->lock);
	report__free(before);
	wake(a->news_fd);
}

size_t answers__rows(const struct answers *a)
{
	return __atomic_load_n(&a->rows, __ATOMIC_RELAXED);
}

int answers__wants_fd(const struct answers *a)
{
	return a->wants_fd;
}

static int answers__watch(const struct answers *a, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0;
}

int answers__new(struct answers **ret, int fd, const struct gate *gate, struct err *err)
{
	struct answers *a = calloc(1, sizeof(*a));
	struct server_opts so = { .fd = fd, .gate = gate, .number = on_number, .metrics = on_metrics, .health = on_health,
				  .listener = on_listener, .ctx = a };
	int r;

	if (!a) {
		close(fd);
		return err_set(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_init(&a->lock, NULL);
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	a->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->wants_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->feed = page_feed__new();
	r = server__start(&a->server, &so, err);
	if (!r && (!a->feed || a->wants_fd < 0 || answers__watch(a, server__fd(a->server)) || answers__watch(a, a->news_fd)))
		r = err_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		answers__free(a);
		return r;
	}
	*ret = a;
	return 0;
}

void answers__free(struct answers *a)
{
	const int *fds[] = { &a->epoll_fd, &a->news_fd, &a->wants_fd };

	if (!a)
		return;
	if (a->has_thread) {
		__atomic_store_n(&a->is_ending, 1, __ATOMIC_RELEASE);
		wake(a->news_fd);
		pthread_join(a->thread, NULL);
	}
	server__stop(a->server);
	page_feed__free(a->feed);
	report__free(a->now.rep);
	report__free(a->next.rep);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (*fds[i] >= 0)
			close(*fds[i]);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
