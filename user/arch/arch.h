/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * arch: everything in user space that depends on the processor, behind one header. x86_64/, arm64/ … implement it; make's ARCH
 * chooses one.
 *
 * Pure: bytes in, facts out. The part for BPF programs is bpf/lib/args.h; for both sides, memtrace/arch.h.
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
	const char *machine;	/* as uname prints it */
	uint16_t elf_machine;
	const char *elf_other;	/* the message for a file of another machine */
	/* call frame information: enum mt_stack_reg + 1 by DWARF's number (0: another register), the return address's column */
	uint8_t dwarf_regs[48], dwarf_return;
	/* The expression that linkers write for the table of imports; len 0: none. */
	uint8_t plt_cfa[16], plt_cfa_len;
	/* The line and word in /proc that show that a process has a shadow stack, and that the machine has them; NULL: none. */
	const char *shadow_status[2], *shadow_cpuinfo[2];
	uint16_t pthread_specific; /* glibc: offset in struct pthread, if its libc does not have it */
};
extern const struct arch arch;

/* Can this processor's programs be traced? 0, or -ENOTSUP with *err. */
int arch__ready(struct err *err);
/* What the expression for the table of imports adds to stack pointer + a word, at that instruction. */
uint64_t arch__plt_shift(uint64_t pc);

#endif
