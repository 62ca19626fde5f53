// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * usdt_example: an allocator of one's own, seen from outside through memtrace/usdt.h.
 *
 *   usdt_example [SECONDS]     a toy server works for so long (default 60); look at it meanwhile:
 *                                  sudo memtrace -p $(pgrep usdt_example) --probes usdt
 *   usdt_example --bench [SECONDS]   what a mark costs, in ns: at once, or after so many seconds, in
 *                              which a tracer may attach
 *
 * What to copy: pool_alloc() and pool_free() announce blocks, handle() names what it does, main()
 * counts steps. Nothing else in the program knows about it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memtrace/usdt.h"

/* --- a pool of fixed blocks: malloc's probes would show one mmap and nothing inside --------------- */

#define POOL_BLOCKS 4096
#define POOL_BLOCK_BYTES 4096

static _Alignas(64) char pool[POOL_BLOCKS][POOL_BLOCK_BYTES];
static uint32_t pool_next[POOL_BLOCKS], pool_head;

static void pool_init(void)
{
	for (uint32_t i = 0; i < POOL_BLOCKS; i++)
		pool_next[i] = i + 1;
}

static void *pool_alloc(size_t size)
{
	uint32_t i = pool_head;

	if (i == POOL_BLOCKS || size > POOL_BLOCK_BYTES)
		return NULL;
	pool_head = pool_next[i];
	MEMTRACE_ALLOC(pool[i], size, MEMTRACE_CPU); /* after it is ours */
	return pool[i];
}

static void pool_free(void *p)
{
	uint32_t i;

	if (!p)
		return;
	MEMTRACE_FREE(p, MEMTRACE_CPU); /* before it is somebody else's */
	i = (uint32_t)(((char *)p - pool[0]) / POOL_BLOCK_BYTES);
	pool_next[i] = pool_head;
	pool_head = i;
}

/* --- a program that uses it ------------------------------------------------------------------------ */

#define CACHE 512

static void *cache[CACHE];

static void decode(void *request)
{
	void *scratch;

	MEMTRACE_OP_BEGIN("decode");
	scratch = pool_alloc(3000);
	if (scratch && request)
		memcpy(scratch, request, 1000);
	pool_free(scratch);
	MEMTRACE_OP_END();
}

static void remember(unsigned n)
{
	MEMTRACE_OP_BEGIN("cache");
	pool_free(cache[n % CACHE]);
	cache[n % CACHE] = pool_alloc(64 + n % 4000);
	if (n % CACHE == 0)
		MEMTRACE_TAG(cache[0], "first cache entry", MEMTRACE_CPU);
	MEMTRACE_OP_END();
}

static void handle(unsigned n)
{
	void *request;

	MEMTRACE_REGION_BEGIN("request");
	request = pool_alloc(1500);
	decode(request);
	if (n % 3 == 0)
		remember(n);
	pool_free(request);
	MEMTRACE_REGION_END();
}

/* --- what a mark costs ----------------------------------------------------------------------------- */

#define BENCH_ROUNDS 20000000u
#define BENCH_ROUNDS_TRACED 200000u

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The best of some runs of `rounds` alloc+free pairs; with mark = 0, of the loop alone. */
static double pairs_ns(unsigned rounds, int mark)
{
	double best = 1e18;

	for (int run = 0; run < 7; run++) {
		double begin = now_ns(), took;

		for (unsigned i = 0; i < rounds; i++) {
			char *p = pool[i % POOL_BLOCKS];

			__asm__ volatile("" : "+r"(p)); /* something must remain of the loop */
			if (mark) {
				MEMTRACE_ALLOC(p, 64, MEMTRACE_CPU);
				MEMTRACE_FREE(p, MEMTRACE_CPU);
			}
		}
		took = (now_ns() - begin) / rounds;
		if (took < best)
			best = took;
	}
	return best;
}

static int bench(void)
{
	int traced = MEMTRACE_ALLOC_WATCHED();
	unsigned rounds = traced ? BENCH_ROUNDS_TRACED : BENCH_ROUNDS;
	double bare, marked;

	bare = pairs_ns(rounds, 0);
	marked = pairs_ns(rounds, 1);
	printf("one mark, %s: %.2f ns\n", traced ? "traced" : "nobody looks", (marked - bare) / 2);
	return 0;
}

int main(int argc, char **argv)
{
	double until;

	pool_init();
	if (argc > 1 && !strcmp(argv[1], "--bench")) {
		sleep(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
		return bench();
	}
	until = now_ns() + 1e9 * (argc > 1 ? atof(argv[1]) : 60);
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	for (unsigned step = 0; now_ns() < until; step++) {
		MEMTRACE_STEP(step);
		for (unsigned i = 0; i < 1000; i++)
			handle(step * 1000 + i);
		usleep(10000);
	}
	return 0;
}
