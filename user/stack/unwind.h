/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * unwind: from registers and a copied piece of a thread's stack to the calls that are open on it. Pure: rules come from a
 * callback, memory only from the copy.
 */
#ifndef MT_STACK_UNWIND_H
#define MT_STACK_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "memtrace/event.h"
#include "target/elf_cfi.h"

#define UNWIND_MAX 128

struct unwind {
	uint64_t regs[MT_STACK_REGS];
	int is_return;	      /* the program counter is a return address, not the instruction being executed */
	const uint8_t *bytes; /* from the stack pointer upwards */
	size_t bytes_cnt;
	/* The rule at a code address; < 0: unknown. */
	int (*row)(void *ctx, uint64_t pc, struct cfi_row *ret);
	void *ctx;
};

/*
 * Code addresses, innermost first; for callers an address inside of the call (the return address - 1). *ret_cut: the outermost
 * is not the thread's first. Ends when the copy ends, or a rule is missing or invalid.
 */
size_t unwind(const struct unwind *u, uint64_t *pcs, size_t max, int *ret_cut);

#endif
