/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "arch/arch.h"

/* Measured on Linux 6.18 in a virtual machine (best of 5). */
const struct insn_known insn_known[INSN_CLASSES] = {
	[INSN_NOP5] = { "five-byte nop at an entry", 320, 600, 0 }, /* 6.18: it ends children that are forked afterwards */
	[INSN_NOP] = { "nop", 650, 980, 1 },
	[INSN_PUSH] = { "push", 550, 1050, 1 },
	[INSN_STEPPED] = { "single-stepped", 12000, 14500, 1 },
	[INSN_JUMP] = { "jump", 550, 1050, 1 },
	[INSN_CALL] = { "call", 550, 1050, 1 },
	[INSN_RET] = { "ret", 12000, 14500, 1 },
	[INSN_NOP5_INSIDE] = { "five-byte nop inside", 320, 600, 0 },
	[INSN_NOP10] = { "ten-byte nop", 12000, 14500, 0 },
	[INSN_RETURN] = { "return probe", 1050, 1050, 1 },
};
