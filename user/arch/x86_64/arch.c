/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "arch/arch.h"

#include <elf.h>

const struct arch arch = {
	.name = "x86-64",
	.machine = "x86_64",
	.elf_machine = EM_X86_64,
	.elf_other = "it is for another processor than x86-64",
	.dwarf_regs = {
		[3] = 1 + MT_STACK_RBX, [6] = 1 + MT_STACK_RBP, [7] = 1 + MT_STACK_SP, [12] = 1 + MT_STACK_R12,
		[13] = 1 + MT_STACK_R13, [14] = 1 + MT_STACK_R14, [15] = 1 + MT_STACK_R15, [16] = 1 + MT_STACK_PC,
	},
	.dwarf_return = 16,
	/* rsp + 8, and 8 more from the 11th byte of an entry of 16 on */
	.plt_cfa = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 },
	.plt_cfa_len = 11,
	.shadow_status = { "x86_Thread_features:", "shstk" },
	.shadow_cpuinfo = { "flags", "user_shstk" },
	.pthread_specific = 0x510, /* 2.34 to 2.40 at least */
};

int arch__ready(struct err *err)
{
	(void)err;
	return 0;
}

uint64_t arch__plt_shift(uint64_t pc)
{
	return (pc & 15) >= 11 ? 8 : 0;
}
