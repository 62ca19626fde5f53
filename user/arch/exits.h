/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * exits: the instructions by which a call of a function may return, those of its tail calls included, so that its result can be
 * seen without a return probe. Pure over the code that the callback returns.
 */
#ifndef MT_ARCH_EXITS_H
#define MT_ARCH_EXITS_H

#include <stddef.h>
#include <stdint.h>

#define EXITS_MAX 64

struct exits_code {
	void *ctx;
	/* The bytes at an address, at most this many; NULL: none. */
	const uint8_t *(*bytes)(void *ctx, uint64_t vaddr, size_t most, size_t *ret_len);
	/* The target of a jump through this slot of the table of imports; < 0: outside of the file. */
	int (*through)(void *ctx, uint64_t slot, uint64_t *ret_vaddr);
};

/*
 * Their addresses, at most EXITS_MAX, into ret. Returns their number, or -ENOTSUP if control flow cannot be followed (a
 * computed jump, another file), -E2BIG if there is too much code.
 */
int exits_walk(const struct exits_code *code, uint64_t vaddr, uint64_t *ret);

#endif
