// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_stacks: large blocks at known call chains, in code without frame pointers: plain frames, frames of a
 * size known at run time, realigned ones, recursion, a callback from the C library, threads. Each block has a
 * size of its own; the truth is the chain of functions for each size, innermost first.
 */
#include <alloca.h>
#include <pthread.h>

#include "truth.h"

#define NOINLINE __attribute__((noinline, noclone))
#define BASE (1u << 20)
#define THREAD_MORE (1u << 19)

static void *volatile keep;

/* After the call, so that it is none at the end of its caller. */
#define AFTER(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

NOINLINE static void leaf(size_t n)
{
	AFTER(keep = malloc(n));
	free(keep);
}

NOINLINE static void plain(size_t n)
{
	char room[4000];

	__asm__ volatile("" ::"r"(room) : "memory");
	AFTER(leaf(n));
}

NOINLINE static void variable(size_t n, size_t more)
{
	char *room = alloca(more);

	__asm__ volatile("" ::"r"(room) : "memory");
	AFTER(leaf(n));
}

NOINLINE static void aligned(size_t n, size_t more)
{
	char room[256] __attribute__((aligned(64)));
	char *other = alloca(more);

	__asm__ volatile("" ::"r"(room), "r"(other) : "memory");
	AFTER(plain(n));
}

NOINLINE static void recursive(size_t n, int depth)
{
	if (depth)
		AFTER(recursive(n, depth - 1));
	else
		AFTER(leaf(n));
}

static size_t compare_n;

NOINLINE static int compare(const void *a, const void *b)
{
	AFTER(leaf(compare_n));
	return *(const int *)a - *(const int *)b;
}

NOINLINE static void sorts(size_t n)
{
	int two[2] = { 2, 1 };

	compare_n = n;
	AFTER(qsort(two, 2, sizeof(two[0]), compare));
}

NOINLINE static void *work(void *more)
{
	size_t n = BASE + (size_t)more;

	AFTER(plain(n + 16));
	AFTER(variable(n + 32, 100 + n % 1000));
	AFTER(aligned(n + 48, 50 + n % 100));
	AFTER(recursive(n + 64, 10));
	AFTER(sorts(n + 80));
	return NULL;
}

static void chain(unsigned n, const char *functions)
{
	truth_say("%s\"%u\":[%s]", n == BASE + 16 ? "" : ",", n, functions);
}

#define R "\"recursive\","

static void tell(unsigned n)
{
	chain(n + 16, "\"leaf\",\"plain\",\"work\"");
	chain(n + 32, "\"leaf\",\"variable\",\"work\"");
	chain(n + 48, "\"leaf\",\"plain\",\"aligned\",\"work\"");
	chain(n + 64, "\"leaf\"," R R R R R R R R R R R "\"work\"");
	chain(n + 80, "\"leaf\",\"compare\",\"*\",\"sorts\",\"work\"");
}

int main(void)
{
	pthread_t thread;
	pthread_attr_t attr;

	/* Its stack is made and used once before: the work is what is traced. */
	pthread_attr_init(&attr);
	truth_ready();
	AFTER((void)work((void *)0));
	if (pthread_create(&thread, &attr, work, (void *)(size_t)THREAD_MORE) || pthread_join(thread, NULL))
		return 1;
	truth_say("{\"pid\":%d,\"chains\":{", (int)getpid());
	tell(BASE);
	tell(BASE + THREAD_MORE);
	truth_say("}}\n");
	truth_flush();
	truth_wait();
	return 0;
}
