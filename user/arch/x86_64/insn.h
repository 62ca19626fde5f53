/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* insn: an instruction that Zydis has decoded, with its operands. */
#ifndef MT_ARCH_X86_64_INSN_H
#define MT_ARCH_X86_64_INSN_H

#include <Zydis/Zydis.h>

struct insn {
	ZydisDecodedInstruction d;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

#endif
