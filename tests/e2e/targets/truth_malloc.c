// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_malloc [THREADS [ROUNDS]]: every entry of glibc's malloc family, and what each gave.
 *
 * Between the go and the truth nothing else calls malloc: threads exist before, there is no stdio. A
 * size is what was asked for (calloc: the product). A realloc that succeeds is a free of the old block
 * and an allocation of the new one, also when it stays in place; one that fails is nothing, and realloc(p, 0)
 * is a free. All calls are made under one lock, so the truth knows the order and the peak, and by
 * whichever thread comes: blocks are freed and moved by others than those that got them.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include "truth.h"

#define THREADS_MAX 8
#define SLOTS 512
#define OLD 16
#define KINDS 9

struct slot {
	void *ptr;
	uint64_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin, done, over;
static struct slot slots[SLOTS];
static struct truth_dev host = { .name = "host" };
static uint64_t ooms, zero_allocs, rounds = 3000, moved, kept;
static void *old[OLD];

/* The compiler knows malloc: it must not see through these. */
static void *volatile hidden;
static void *hide(void *p)
{
	hidden = p;
	return hidden;
}

static void allocated(struct slot *s, void *p, uint64_t size)
{
	static struct truth_op none;

	s->ptr = p;
	s->size = size;
	if (!p) {
		ooms++;
		return;
	}
	truth_alloc(&host, &none, NULL, size);
	zero_allocs += !size;
}

static uint64_t some_size(uint64_t *rng)
{
	switch (truth_random(rng) % 16) {
	case 0: return 0;
	case 1: return 200000 + truth_random(rng) % 400000; /* mmap of its own */
	case 2: return 4096 * (1 + truth_random(rng) % 8);
	default: return 1 + truth_random(rng) % 1000;
	}
}

static void slot_alloc(struct slot *s, uint64_t *rng)
{
	unsigned kind = truth_random(rng) % KINDS;
	uint64_t size = some_size(rng), n = 1 + truth_random(rng) % 7;
	void *p = NULL;

	switch (kind) {
	case 0:
		p = malloc(size);
		break;
	case 1:
		p = calloc(n, size);
		size *= n;
		break;
	case 2:
		p = realloc(NULL, size);
		break;
	case 3:
		p = reallocarray(NULL, n, size);
		size *= n;
		break;
	case 4:
		if (posix_memalign(&p, 64, size))
			p = NULL;
		break;
	case 5:
		p = aligned_alloc(128, size);
		break;
	case 6:
		p = memalign(4096, size);
		break;
	case 7:
		p = valloc(size);
		break;
	case 8:
		p = malloc(size ? size : 1);
		size = size ? size : 1;
		break;
	}
	allocated(s, hide(p), size);
}

static void slot_free(struct slot *s)
{
	free(s->ptr);
	if (s->ptr)
		truth_free(&host, s->size);
	s->ptr = NULL;
}

/* Grows in place, moves, shrinks, or frees. */
static void slot_realloc(struct slot *s, uint64_t *rng)
{
	uint64_t n = 1 + truth_random(rng) % 3, size = some_size(rng), was = s->size;
	uintptr_t at = (uintptr_t)s->ptr;
	void *p;

	if (truth_random(rng) % 4 == 0)
		size = was + 1 + truth_random(rng) % 16;
	if (truth_random(rng) % 3 == 0)
		p = reallocarray(s->ptr, n, size), size *= n;
	else
		p = realloc(s->ptr, size);
	p = hide(p);
	truth_free(&host, was);
	s->ptr = NULL;
	if (!p)
		return; /* size 0: glibc frees and gives NULL */
	moved += (uintptr_t)p != at;
	kept += (uintptr_t)p == at;
	allocated(s, p, size);
}

/* What cannot be had. Nothing changes; the blocks of failed reallocs live on. */
static void fail(struct slot *s)
{
	volatile size_t much = SIZE_MAX / 2;
	void *p = NULL;

	ooms += !hide(malloc(much));
	ooms += !hide(calloc(much, 4));
	ooms += !hide(realloc(s->ptr, much));
	ooms += !hide(reallocarray(s->ptr, much, 3));
	ooms += posix_memalign(&p, 64, much) == ENOMEM;
	if (posix_memalign(&p, 3, 100) != EINVAL) /* not for want of memory: no OOM */
		abort();
	free(hide(NULL));
}

static void work(long number)
{
	uint64_t rng = 77 + (uint64_t)number;

	pthread_barrier_wait(&begin);
	for (uint64_t i = 0; i < rounds; i++) {
		struct slot *s = &slots[truth_random(&rng) % SLOTS];

		pthread_mutex_lock(&lock);
		if (!s->ptr)
			slot_alloc(s, &rng);
		else if (truth_random(&rng) % 3 == 0)
			slot_realloc(s, &rng);
		else
			slot_free(s);
		if (i % 64 == 0 && s->ptr)
			fail(s);
		if (i % 128 == 5 && host.preexisting_frees < OLD)
			free(old[host.preexisting_frees++]);
		pthread_mutex_unlock(&lock);
	}
	pthread_barrier_wait(&done);
}

/* Stays until the end of the program: the end of a thread frees what belongs to it. */
static void *thread(void *arg)
{
	work((long)(intptr_t)arg);
	pthread_barrier_wait(&over);
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
	pthread_t t[THREADS_MAX];

	if (argc > 2)
		rounds = strtoull(argv[2], NULL, 10);
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < OLD; i++)
		old[i] = malloc(5000);
	pthread_barrier_init(&begin, NULL, (unsigned)threads);
	pthread_barrier_init(&done, NULL, (unsigned)threads);
	pthread_barrier_init(&over, NULL, (unsigned)threads);
	for (intptr_t i = 1; i < threads; i++)
		if (pthread_create(&t[i], NULL, thread, (void *)i))
			return 1;
	truth_ready();
	work(0);
	truth_say_devs(&host, 1);
	truth_say(",\"ooms\":%llu,\"zero_allocs\":%llu,\"moved\":%llu,\"kept\":%llu", (unsigned long long)ooms,
		  (unsigned long long)zero_allocs, (unsigned long long)moved, (unsigned long long)kept);
	truth_end();
	pthread_barrier_wait(&over);
	return 0;
}
