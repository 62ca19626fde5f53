/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * others: does another memtrace have probes in a process, whichever user runs it? Read from the kernel's own list of links,
 * which cannot be forged without the right to set probes, and which is one for all users and containers.
 */
#ifndef MT_TRACE_OTHERS_H
#define MT_TRACE_OTHERS_H

#include <sys/types.h>

/*
 * Call it before we have probes in the process. 1; 0: none, or unknown: before kernel 6.8, without uprobe_multi, without
 * CAP_SYS_ADMIN. A link takes some 5 us.
 */
int others_trace(pid_t pid);

#endif
