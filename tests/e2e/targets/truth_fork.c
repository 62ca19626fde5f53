// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_fork: forks children that allocate, while the parent goes on. Each child waits for a line of its
 * own pipe ("forked PID PID …" is told first, and a second go is awaited), so that a test can make
 * sure that its tracer follows them. They free blocks of their parent and leave some of their own.
 */
#include <sys/wait.h>

#include "memtrace/usdt.h"
#include "truth.h"

#define CHILDREN 3
#define BLOCKS 100

static char memory[BLOCKS][64];

static void child(int fd, int number)
{
	char c;

	if (read(fd, &c, 1) != 1)
		_exit(1);
	MEMTRACE_OP_BEGIN("child_op");
	for (int i = 0; i < BLOCKS / 2; i++) /* the parent's blocks, in this process */
		MEMTRACE_FREE(memory[i], MEMTRACE_CPU);
	for (int i = 0; i < BLOCKS / 2; i++)
		MEMTRACE_ALLOC(memory[i], 1000 * (number + 1), MEMTRACE_CPU);
	MEMTRACE_OP_END();
	for (int i = 0; i < BLOCKS / 4; i++)
		MEMTRACE_FREE(memory[i], MEMTRACE_CPU);
	if (read(fd, &c, 1) != 1)
		_exit(1);
	_exit(number);
}

int main(void)
{
	struct truth_op ops[] = { { .name = "parent_op" }, { .name = "child_op" } };
	struct truth_dev cpu = { .name = "parent" }, all = { .name = "children" };
	int fds[CHILDREN][2], status;
	pid_t pids[CHILDREN];

	truth_ready();
	MEMTRACE_OP_BEGIN("parent_op");
	ops[0].count++;
	for (int i = 0; i < BLOCKS; i++) {
		MEMTRACE_ALLOC(memory[i], 500, MEMTRACE_CPU);
		truth_alloc(&cpu, &ops[0], NULL, 500);
	}
	MEMTRACE_OP_END();
	for (int n = 0; n < CHILDREN; n++) {
		if (pipe(fds[n]))
			return 1;
		pids[n] = fork();
		if (!pids[n])
			child(fds[n][0], n);
		if (pids[n] < 0)
			return 1;
	}
	truth_say("forked");
	for (int n = 0; n < CHILDREN; n++)
		truth_say(" %d", (int)pids[n]);
	truth_say("\n");
	truth_flush();
	truth_wait();
	for (int n = 0; n < CHILDREN; n++) {
		ops[1].count++;
		for (int i = 0; i < BLOCKS / 2; i++)
			truth_alloc(&all, &ops[1], NULL, 1000 * ((uint64_t)n + 1));
		for (int i = 0; i < BLOCKS / 4; i++)
			truth_free(&all, 1000 * ((uint64_t)n + 1));
		all.preexisting_frees += BLOCKS / 2;
		if (write(fds[n][1], "12", 2) != 2)
			return 1;
	}
	for (int n = 0; n < CHILDREN; n++)
		if (waitpid(pids[n], &status, 0) != pids[n] || WEXITSTATUS(status) != n)
			return 1;
	truth_say_devs((struct truth_dev[]){ cpu, all }, 2);
	truth_say_ops("ops", ops, 2);
	truth_end();
	return 0;
}
