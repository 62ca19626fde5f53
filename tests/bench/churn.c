/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * churn THREADS FILE: steps of 200 mallocs and frees of mixed sizes by each of so many threads, with reading and writing of a
 * table between them, as a program that allocates much has it. A step ends when all threads are through (they wait asleep).
 * Prints "ready PID" and, when SIGTERM comes, writes the CLOCK_MONOTONIC of each step's end to FILE, 8 bytes each.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIVE 512
#define PAIRS 200
#define THREADS_MAX 16
#define STAMPS_MAX (1u << 22)
#define TABLE (64u << 10)

static pthread_barrier_t begin, end;
static volatile sig_atomic_t is_over;
static uint64_t stamps[STAMPS_MAX];

static void on_term(int sig)
{
	(void)sig;
	is_over = 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void churn(unsigned char **live, unsigned char *table, uint32_t *seed)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		uint32_t x = *seed = *seed * 1664525u + 1013904223u;
		unsigned char **at = &live[x >> 16 & (LIVE - 1)];

		free(*at);
		*at = malloc(16 + (x >> 8) % 1000);
		if (!*at)
			abort();
		memset(*at, (int)x, 16);
		for (unsigned k = 0; k < 4096; k += 8)
			table[(x + k) % TABLE] ^= (unsigned char)k;
	}
}

static void *thread(void *arg)
{
	static _Thread_local unsigned char *live[LIVE], table[TABLE];
	uint32_t seed = (uint32_t)(uintptr_t)arg;

	for (;;) {
		pthread_barrier_wait(&begin);
		churn(live, table, &seed);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static unsigned char *live[LIVE], table[TABLE];
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	uint32_t seed = 1;
	size_t steps = 0;
	FILE *f;

	if (!threads || threads > THREADS_MAX || signal(SIGTERM, on_term) == SIG_ERR)
		return 2;
	pthread_barrier_init(&begin, NULL, threads);
	pthread_barrier_init(&end, NULL, threads);
	for (unsigned i = 1; i < threads; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, thread, (void *)(uintptr_t)(i + 1)))
			return 1;
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!is_over && steps < STAMPS_MAX) {
		pthread_barrier_wait(&begin);
		churn(live, table, &seed);
		pthread_barrier_wait(&end);
		stamps[steps++] = now_ns();
	}
	f = fopen(argv[2], "wb");
	if (!f || fwrite(stamps, sizeof(*stamps), steps, f) != steps || fclose(f))
		return 1;
	_exit(0);
}
