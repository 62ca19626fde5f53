/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * elf_cfi: how to get from a frame to its caller, from a file's .eh_frame (DWARF call frame information). Not libdw: one row
 * costs some 100 ns here and none of the file is copied; and every bound is ours to check and to fuzz.
 *
 * Supported are the rules that compilers and linkers write: CFA = register + offset, one memory word at register + offset
 * (realigned stacks), the form of procedure linkage tables; registers saved at CFA + offset or register + offset. Anything else
 * is refused (-ENOTSUP), never guessed.
 */
#ifndef MT_TARGET_ELF_CFI_H
#define MT_TARGET_ELF_CFI_H

#include <stdint.h>

#include "memtrace/arch.h"

struct elf;

#define CFI_OTHER MT_STACK_REGS /* a register that stacks are not unwound from (enum mt_stack_reg) */

enum cfi_how {
	CFI_SAME = 0,	/* unchanged */
	CFI_AT_CFA,	/* in memory at CFA + off */
	CFI_AT_REG,	/* in memory at reg + off */
	CFI_UNDEFINED,	/* lost; of the program counter: this frame is the outermost */
};

enum cfi_cfa { CFI_CFA_REG = 0, CFI_CFA_DEREF, CFI_CFA_PLT };

struct cfi_rule {
	int32_t off;
	uint8_t how; /* enum cfi_how */
	uint8_t reg; /* enum mt_stack_reg */
};

struct cfi_row {
	struct cfi_rule regs[MT_STACK_REGS]; /* the stack pointer's is not used: it becomes the CFA */
	int32_t cfa_off;
	uint8_t cfa;	 /* enum cfi_cfa */
	uint8_t cfa_reg; /* enum mt_stack_reg */
	uint8_t is_signal; /* frame of a signal handler's caller: its address is not after a call */
};

/* The row that holds at vaddr. 0, -ENOENT: no information about it, -ENOTSUP, -EBADMSG: damaged. */
int elf__cfi(const struct elf *e, uint64_t vaddr, struct cfi_row *ret);

#endif
