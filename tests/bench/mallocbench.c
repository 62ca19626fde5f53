/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What one malloc+free pair costs: allocates and frees 64 bytes in a loop for ever and says, every
 * 0.2 s, "pair NS" with the mean of that time. The benchmark attaches tracers and reads the change.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64
#define SAY_NS 200000000ULL

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

int main(void)
{
	uint64_t begin = now_ns(), pairs = 0;

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	printf("ready %d\n", (int)getpid());
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			void *volatile p = malloc(64);

			free(p);
		}
		pairs += BATCH;
		uint64_t took = now_ns() - begin;

		if (took >= SAY_NS) {
			if (printf("pair %.2f\n", (double)took / (double)pairs) < 0)
				return 1;
			pairs = 0;
			begin = now_ns();
		}
	}
}
