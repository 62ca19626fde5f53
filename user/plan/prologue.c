/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Where to set a probe so that it costs least.
 *
 * The kernel runs the instruction that a breakpoint has replaced in one of three ways
 * (arch/x86/kernel/uprobes.c): a five-byte nop becomes a call without any trap (Linux 6.18 on); pushes
 * of a register, relative jumps and calls and the one-byte nop are emulated within the trap; all others
 * are executed out of line under single-step, a second trap and twenty times dearer. glibc's free
 * begins with a test (10 µs a hit); three bytes on stands a je (0.5 µs), and every call passes it with
 * the argument still in its register.
 *
 * So: walk from the entry while nothing branches away and nothing writes what is needed, and take
 * the cheapest instruction seen, the earliest among equals. An instruction that a branch of the
 * function leads back to would be passed more than once a call and is refused. The entry itself
 * needs no such check: a jump there is a call (tail recursion).
 *
 * Decoding is Zydis's. Not seen: branches from outside the symbol's range (a .cold part that jumps back
 * into a prologue; compilers do not place loop heads there), and those of functions longer than
 * SCAN_BYTES_MAX.
 */
#include "plan/prologue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <Zydis/Zydis.h>

#define WALK_BYTES_MAX 255 /* struct site keeps the distance in 8 bits */
#define SCAN_BYTES_MAX (64u << 10)
#define PAGE	       4096ull

/* Measured on Linux 6.18, x86-64, in a virtual machine (best of 5); calibration measures its own. */
static const struct {
	uint16_t entry, pair;
} costs_ns[] = {
	[INSN_NOP5] = { 320, 600 },
	[INSN_NOP] = { 650, 980 },
	[INSN_EMULATED] = { 550, 1050 },
	[INSN_STEPPED] = { 12000, 14500 },
};

unsigned insn_class_cost_ns(enum insn_class c, int is_ret)
{
	if (c < INSN_NOP5 || c > INSN_STEPPED)
		c = INSN_STEPPED;
	return is_ret ? costs_ns[c].pair : costs_ns[c].entry;
}

/* --- classes --------------------------------------------------------------------------------------- */

static int is_nop5(const uint8_t *code, size_t len)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	return len == sizeof(nop5) && !memcmp(code, nop5, sizeof(nop5));
}

static enum insn_class classify(const uint8_t *code, size_t len, uint64_t offset, int has_nop5)
{
	uint8_t op = code[0];

	if (is_nop5(code, len)) /* one that spans two pages is not optimised */
		return has_nop5 && offset % PAGE <= PAGE - len ? INSN_NOP5 : INSN_STEPPED;
	if (op == 0x90 && len == 1)
		return INSN_NOP;
	if (op >= 0x50 && op <= 0x57 && len == 1)
		return INSN_EMULATED;
	if (op == 0x41 && len == 2 && code[1] >= 0x50 && code[1] <= 0x57)
		return INSN_EMULATED;
	if (op == 0xeb || op == 0xe9 || op == 0xe8 || (op >= 0x70 && op <= 0x7f))
		return INSN_EMULATED;
	if (op == 0x0f && len > 1 && code[1] >= 0x80 && code[1] <= 0x8f)
		return INSN_EMULATED;
	return INSN_STEPPED;
}

/* --- what an instruction changes -----------------------------------------------------------------------
 */

struct insn {
	ZydisDecodedInstruction d;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

static int decode(const uint8_t *code, size_t len, struct insn *ret)
{
	ZydisDecoder dec;

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code, len, &ret->d, ret->ops)))
		return -EINVAL;
	return 0;
}

/* Does control leave the straight line here, for good or perhaps? */
static int ends_line(const struct insn *in)
{
	switch (in->d.meta.category) {
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_SYSTEM: return 1;
	default: break;
	}
	return in->d.mnemonic == ZYDIS_MNEMONIC_UD0 || in->d.mnemonic == ZYDIS_MNEMONIC_UD1 ||
	       in->d.mnemonic == ZYDIS_MNEMONIC_UD2 || in->d.mnemonic == ZYDIS_MNEMONIC_XBEGIN;
}

static uint32_t written_regs(const struct insn *in)
{
	uint32_t regs = 0;

	for (int i = 0; i < in->d.operand_count; i++) {
		const ZydisDecodedOperand *op = &in->ops[i];
		ZydisRegister full;

		if (op->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		full = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, op->reg.value);
		if (full >= ZYDIS_REGISTER_RAX && full <= ZYDIS_REGISTER_R15)
			regs |= REG_BIT(full - ZYDIS_REGISTER_RAX); /* both in the order of the encoding */
	}
	return regs;
}

/* May the walk go past this instruction? */
static int keeps(const struct insn *in, const struct prologue_need *need)
{
	uint32_t regs = written_regs(in);

	if (ends_line(in) || (regs & need->regs))
		return 0;
	if (!(regs & REG_BIT(MT_REG_RSP)))
		return 1;
	return !need->needs_ret_addr && in->d.mnemonic == ZYDIS_MNEMONIC_PUSH;
}

/* --- loop heads ----------------------------------------------------------------------------------------
 */

static int is_branch_target(const uint8_t *code, size_t len, uint64_t wanted)
{
	ZydisDecoder dec;
	size_t at = 0;

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return 1;
	if (len > SCAN_BYTES_MAX)
		len = SCAN_BYTES_MAX;
	while (at < len) {
		ZydisDecodedInstruction in;

		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&dec, NULL, code + at, len - at, &in))) {
			at++; /* a table between the code */
			continue;
		}
		if (in.raw.imm[0].is_relative && at + in.length + (uint64_t)in.raw.imm[0].value.s == wanted)
			return 1;
		at += in.length;
	}
	return 0;
}

/* --- picking ---------------------------------------------------------------------------------------------
 */

/* As objdump prints it: "je 0x98fb8", not "jz 0x0000000000098FB8". */
static void text_of(const struct insn *in, uint64_t offset, char *buf, size_t size)
{
	ZydisFormatter f;

	buf[0] = '\0';
	if (in->d.mnemonic == ZYDIS_MNEMONIC_NOP && in->d.length > 1) {
		snprintf(buf, size, "nop (%u bytes)", in->d.length);
		return;
	}
	if (!ZYAN_SUCCESS(ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_ATT)))
		return;
	(void)ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
	(void)ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
					ZYDIS_PADDING_DISABLED);
	(void)ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED);
	(void)ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_IMM_PADDING, ZYDIS_PADDING_DISABLED);
	(void)ZydisFormatterFormatInstruction(&f, &in->d, in->ops, in->d.operand_count_visible, buf, size,
					      offset, NULL);
	buf[size - 1] = '\0';
	if (!strncmp(buf, "jz ", 3))
		buf[1] = 'e';
	else if (!strncmp(buf, "jnz ", 4))
		buf[2] = 'e';
}

int prologue_at(const uint8_t *code, size_t code_len, uint64_t offset, int has_nop5,
		struct prologue_site *ret)
{
	struct insn in;

	if (!code_len || decode(code, code_len, &in) < 0)
		return -EINVAL;
	ret->skipped = 0;
	ret->insn_class = classify(code, in.d.length, offset, has_nop5);
	text_of(&in, offset, ret->insn, sizeof(ret->insn));
	return 0;
}

int prologue_pick(const uint8_t *code, size_t code_len, uint64_t sym_size, uint64_t offset,
		  const struct prologue_need *need, int has_nop5, struct prologue_site *ret)
{
	size_t len = sym_size < code_len ? sym_size : code_len, at = 0;
	struct prologue_site best;
	int r = prologue_at(code, code_len, offset, has_nop5, &best);

	if (r < 0)
		return r;
	while (at < len && at <= WALK_BYTES_MAX) {
		enum insn_class c;
		struct insn in;

		if (decode(code + at, len - at, &in) < 0)
			break;
		c = classify(code + at, in.d.length, offset + at, has_nop5);
		if (insn_class_cost_ns(c, 0) < insn_class_cost_ns(best.insn_class, 0) &&
		    !is_branch_target(code, len, at)) {
			best.skipped = (uint32_t)at;
			best.insn_class = c;
			text_of(&in, offset + at, best.insn, sizeof(best.insn));
		}
		if (!keeps(&in, need))
			break;
		at += in.d.length;
	}
	*ret = best;
	return 0;
}
