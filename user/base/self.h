/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* self: what this very process takes, as each half of memtrace tells of itself. */
#ifndef MT_BASE_SELF_H
#define MT_BASE_SELF_H

#include <stdint.h>

/* CPU time, and resident bytes: 0 where /proc is not to be read. */
void self_usage(uint64_t *ret_cpu_ns, uint64_t *ret_rss);

#endif
