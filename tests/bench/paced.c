/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * paced PAIRS: so many malloc+free pairs a second, evenly by the millisecond, with 10,000 blocks alive at any time. Prints
 * "ready" and runs until it is killed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LIVE 10000

static void *blocks[LIVE];

int main(int argc, char **argv)
{
	unsigned long pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 50000, done = 0;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	puts("ready");
	fflush(stdout);
	for (uint64_t ms = 1;; ms++) {
		for (; done < pairs * ms / 1000; done++) {
			unsigned at = (unsigned)(done * 2654435761u % LIVE);

			free(blocks[at]);
			blocks[at] = malloc(16 + done * 40503u % 4000);
		}
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}
