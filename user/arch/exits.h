/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * exits: the instructions that a call of a function may return by, its tail calls included, so that its result can be seen
 * without a return probe. Pure over the code that is asked for.
 */
#ifndef MT_ARCH_EXITS_H
#define MT_ARCH_EXITS_H

#include <stddef.h>
#include <stdint.h>

#define EXITS_MAX 64

struct exits_code {
	void *ctx;
	/* The bytes at an address, at most so many; NULL: there are none. */
	const uint8_t *(*bytes)(void *ctx, uint64_t vaddr, size_t most, size_t *ret_len);
	/* Where a jump through this slot of the table of imports goes on; < 0: out of the file. */
	int (*through)(void *ctx, uint64_t slot, uint64_t *ret_vaddr);
};

/*
 * Their addresses, at most EXITS_MAX, into ret. Their number, or -ENOTSUP when control goes where it cannot be followed (a
 * computed jump, another file), -E2BIG when there is too much of it.
 */
int exits_walk(const struct exits_code *code, uint64_t vaddr, uint64_t *ret);

#endif
