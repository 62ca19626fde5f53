/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64

struct batch {
	struct batch *next;
	size_t cnt, at; /* at: next one to close, taken atomically */
	size_t threads_cnt;
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
	return NULL;
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
		for (size_t i = 0; i < b->threads_cnt; i++)
			pthread_join(b->threads[i], NULL);
		free(b);
	}
	free(c);
}

void closer__add(struct closer *c, const int *fds, size_t cnt)
{
	struct batch *b = c && cnt ? calloc(1, sizeof(*b) + cnt * sizeof(int)) : NULL;
	sigset_t all, old;

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
	while (b->threads_cnt < cnt && b->threads_cnt < THREADS_MAX &&
	       !pthread_create(&b->threads[b->threads_cnt], NULL, close_some, b))
		b->threads_cnt++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!b->threads_cnt)
		close_some(b);
	b->next = c->batches;
	c->batches = b;
}
