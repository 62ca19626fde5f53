/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A program in which memtrace finds nothing: built static and stripped, it has no framework, no
 * malloc of a shared libc and no symbols. Allocates, says "ready PID" and lives until its stdin closes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
	char byte;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	do {
		volatile char *p = malloc(1000);

		if (!p)
			return 1;
		p[0] = 1;
		free((void *)p);
	} while (read(STDIN_FILENO, &byte, 1) > 0);
	return 0;
}
