/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "trace"
#include "trace/closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/urgent.h"

#define LOOK_US 1000 /* between looks at whether all are closed */
#define STACK_BYTES (64u << 10) /* they call close() and nothing else */
#define REST	    4		      /* times its work: the pause after each close, … */
#define TURN_NS_MAX (NS_PER_S / 4)    /* … both together not longer than this, … */
#define WAIT_NS	    (10 * NS_PER_S)   /* … and so short that all have begun this long after the last was added, … */
#define END_WAIT_NS (2 * NS_PER_S)    /* … or after the end: who ended memtrace waits, and the next one is kept out */

struct closing_batch {
	struct closing_batch *next;
	struct closer *closer;
	size_t cnt, at; /* at: next one to close, protected by the closer's lock */
	size_t threads_cnt, done_cnt; /* done: threads that found nothing left, counted atomically */
	pthread_t threads[CLOSER_THREADS];
	struct closing v[];
};

struct closer {
	struct closing_batch *batches;
	pthread_mutex_t lock;
	uint64_t next_ns; /* nothing begins before this time */
	uint64_t left;	   /* that have not begun, and … */
	uint64_t until_ns; /* … should have by then; both atomic */
};

/* With the lock held: a thread that waits for its time keeps the others waiting for theirs. */
static void closer__wait(struct closer *c, uint64_t work_ns)
{
	uint64_t left = __atomic_fetch_sub(&c->left, 1, __ATOMIC_RELAXED), turn = (1 + REST) * work_ns, until, now;

	if (!work_ns)
		return;
	now = now_ns();
	if (c->next_ns > now) {
		sleep_until(c->next_ns);
		now = now_ns();
	}
	until = __atomic_load_n(&c->until_ns, __ATOMIC_RELAXED);
	if (turn > TURN_NS_MAX)
		turn = TURN_NS_MAX;
	if (now + turn * left > until)
		turn = until > now ? (until - now) / left : 0;
	c->next_ns = now + turn;
}

/* The one to close now; NULL: there is none left. */
static const struct closing *closing_batch__next(struct closing_batch *b)
{
	const struct closing *next = NULL;

	pthread_mutex_lock(&b->closer->lock);
	if (b->at < b->cnt) {
		next = &b->v[b->at++];
		closer__wait(b->closer, next->work_ns);
	}
	pthread_mutex_unlock(&b->closer->lock);
	return next;
}

static void *close_some(void *arg)
{
	struct closing_batch *b = arg;
	const struct closing *next;

	while ((next = closing_batch__next(b))) {
		int nice = urgent_begin();

		close(next->fd);
		urgent_end(nice);
	}
	__atomic_fetch_add(&b->done_cnt, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void closing_batch__free(struct closing_batch *b)
{
	for (size_t i = 0; i < b->threads_cnt; i++)
		pthread_join(b->threads[i], NULL);
	free(b);
}

/* A job may fork for days: finished batches are freed now, with the stacks of their threads. */
static void closer__reap(struct closer *c)
{
	struct closing_batch **at = &c->batches, *b;

	while ((b = *at)) {
		if (__atomic_load_n(&b->done_cnt, __ATOMIC_ACQUIRE) < b->threads_cnt) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		closing_batch__free(b);
	}
}

struct closer *closer__new(void)
{
	struct closer *c = calloc(1, sizeof(*c));

	if (c)
		pthread_mutex_init(&c->lock, NULL);
	return c;
}

int closer__is_idle(struct closer *c)
{
	if (c)
		closer__reap(c);
	return !c || !c->batches;
}

void closer__free(struct closer *c)
{
	uint64_t begin;
	int was_said = 0;

	if (!c)
		return;
	begin = now_ns();
	__atomic_store_n(&c->until_ns, begin + END_WAIT_NS, __ATOMIC_RELAXED);
	while (!closer__is_idle(c)) {
		usleep(LOOK_US);
		if (!was_said && now_ns() - begin > END_WAIT_NS) {
			was_said = 1;
			log_warn("waiting for the kernel, which removes the last probes (the job goes on)");
		}
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void closer__add(struct closer *c, const struct closing *v, size_t cnt, size_t threads)
{
	struct closing_batch *b = c && cnt ? calloc(1, sizeof(*b) + cnt * sizeof(*v)) : NULL;
	pthread_attr_t small;
	sigset_t all, old;

	if (c)
		closer__reap(c);
	if (!b) {
		for (size_t i = 0; i < cnt; i++)
			close(v[i].fd);
		return;
	}
	b->closer = c;
	b->cnt = cnt;
	__atomic_fetch_add(&c->left, cnt, __ATOMIC_RELAXED);
	__atomic_store_n(&c->until_ns, now_ns() + WAIT_NS, __ATOMIC_RELAXED);
	memcpy(b->v, v, cnt * sizeof(*v));
	/* The main thread reads signals from a signalfd; these threads block them. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pthread_attr_init(&small);
	(void)pthread_attr_setstacksize(&small, STACK_BYTES);
	while (b->threads_cnt < cnt && b->threads_cnt < threads &&
	       !pthread_create(&b->threads[b->threads_cnt], &small, close_some, b))
		b->threads_cnt++;
	pthread_attr_destroy(&small);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!b->threads_cnt)
		close_some(b);
	b->next = c->batches;
	c->batches = b;
}
