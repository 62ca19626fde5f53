/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Ends badly, as asked: "refuse", "kill", "eat", "eat_beside" (eats when its first thread has ended). Waits for a line on stdin
 * first.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SMALL 12345
#define MANY 1000

static void *volatile kept[MANY];

static void keep_many(void)
{
	for (int i = 0; i < MANY; i++)
		kept[i] = malloc(SMALL);
}

static void *eat(void *unused)
{
	for (;;) {
		void *volatile p = malloc(1 << 20);

		memset(p, 1, 1 << 20);
		usleep(20000); /* RSS is read ten times a second: the last reading is some MiB old, on a busy machine, too */
	}
	return unused;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct rlimit limit = { 1ul << 30, 1ul << 30 };
	char line[16];

	printf("ready \n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	keep_many();
	if (!strcmp(what, "refuse")) {
		setrlimit(RLIMIT_AS, &limit);
		for (int i = 0; i < 3; i++)
			if (malloc(2ul << 30))
				return 2;
		printf("refused\n");
		fflush(stdout);
		(void)!fgets(line, sizeof(line), stdin);
		return 0;
	}
	if (!strcmp(what, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(what, "eat"))
		eat(NULL);
	if (!strcmp(what, "eat_beside")) {
		pthread_t thread;

		pthread_create(&thread, NULL, eat, NULL);
		pthread_exit(NULL);
	}
	return 0;
}
