/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What one malloc+free pair costs: allocates and frees 64 bytes in a loop for ever and says, every
 * 0.2 s of its CPU time, "pair NS" with the mean of that. The benchmark attaches tracers and reads the change.
 * `mallocbench new`: operator new and delete of whichever library is preloaded.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1024
#define SAY_NS 200000000ULL

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others on the machine do not count */
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	void *(*get)(size_t) = malloc;
	void (*put)(void *) = free;
	uint64_t begin = now_ns(), pairs = 0;

	if (argc > 1 && !strcmp(argv[1], "new")) {
		*(void **)&get = dlsym(RTLD_DEFAULT, "_Znwm");
		*(void **)&put = dlsym(RTLD_DEFAULT, "_ZdlPv");
		if (!get || !put)
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	printf("ready %d\n", (int)getpid());
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			void *volatile p = get(64);

			put(p);
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
