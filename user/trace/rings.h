/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * rings: all rings between the kernel and us: how many and how large, and the order of reading.
 *
 * A call of rings__drain reads what was in the rings when it began, for as long as it may. Each ring has its share of that
 * time, then the next one has its turn, and the next call begins where the last one ended: a flood fills only its own ring, and
 * the others are read meanwhile.
 */
#ifndef MT_TRACE_RINGS_H
#define MT_TRACE_RINGS_H

#include "memtrace/shared.h"
#include "trace/ring.h"

struct drained; /* trace/trace.h */

struct rings {
	struct ring v[MT_RINGS_MAX];
	unsigned cnt, turn; /* turn: index of the ring whose share is next */
};

void rings__init(struct rings *rs); /* none */
void rings__done(struct rings *rs);
/* Adds a ring, which takes ownership of fd. 0 or -errno. */
int rings__add(struct rings *rs, int fd, size_t size);
/* Passes records to fn for budget_ns at most (UINT64_MAX: all present). Returns how many, or fn's first negative result. */
long rings__drain(struct rings *rs, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  struct drained *ret);

struct rings_size {
	unsigned cnt; /* both are powers of two */
	size_t bytes; /* of each */
};
/* For this many CPUs: `asked` bytes together, or with 0 as rings.c computes it from the memory of the machine (or cgroup). */
struct rings_size rings_size(uint64_t asked, unsigned cpus, uint64_t memory);
/* The machine's memory, or less where a cgroup limits ours. */
uint64_t rings_memory(void);

#endif
