/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * live: blocks above --min-size that the kernel side knows (bpf/host.bpf.c): those of a process that has ended make room for
 * others. Private to trace/.
 */
#ifndef MT_TRACE_LIVE_H
#define MT_TRACE_LIVE_H

#include <sys/types.h>

struct mt_bpf;

void live_init(struct mt_bpf *skel); /* before it is loaded: the maps in full size */
/* Walks the table if it has blocks of the process: 0.1 s and more where there are a million. */
void live_forget(struct mt_bpf *skel, pid_t pid);

#endif
