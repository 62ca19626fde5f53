// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_exec: allocates, becomes itself anew by exec (the same pid, other memory, fresh probes), and
 * allocates again once the tracer has found the probes of the new image. What lived before the exec
 * is gone without a free.
 */
#include "memtrace/usdt.h"
#include "truth.h"

#define BLOCKS 50

static char memory[BLOCKS][64];

/* Frees half of what it allocates. `tell` = 0: only the truth, for what the image before did. */
static void run(struct truth_dev *cpu, struct truth_op *op, uint64_t size, int tell)
{
	if (tell)
		MEMTRACE_OP_BEGIN(op->name);
	op->count++;
	for (int i = 0; i < BLOCKS; i++) {
		if (tell)
			MEMTRACE_ALLOC(memory[i], size, MEMTRACE_CPU);
		truth_alloc(cpu, op, NULL, size);
	}
	if (tell)
		MEMTRACE_OP_END();
	for (int i = 0; i < BLOCKS / 2; i++) {
		if (tell)
			MEMTRACE_FREE(memory[i], MEMTRACE_CPU);
		truth_free(cpu, size);
	}
}

int main(int argc, char **argv)
{
	struct truth_op ops[] = { { .name = "before_exec" }, { .name = "after_exec" } };
	struct truth_dev cpu = { .name = "cpu" };

	if (argc == 1) {
		truth_ready();
		run(&cpu, &ops[0], 100, 1);
		execl("/proc/self/exe", argv[0], "again", (char *)NULL);
		return 1;
	}
	truth_wait_for(&memtrace_op_begin_semaphore, "op_begin after the exec");
	truth_wait_for(&memtrace_op_end_semaphore, "op_end after the exec");
	truth_wait_for(&memtrace_free_semaphore, "free after the exec");
	truth_wait_for(&memtrace_alloc_semaphore, "alloc after the exec");
	run(&cpu, &ops[0], 100, 0);
	cpu.live = 0; /* the exec took the other half */
	run(&cpu, &ops[1], 300, 1);
	truth_say_devs(&cpu, 1);
	truth_say_ops("ops", ops, 2);
	truth_end();
	return 0;
}
