/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* self: this process's own usage, which each half of memtrace reports. */
#ifndef MT_BASE_SELF_H
#define MT_BASE_SELF_H

#include <stdint.h>

/* CPU time, and resident bytes: 0 if /proc cannot be read. */
void self_usage(uint64_t *ret_cpu_ns, uint64_t *ret_rss);

#endif
