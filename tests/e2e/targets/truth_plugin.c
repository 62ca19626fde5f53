// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* truth_plugin.so: a library with probes of its own, which truth_dlopen loads while it is traced. */
#include "memtrace/usdt.h"
#include "truth_plugin.h"

const volatile unsigned short *plugin_counter(int i)
{
	const volatile unsigned short *all[] = { &memtrace_op_begin_semaphore, &memtrace_op_end_semaphore,
						 &memtrace_alloc_semaphore, &memtrace_free_semaphore };

	return all[i];
}

void plugin_op_begin(const char *name)
{
	MEMTRACE_OP_BEGIN(name);
}

void plugin_op_end(void)
{
	MEMTRACE_OP_END();
}

void plugin_alloc(void *ptr, size_t size)
{
	MEMTRACE_ALLOC(ptr, size, MEMTRACE_CPU);
}

void plugin_free(void *ptr)
{
	MEMTRACE_FREE(ptr, MEMTRACE_CPU);
}
