/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A thread for a job (jobs/gaps.py loads it) that maps memory, touches it and unmaps it, over and over: each takes the lock of
 * the address space. It notes how long that took, without the time in which it waited for a CPU: {end (CLOCK_MONOTONIC),
 * waited} in ns.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 200000
#define NOTES_MAX (1 << 20)

static struct note {
	uint64_t end, waited;
} *notes;
static unsigned notes_cnt;
static volatile int is_over;
static pthread_t thread;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t queued(int stat)
{
	char text[64] = { 0 };
	unsigned long long ran, waited = 0;

	if (pread(stat, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%llu %llu", &ran, &waited) != 2)
		abort();
	return waited;
}

static void *map_and_unmap(void *arg)
{
	int stat = open("/proc/thread-self/schedstat", O_RDONLY);

	while (!is_over && notes_cnt < NOTES_MAX) {
		uint64_t begin = now(), before = queued(stat), end, took;
		volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			abort();
		*p = 1;
		munmap((void *)p, 4096);
		before = queued(stat) - before;
		end = now();
		took = end - begin;
		notes[notes_cnt++] = (struct note){ end, took > before ? took - before : 0 };
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	return arg;
}

int mapper_begin(void)
{
	notes = calloc(NOTES_MAX, sizeof(*notes));
	return !notes || pthread_create(&thread, NULL, map_and_unmap, NULL);
}

/* Writes the notes; 0. */
int mapper_end(const char *path)
{
	FILE *f = fopen(path, "wb");

	is_over = 1;
	pthread_join(thread, NULL);
	return !f || fwrite(notes, sizeof(*notes), notes_cnt, f) != notes_cnt || fclose(f);
}
