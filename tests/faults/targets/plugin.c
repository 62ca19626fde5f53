// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* plugin.so: a library with a probe, which storm loads and unloads. Returns how many allocations it told. */
#include "memtrace/usdt.h"

int plugin_give(void *ptr, size_t size);

int plugin_give(void *ptr, size_t size)
{
	if (!MEMTRACE_ALLOC_WATCHED())
		return 0;
	MEMTRACE_ALLOC(ptr, size, 7);
	return 1;
}
