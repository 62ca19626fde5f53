/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* mem: memory of a process, all or nothing; an interface, so that tests and fuzzers can be the process. */
#ifndef MT_PYTHON_MEM_H
#define MT_PYTHON_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PY_RANGES_MAX 64

struct py_mem {
	int (*read)(void *ctx, uint64_t addr, void *buf, size_t len); /* 0, or -EFAULT: not all of it is there */
	void *ctx;
	/* All of them, one behind the other; may be NULL: one by one then. */
	int (*read_ranges)(void *ctx, const struct iovec *ranges, size_t cnt, void *buf, size_t len);
};

struct target;

/* A process's own, through target__read; borrowed. */
struct py_mem py_mem_of(const struct target *t);

static inline int py_mem__read(const struct py_mem *m, uint64_t addr, void *buf, size_t len)
{
	return m->read(m->ctx, addr, buf, len);
}

/* `cnt` ranges, PY_RANGES_MAX at most, that are `len` bytes together. */
static inline int py_mem__read_ranges(const struct py_mem *m, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	int r = 0;

	if (m->read_ranges)
		return m->read_ranges(m->ctx, ranges, cnt, buf, len);
	for (size_t i = 0, at = 0; i < cnt && !r; at += ranges[i++].iov_len)
		r = m->read(m->ctx, (uint64_t)(uintptr_t)ranges[i].iov_base, (char *)buf + at, ranges[i].iov_len);
	return r;
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
