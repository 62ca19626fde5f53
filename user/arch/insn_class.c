/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "arch/insn_class.h"

#include <stdio.h>

const char *insn_class_name(enum insn_class c)
{
	return (unsigned)c < INSN_CLASSES && insn_known[c].name ? insn_known[c].name : "?";
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
		ret.of[c] = (struct insn_class_fact){ insn_known[c].is_safe, INSN_UNTRIED, insn_known[c].hit_ns,
						      insn_known[c].pair_ns };
	return ret;
}
