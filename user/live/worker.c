/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "target/memory.h"

struct queue {
	struct work *first, **last;
};

struct worker {
	void (*do_work)(void *ctx, struct work *w);
	void *ctx;
	int fd, has_thread;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct queue asked, done; /* under the lock, like stop */
	int stop;
};

static void queue__put(struct queue *q, struct work *w)
{
	w->next = NULL;
	*q->last = w;
	q->last = &w->next;
}

static struct work *queue__take(struct queue *q)
{
	struct work *w = q->first;

	if (!w)
		return NULL;
	q->first = w->next;
	if (!q->first)
		q->last = &q->first;
	return w;
}

static void *run(void *arg)
{
	struct worker *wk = arg;

	pthread_mutex_lock(&wk->lock);
	while (!wk->stop) {
		struct work *w = queue__take(&wk->asked);

		if (!w) {
			pthread_cond_wait(&wk->wake, &wk->lock);
			continue;
		}
		pthread_mutex_unlock(&wk->lock);
		wk->do_work(wk->ctx, w);
		pthread_mutex_lock(&wk->lock);
		queue__put(&wk->done, w);
		(void)!write(wk->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	}
	pthread_mutex_unlock(&wk->lock);
	memory_done();
	return NULL;
}

int worker__new(struct worker **ret, void (*do_work)(void *ctx, struct work *w), void *ctx, const char *what, struct err *err)
{
	struct worker *wk = calloc(1, sizeof(*wk));
	int r;

	if (!wk)
		return err_set(err, -ENOMEM, "out of memory");
	wk->do_work = do_work;
	wk->ctx = ctx;
	wk->asked.last = &wk->asked.first;
	wk->done.last = &wk->done.first;
	pthread_mutex_init(&wk->lock, NULL);
	pthread_cond_init(&wk->wake, NULL);
	wk->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = wk->fd < 0 ? -errno : -pthread_create(&wk->thread, NULL, run, wk);
	if (r) {
		worker__free(wk);
		return err_set(err, r, "a thread that %s: %s", what, strerror(-r));
	}
	wk->has_thread = 1;
	*ret = wk;
	return 0;
}

int worker__end(struct worker *wk, unsigned wait_s)
{
	struct timespec until;

	if (!wk || !wk->has_thread)
		return 0;
	pthread_mutex_lock(&wk->lock);
	__atomic_store_n(&wk->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_signal(&wk->wake);
	pthread_mutex_unlock(&wk->lock);
	if (!wait_s)
		return pthread_join(wk->thread, NULL) != 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += wait_s;
	return pthread_timedjoin_np(wk->thread, NULL, &until) != 0;
}

void worker__free(struct worker *wk)
{
	if (!wk)
		return;
	if (wk->fd >= 0)
		close(wk->fd);
	pthread_cond_destroy(&wk->wake);
	pthread_mutex_destroy(&wk->lock);
	free(wk);
}

int worker__fd(const struct worker *wk)
{
	return wk->fd;
}

const int *worker__stop(const struct worker *wk)
{
	return &wk->stop;
}

void worker__add(struct worker *wk, struct work *w)
{
	pthread_mutex_lock(&wk->lock);
	queue__put(&wk->asked, w);
	pthread_cond_signal(&wk->wake);
	pthread_mutex_unlock(&wk->lock);
}

struct work *worker__done(struct worker *wk)
{
	uint64_t times;
	struct work *w;

	pthread_mutex_lock(&wk->lock);
	w = queue__take(&wk->done);
	if (!wk->done.first)
		(void)!read(wk->fd, &times, sizeof(times));
	pthread_mutex_unlock(&wk->lock);
	return w;
}
