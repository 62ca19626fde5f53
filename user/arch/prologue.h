/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * prologue: the cheapest instruction at a function's beginning to probe instead of the first one.
 *
 * Pure over bytes. The instruction chosen is passed exactly once by every call, with the required registers as they were at the
 * entry, and a probe on it changes nothing that the function can see. When in doubt it is the first one, unless that is a nop
 * which the kernel would replace by a call.
 */
#ifndef MT_ARCH_PROLOGUE_H
#define MT_ARCH_PROLOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "arch/insn_class.h"
#include "memtrace/arch.h"

/* Integer arguments by number. */
#define ARG_BIT(n) (1u << (n))
#define ARG_BEHIND_RESULT(n) ARG_BIT((n) + MT_ARGS_HIDDEN) /* of a function whose caller passes the place of the result */
#define ARGS_ALL (ARG_BIT(MT_ARG_REGS) - 1)
#define SITE_INSN_LEN 48

/* What a program needs at its site. */
struct prologue_need {
	uint32_t args;	    /* ARG_BIT()s that must be as at the entry */
	int needs_ret_addr; /* the stack pointer must be as at the entry, too; else pushes may have moved it */
};

struct prologue_site {
	uint32_t skipped; /* bytes after the entry */
	enum insn_class insn_class;
	char insn[SITE_INSN_LEN]; /* as objdump has it */
};

/*
 * code: the function's bytes, code_len of them available, sym_size from its symbol (0 = unknown: only the first instruction is
 * considered). offset: file offset of code, congruent to its address modulo the page size. classes: what can be probed on this
 * kernel, and at what cost. 0; -EINVAL: the first instruction cannot be decoded; -ENOTSUP: none can be probed without harm.
 */
int prologue_pick(const uint8_t *code, size_t code_len, uint64_t sym_size, uint64_t offset,
		  const struct prologue_need *need, const struct insn_classes *classes, struct prologue_site *ret);
/* The instruction at a given place inside a function: for USDT sites. */
int prologue_at(const uint8_t *code, size_t code_len, uint64_t offset, const struct insn_classes *classes,
		struct prologue_site *ret);

#endif
