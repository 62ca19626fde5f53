/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* mem: memory of a process, all or nothing; an interface, so that tests and fuzzers can be the process. */
#ifndef MT_PYTHON_MEM_H
#define MT_PYTHON_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct py_mem {
	int (*read)(void *ctx, uint64_t addr, void *buf, size_t len); /* 0, or -EFAULT: not all of it is there */
	void *ctx;
};

/* process_vm_readv; `*pid` is borrowed. */
struct py_mem py_mem_of(const pid_t *pid);

static inline int py_mem__read(const struct py_mem *m, uint64_t addr, void *buf, size_t len)
{
	return m->read(m->ctx, addr, buf, len);
}

/* A pointer that may be followed: aligned, in user space. */
static inline int py_plausible(uint64_t p)
{
	return !(p & 7) && p >= 4096 && p < 1ull << 47;
}

/* A pointer that is there and plausible, or 0. */
static inline uint64_t py_mem__ptr(const struct py_mem *m, uint64_t addr)
{
	uint64_t p = 0;

	return py_mem__read(m, addr, &p, sizeof(p)) || !py_plausible(p) ? 0 : p;
}

#endif
