/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64
#define STACK_BYTES (64u << 10) /* they call close() and nothing else */

struct batch {
	struct batch *next;
	size_t cnt, at; /* at: next one to close, taken atomically */
	size_t threads_cnt, done_cnt; /* done: threads that found nothing left, counted atomically */
	pthread_t threads[THREADS_MAX];
	int fds[];
};

struct closer {
	struct batch *batches;
};

static void *close_some(void *arg)
{
	struct batch *b = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&b->at, 1, __ATOMIC_RELAXED)) < b->cnt)
		close(b->fds[i]);
	__atomic_fetch_add(&b->done_cnt, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void batch__free(struct batch *b)
{
	for (size_t i = 0; i < b->threads_cnt; i++)
		pthread_join(b->threads[i], NULL);
	free(b);
}

/* A job may fork for days: what is closed must not wait for the end with all its stacks. */
static void closer__reap(struct closer *c)
{
	struct batch **at = &c->batches, *b;

	while ((b = *at)) {
		if (__atomic_load_n(&b->done_cnt, __ATOMIC_ACQUIRE) < b->threads_cnt) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		batch__free(b);
	}
}

struct closer *closer__new(void)
{
	return calloc(1, sizeof(struct closer));
}

void closer__free(struct closer *c)
{
	if (!c)
		return;
	while (c->batches) {
		struct batch *b = c->batches;

		c->batches = b->next;
		batch__free(b);
	}
	free(c);
}

void closer__add(struct closer *c, const int *fds, size_t cnt)
{
	struct batch *b = c && cnt ? calloc(1, sizeof(*b) + cnt * sizeof(int)) : NULL;
	pthread_attr_t small;
	sigset_t all, old;

	if (c)
		closer__reap(c);
	if (!b) {
		for (size_t i = 0; i < cnt; i++)
			close(fds[i]);
		return;
	}
	b->cnt = cnt;
	memcpy(b->fds, fds, cnt * sizeof(int));
	/* Signals are the main thread's: it reads them from a signalfd. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pthread_attr_init(&small);
	(void)pthread_attr_setstacksize(&small, STACK_BYTES);
	while (b->threads_cnt < cnt && b->threads_cnt < THREADS_MAX &&
	       !pthread_create(&b->threads[b->threads_cnt], &small, close_some, b))
		b->threads_cnt++;
	pthread_attr_destroy(&small);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!b->threads_cnt)
		close_some(b);
	b->next = c->batches;
	c->batches = b;
}
