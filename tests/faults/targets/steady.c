// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * steady: a process that behaves well and knows what it told. Says "ready PID"; after a line tells 5,000 allocations and
 * frees a second on device 1, until the next line; then says "told ALLOCS FREES" and lives until its stdin closes. A
 * library that is named is loaded first.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "memtrace/usdt.h"

enum { DEVICE = 1, A_BATCH = 50, PAUSE_NS = 10000000 };

static int line_comes(int timeout_ms)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char c = 0;

	if (poll(&in, 1, timeout_ms) != 1)
		return 0;
	while (c != '\n')
		if (read(0, &c, 1) != 1)
			_exit(0);
	return 1;
}

int main(int argc, char **argv)
{
	static char memory[A_BATCH];
	unsigned long reported = 0;

	if (argc > 1 && !dlopen(argv[1], RTLD_NOW))
		return 1;
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	printf("ready %d\n", (int)getpid());
	line_comes(-1);
	while (!line_comes(0)) {
		for (int i = 0; i < A_BATCH; i++)
			MEMTRACE_ALLOC(&memory[i], 4096, DEVICE);
		for (int i = 0; i < A_BATCH; i++)
			MEMTRACE_FREE(&memory[i], DEVICE);
		reported += A_BATCH;
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	printf("told %lu %lu\n", reported, reported);
	line_comes(-1);
	return 0;
}
