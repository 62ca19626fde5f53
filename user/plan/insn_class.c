/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "plan/insn_class.h"

/* Measured on Linux 6.18, x86-64, in a virtual machine (best of 5). */
static const struct {
	const char *name;
	uint16_t hit_ns, pair_ns;
	uint8_t is_safe; /* whatever the kernel */
} known[INSN_CLASSES] = {
	[INSN_NOP5] = { "five-byte nop at an entry", 320, 600, 0 }, /* 6.18: children forked afterwards die there */
	[INSN_NOP] = { "nop", 650, 980, 1 },
	[INSN_PUSH] = { "push", 550, 1050, 1 },
	[INSN_STEPPED] = { "single-stepped", 12000, 14500, 1 },
	[INSN_JUMP] = { "jump", 550, 1050, 1 },
	[INSN_CALL] = { "call", 550, 1050, 1 },
	[INSN_RET] = { "ret", 12000, 14500, 1 },
	[INSN_NOP5_INSIDE] = { "five-byte nop inside", 320, 600, 0 },
	[INSN_NOP10] = { "ten-byte nop", 12000, 14500, 1 },
	[INSN_RETURN] = { "return probe", 1050, 1050, 1 },
};

const char *insn_class_name(enum insn_class c)
{
	return (unsigned)c < INSN_CLASSES && known[c].name ? known[c].name : "?";
}

struct insn_classes insn_classes_assumed(void)
{
	struct insn_classes ret = { 0 };

	for (int c = INSN_NOP5; c < INSN_CLASSES; c++)
		ret.of[c] = (struct insn_class_fact){ known[c].is_safe, known[c].hit_ns, known[c].pair_ns };
	return ret;
}
