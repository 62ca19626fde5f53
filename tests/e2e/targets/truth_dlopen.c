// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_dlopen PLUGIN: loads a library with usdt.h probes after the go, waits until a tracer has
 * found them (the library's own counter says so), and allocates through it. The program itself has
 * one probed block, so that a tracer has something to attach to before.
 */
#include <dlfcn.h>

#include "memtrace/usdt.h"
#include "truth.h"
#include "truth_plugin.h"

#define BLOCKS 200

static char memory[BLOCKS + 1][64];

static void *need(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		abort();
	return p;
}

int main(int argc, char **argv)
{
	struct truth_op ops[] = { { .name = "plugin_op" }, { .name = "none" } };
	struct truth_dev cpu = { .name = "cpu" };
	const volatile unsigned short *(*counter)(int);
	void (*op_begin)(const char *);
	void (*op_end)(void);
	void (*give)(void *, size_t);
	void (*take)(void *);
	void *lib;

	if (argc != 2)
		return 2;
	truth_ready();
	MEMTRACE_ALLOC(memory[BLOCKS], 64, MEMTRACE_CPU);
	truth_alloc(&cpu, &ops[1], NULL, 64);
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib)
		return 1;
	*(void **)&counter = need(lib, "plugin_counter");
	*(void **)&op_begin = need(lib, "plugin_op_begin");
	*(void **)&op_end = need(lib, "plugin_op_end");
	*(void **)&give = need(lib, "plugin_alloc");
	*(void **)&take = need(lib, "plugin_free");
	for (int i = 0; i < 4; i++)
		truth_wait_for(counter(i), "the plugin");
	for (size_t i = 0; i < BLOCKS; i++) {
		op_begin(ops[0].name);
		ops[0].count++;
		give(memory[i], 100 + i);
		truth_alloc(&cpu, &ops[0], NULL, 100 + i);
		op_end();
		if (i % 3 == 0) {
			take(memory[i]);
			truth_free(&cpu, 100 + i);
		}
	}
	truth_say_devs(&cpu, 1);
	truth_say_ops("ops", ops, 1);
	truth_say_ops("no_op", ops + 1, 1);
	truth_end();
	return 0;
}
