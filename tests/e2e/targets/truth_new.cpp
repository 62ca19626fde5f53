// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_new [ROUNDS [THREADS [THROW]]]: every form of operator new and delete of C++17, malloc among them.
 *
 * Said of a block: what was asked for; of aligned ones a multiple of the alignment, to which libstdc++ would
 * round it up before it asks malloc. With THROW the ones that may throw are asked for more than there
 * is, now and then, and the exception is caught: a request that failed. What the exception itself takes
 * is counted too: __cxa_allocate_exception gets it from malloc, header included (THROWN bytes in libstdc++
 * of GCC 12: 128 of header and 8 of std::bad_alloc).
 */
#include <new>

#include <pthread.h>

#include "truth.h"

#define SLOTS 256
#define THREADS_MAX 8
#define THROWN 136

struct alignas(64) wide {
	char bytes[192];
};

struct slot {
	void *ptr;
	uint64_t size;
	int kind;
};

static slot slots[SLOTS];
static truth_dev host = { "host", 0, 0, 0, 0, 0, 0, 0 };
static truth_op none;
static uint64_t rounds = 4000, ooms, throws;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin_all, done, over;

static void *volatile hidden;
static void *hide(void *p)
{
	hidden = p;
	return hidden;
}

/* The compiler may leave out pairs of new-expressions, never direct calls of the functions. */
static void *get(int kind, size_t size)
{
	const std::align_val_t align{ 64 };

	switch (kind) {
	case 0: return operator new(size);
	case 1: return operator new[](size);
	case 2: return operator new(size, std::nothrow);
	case 3: return operator new[](size, std::nothrow);
	case 4: return operator new(size, align);
	case 5: return operator new[](size, align);
	case 6: return operator new(size, align, std::nothrow);
	case 7: return operator new[](size, align, std::nothrow);
	case 8: return malloc(size);
	case 9: return operator new(size);   /* deleted with its size */
	case 10: return operator new[](size);
	case 11: return operator new(size, align);
	case 12: return operator new[](size, align);
	default: return new wide;
	}
}

static void put(int kind, void *p, size_t size)
{
	const std::align_val_t align{ 64 };

	switch (kind) {
	case 0: return operator delete(p);
	case 1: return operator delete[](p);
	case 2: return operator delete(p, std::nothrow);
	case 3: return operator delete[](p, std::nothrow);
	case 4: return operator delete(p, align);
	case 5: return operator delete[](p, align);
	case 6: return operator delete(p, align, std::nothrow);
	case 7: return operator delete[](p, align, std::nothrow);
	case 8: return free(p);
	case 9: return operator delete(p, size);
	case 10: return operator delete[](p, size);
	case 11: return operator delete(p, size, align);
	case 12: return operator delete[](p, size, align);
	default: delete static_cast<wide *>(p);
	}
}

static void ask_too_much(int kind)
{
	static const int throwing[] = { 0, 1, 4, 5 };

	try {
		hide(get(throwing[kind % 4], SIZE_MAX / 4));
		abort();
	} catch (const std::bad_alloc &) {
		truth_alloc(&host, &none, nullptr, THROWN);
	}
	truth_free(&host, THROWN);
	ooms++;
}

static void work(uint64_t number)
{
	uint64_t rng = 5 + number;

	pthread_barrier_wait(&begin_all);
	for (uint64_t i = 0; i < rounds; i++) {
		slot *s = &slots[truth_random(&rng) % SLOTS];

		pthread_mutex_lock(&lock);
		if (s->ptr) {
			put(s->kind, s->ptr, s->size);
			truth_free(&host, s->size);
			s->ptr = nullptr;
		} else {
			s->kind = (int)(truth_random(&rng) % 14);
			s->size = s->kind == 13 ? sizeof(wide) :
				  i % 50 ? 1 + truth_random(&rng) % 2000 : 100000 + truth_random(&rng) % 900000;
			if ((s->kind >= 4 && s->kind <= 7) || s->kind == 11 || s->kind == 12)
				s->size = (s->size + 63) / 64 * 64;
			s->ptr = hide(get(s->kind, s->size));
			if (!s->ptr)
				abort();
			truth_alloc(&host, &none, nullptr, s->size);
		}
		if (throws && i % 97 == 0)
			ask_too_much((int)(i / 97));
		pthread_mutex_unlock(&lock);
	}
	pthread_barrier_wait(&done);
}

static void *thread(void *arg)
{
	work((uint64_t)(uintptr_t)arg);
	pthread_barrier_wait(&over);
	return nullptr;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 2 ? strtoul(argv[2], nullptr, 10) : 1;
	pthread_t t[THREADS_MAX];

	if (argc > 1)
		rounds = strtoull(argv[1], nullptr, 10);
	throws = argc > 3;
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	if (throws) { /* what the first exception sets up is none of this */
		try {
			throw std::bad_alloc();
		} catch (const std::bad_alloc &) {
		}
	}
	pthread_barrier_init(&begin_all, nullptr, (unsigned)threads);
	pthread_barrier_init(&done, nullptr, (unsigned)threads);
	pthread_barrier_init(&over, nullptr, (unsigned)threads);
	for (uintptr_t i = 1; i < threads; i++)
		if (pthread_create(&t[i], nullptr, thread, (void *)i))
			return 1;
	truth_ready();
	work(0);
	truth_say_devs(&host, 1);
	truth_say(",\"ooms\":%llu", (unsigned long long)ooms);
	truth_end();
	pthread_barrier_wait(&over);
	return 0;
}
