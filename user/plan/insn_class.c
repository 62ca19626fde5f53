/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "plan/insn_class.h"

#include <stdio.h>

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
	[INSN_NOP10] = { "ten-byte nop", 12000, 14500, 0 },
	[INSN_RETURN] = { "return probe", 1050, 1050, 1 },
};

const char *insn_class_name(enum insn_class c)
{
	return (unsigned)c < INSN_CLASSES && known[c].name ? known[c].name : "?";
}

const char *insn_verdict_text(enum insn_verdict v)
{
	static const char *const texts[] = {
		[INSN_UNTRIED] = "not tried",
		[INSN_FINE] = "harmless",
		[INSN_NOT_SET] = "cannot be probed",
		[INSN_CHANGES_CHILD] = "harms children that are forked later",
		[INSN_CHANGES_STACK] = "overwrites what functions keep below the stack pointer",
		[INSN_CHANGES_REGS] = "changes registers",
		[INSN_ENDS_CHILD] = "ends children that are forked later",
		[INSN_ENDS_PROCESS] = "ends the process",
	};

	return (unsigned)v < sizeof(texts) / sizeof(*texts) ? texts[v] : "?";
}

int insn_classes_harmful(const struct insn_classes *c, char *buf, size_t size)
{
	size_t at = 0;
	int n = 0;

	buf[0] = '\0';
	for (int i = INSN_NOP5; i < INSN_CLASSES; i++) {
		if (c->of[i].verdict <= INSN_NOT_SET)
			continue;
		at += (size_t)snprintf(buf + at, size - at, "%s%s (%s)", n++ ? ", " : "", insn_class_name((enum insn_class)i),
				       insn_verdict_text(c->of[i].verdict));
		if (at >= size)
			at = size - 1;
	}
	return n;
}

uint32_t insn_classes_usable(const struct insn_classes *c)
{
	uint32_t bits = 0;

	for (int i = INSN_NOP5; i < INSN_CLASSES; i++)
		bits |= c->of[i].is_usable ? 1u << i : 0;
	return bits;
}

struct insn_classes insn_classes_assumed(void)
{
	struct insn_classes ret = { 0 };

	for (int c = INSN_NOP5; c < INSN_CLASSES; c++)
		ret.of[c] = (struct insn_class_fact){ known[c].is_safe, INSN_UNTRIED, known[c].hit_ns, known[c].pair_ns };
	return ret;
}
