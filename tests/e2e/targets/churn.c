/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Allocates at stdin's word: says "ready PID", and for each line read makes 1000 malloc(12345) and
 * frees 400 of them, then says "done". Lives until its stdin closes. Built stripped by the tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUND = 1000, FREED = 400, BYTES = 12345 };

int main(void)
{
	static char *blocks[ROUND];
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < ROUND; i++) {
			blocks[i] = malloc(BYTES);
			if (!blocks[i])
				return 1;
			*(volatile char *)blocks[i] = 1;
		}
		for (int i = 0; i < FREED; i++)
			free(blocks[i]);
		puts("done");
	}
	return 0;
}
