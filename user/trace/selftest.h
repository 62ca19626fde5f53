/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * selftest: which instructions this kernel can probe without harm, and the cost of a hit, found by running each (try.h):
 * without and with a probe, with signals coming in between whose handler runs them too, and in a child forked after they were
 * hit.
 *
 * All of it happens in forked children of memtrace: a kernel that breaks them breaks only a child, and that is the verdict.
 * Where the kernel runs a class of instruction with harm, memtrace probes none of that class.
 */
#ifndef MT_TRACE_SELFTEST_H
#define MT_TRACE_SELFTEST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"

struct selftest_ops {
	/* An operator's entry, or a return probe, in process `pid` at file offsets of our own program: 0 or -errno. */
	int (*attach)(void *ctx, pid_t pid, const char *path, const uint64_t *offsets, size_t cnt, int is_ret);
	void (*detach)(void *ctx, pid_t pid);
	void (*discard)(void *ctx); /* discards waiting records */
	void *ctx;
};

/* Takes 10 to 20 ms. 0 or -errno: it could not be run. */
int selftest_run(struct insn_classes *ret, const struct selftest_ops *ops);

#endif
