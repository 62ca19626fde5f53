/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * arch: all that user space knows of a processor, behind one header. x86_64/, arm64/ … have it; make's ARCH chooses one.
 *
 * Pure: bytes in, facts out. What BPF programs know is bpf/lib/args.h; what both sides do, memtrace/arch.h.
 */
#ifndef MT_ARCH_ARCH_H
#define MT_ARCH_ARCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/calls.h"
#include "arch/code.h"
#include "arch/exits.h"
#include "arch/guard.h"
#include "arch/insn_class.h"
#include "arch/own.h"
#include "arch/prologue.h"
#include "arch/sdt_args.h"
#include "arch/try.h"

struct err;

struct arch {
	const char *name;	/* for people */
	const char *machine;	/* as uname says it */
	uint16_t elf_machine;
	const char *elf_other;	/* what is said of a file of another machine */
	/* call frame information: enum mt_stack_reg + 1 by DWARF's number (0: another register), the return address's column */
	uint8_t dwarf_regs[48], dwarf_return;
	/* The expression that linkers write of the table of imports; len 0: none. */
	uint8_t plt_cfa[16], plt_cfa_len;
	/* Where /proc says that a process has a shadow stack, and that the machine has them: line and word; NULL: nowhere. */
	const char *shadow_status[2], *shadow_cpuinfo[2];
	uint16_t pthread_specific; /* glibc: of struct pthread, where its libc does not say it */
};
extern const struct arch arch;

/* Can this processor's programs be traced? 0, or -ENOTSUP and says so. */
int arch__ready(struct err *err);
/* What the expression of the table of imports adds to stack pointer + a word, at that instruction. */
uint64_t arch__plt_shift(uint64_t pc);

#endif
