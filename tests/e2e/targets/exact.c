/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Knows its own truth: makes some thousand allocations in every way that glibc has, on four threads,
 * in nested operations announced through memtrace/usdt.h, frees half of the blocks on another thread
 * than their own, and then prints all of it:
 *
 *     A DEV TID PTR SIZE OP      born (OP "-": outside of operations)
 *     F DEV TID PTR              freed
 *
 * Says "ready PID" with its threads already started (starting one allocates), works at a line on
 * stdin, prints, says "done", and lives until stdin closes. The log is static memory, and output is
 * formatted on the stack: the only allocations after "ready" are the ones that are logged.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memtrace/usdt.h"

enum { THREADS = 4, ROUNDS = 400, LOG_MAX = 40000, KEPT = 64 };

struct entry {
	char what;	 /* 'A' or 'F' */
	const char *dev; /* "host": the malloc family; "cpu": announced by MEMTRACE_ALLOC */
	void *ptr;
	size_t size;
	const char *op;
};

struct worker {
	pthread_t thread;
	sem_t go;
	pid_t tid;
	unsigned seed;
	const char *op; /* innermost open operation */
	size_t log_cnt;
	struct entry log[LOG_MAX];
	void *kept[KEPT];
};

static struct worker workers[THREADS];
static sem_t all_done;
static void *volatile mailbox[THREADS]; /* a block that thread i leaves for the next one to free */
static char pool[THREADS][1 << 16];	/* what the custom allocator gives out */

static void die(const char *what)
{
	dprintf(2, "exact: %s\n", what);
	_exit(1);
}

static void note(struct worker *w, char what, const char *dev, void *ptr, size_t size)
{
	if (w->log_cnt == LOG_MAX)
		die("log full");
	w->log[w->log_cnt++] = (struct entry){what, dev, ptr, size, w->op};
}

static void *born(struct worker *w, void *ptr, size_t size)
{
	if (!ptr)
		die("out of memory");
	note(w, 'A', "host", ptr, size);
	return ptr;
}

static void give_back(struct worker *w, void *ptr)
{
	if (!ptr)
		return;
	note(w, 'F', "host", ptr, 0);
	free(ptr);
}

static unsigned next(struct worker *w, unsigned below)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 8) % below;
}

/* One block, by one of the ways there are. Sizes differ by way, so that a mix-up shows. */
static void *allocate(struct worker *w)
{
	size_t n = 1 + next(w, 5000);
	void *p = NULL;

	switch (next(w, 8)) {
	case 0:
		return born(w, malloc(n), n);
	case 1:
		return born(w, calloc(3, n), 3 * n);
	case 2:
		if (posix_memalign(&p, 64, n))
			die("posix_memalign");
		return born(w, p, n);
	case 3:
		return born(w, aligned_alloc(128, 128 * (1 + n % 9)), 128 * (1 + n % 9));
	case 4:
		return born(w, memalign(256, n), n);
	case 5:
		return born(w, realloc(NULL, n), n);
	case 6:
		return born(w, malloc(n + (1 << 20)), n + (1 << 20)); /* mmapped inside glibc */
	default:
		return born(w, reallocarray(NULL, 7, n), 7 * n);
	}
}

static void *grow(struct worker *w, void *old)
{
	size_t n = 1 + next(w, 20000);

	note(w, 'F', "host", old, 0);
	return born(w, realloc(old, n), n);
}

static void failures(struct worker *w)
{
	void *volatile huge = malloc(PTRDIFF_MAX);
	void *p = NULL;

	if (huge || !posix_memalign(&p, 3, 100)) /* 3 is no alignment */
		die("an impossible allocation worked");
	free(NULL);
	(void)w;
}

static void announce(struct worker *w, int round)
{
	char *p = pool[w - workers] + 64 * (round % 1024);

	MEMTRACE_ALLOC(p, (size_t)(round + 1), MEMTRACE_CPU);
	note(w, 'A', "cpu", p, (size_t)(round + 1));
	MEMTRACE_FREE(p, MEMTRACE_CPU);
	note(w, 'F', "cpu", p, 0);
}

static void inner(struct worker *w)
{
	const char *was = w->op;

	MEMTRACE_OP_BEGIN("exact::inner");
	w->op = "exact::inner";
	give_back(w, allocate(w));
	if (next(w, 4) == 0) {
		MEMTRACE_OP_BEGIN("exact::deep");
		w->op = "exact::deep";
		give_back(w, allocate(w));
		MEMTRACE_OP_END();
		w->op = "exact::inner";
	}
	MEMTRACE_OP_END();
	w->op = was;
}

static void round_of(struct worker *w, int round)
{
	size_t i = next(w, KEPT);
	size_t me = (size_t)(w - workers);

	give_back(w, w->kept[i]);
	w->kept[i] = allocate(w); /* outside of operations */

	MEMTRACE_OP_BEGIN("exact::outer");
	w->op = "exact::outer";
	inner(w);
	w->kept[i] = grow(w, w->kept[i]); /* again in the outer one */
	if (round % 3 == 0)
		announce(w, round);
	MEMTRACE_OP_END();
	w->op = NULL;

	/* Half of the rounds: a block for the next thread, and what the one before left is freed here. */
	if (round % 2) {
		void *p = allocate(w);

		p = __atomic_exchange_n(&mailbox[me], p, __ATOMIC_ACQ_REL);
		give_back(w, p);
	} else {
		give_back(w, __atomic_exchange_n(&mailbox[(me + 1) % THREADS], NULL, __ATOMIC_ACQ_REL));
	}
	if (round % 50 == 0)
		failures(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	w->tid = (pid_t)syscall(SYS_gettid);
	give_back(w, malloc(10)); /* glibc sets this thread's cache up with the first one */
	w->log_cnt = 0;
	sem_post(&all_done);
	sem_wait(&w->go);
	for (int i = 0; i < ROUNDS; i++)
		round_of(w, i);
	sem_post(&all_done);
	sem_wait(&w->go); /* for ever: ending a thread frees */
	return NULL;
}

static void wait_all(void)
{
	for (int i = 0; i < THREADS; i++)
		while (sem_wait(&all_done) && errno == EINTR)
			;
}

int main(void)
{
	char line[64];

	sem_init(&all_done, 0, 0);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].seed = 12345u + i;
		sem_init(&workers[i].go, 0, 0);
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("pthread_create");
	}
	wait_all();
	dprintf(1, "ready %d\n", (int)getpid());
	if (read(0, line, sizeof(line)) <= 0)
		return 1;
	for (int i = 0; i < THREADS; i++)
		sem_post(&workers[i].go);
	wait_all();
	for (int i = 0; i < THREADS; i++) {
		const struct worker *w = &workers[i];

		for (size_t k = 0; k < w->log_cnt; k++) {
			const struct entry *e = &w->log[k];

			if (e->what == 'A')
				dprintf(1, "A %s %d %p %zu %s\n", e->dev, (int)w->tid, e->ptr, e->size,
					e->op ? e->op : "-");
			else
				dprintf(1, "F %s %d %p\n", e->dev, (int)w->tid, e->ptr);
		}
	}
	dprintf(1, "done\n");
	while (read(0, line, sizeof(line)) > 0)
		;
	_exit(0);
}
