/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Where to set a probe so that it costs least and changes nothing.
 *
 * The kernel runs the instruction that a breakpoint has replaced in one of three ways (arch/x86/kernel/uprobes.c): pushes of a
 * register, relative jumps and calls and the one-byte nop are emulated within the trap; a five-byte nop becomes a call without
 * any trap (Linux 6.18 on); all others are executed out of line under single-step, a second trap and twenty times as expensive.
 * glibc's free begins with a test (10 µs a hit); three bytes further is a je (0.5 µs), and every call passes it with the
 * argument still in its register.
 *
 * So: walk from the entry while nothing branches away and nothing writes what is needed, and take the cheapest class of
 * instruction seen, the earliest among those that cost about the same. An instruction that a branch of the function leads back
 * to would be passed more than once a call and is refused. The entry itself needs no such check: a jump there is a call (tail
 * recursion).
 *
 * The call in a five-byte nop's place writes its return address to [rsp - 8], which belongs to the function as soon as it runs:
 * a leaf keeps variables there. It is harmless only as the very first instruction (or directly after the first endbr64): the
 * caller has made a call and no longer keeps anything there, and the function does not yet. That must be certain: the whole
 * function is checked, and a branch back to the nop, an indirect one, or bytes that are no code refuse it. Even there it is
 * used only if this kernel has passed the test (user/trace/selftest.c).
 *
 * Decoding is Zydis's. Not seen: branches from outside the symbol's range (a .cold part that jumps back into a prologue;
 * compilers do not place loop heads there), and those of functions longer than SCAN_BYTES_MAX.
 */
#include "arch/arch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/x86_64/insn.h"

#define WALK_BYTES_MAX 255 /* struct site keeps the distance in 8 bits */
#define SCAN_BYTES_MAX (64u << 10)
#define PAGE	       4096ull
#define REG_BIT(reg)   (1u << (reg))

static const uint8_t arg_regs[MT_ARG_REGS] = {
	MT_REG_RDI, MT_REG_RSI, MT_REG_RDX, MT_REG_RCX, MT_REG_R8, MT_REG_R9,
};

/* --- decoding --------------------------------------------------------------------------------------- */

static int decode(const uint8_t *code, size_t len, struct insn *ret)
{
	ZydisDecoder dec;

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code, len, &ret->d, ret->ops)))
		return -EINVAL;
	return 0;
}

/* --- classes --------------------------------------------------------------------------------------- */

/* As kernels see it: nop proper, and moves and lea of a register to itself. Hints (endbr64, prefetch) do not count. */
static int is_nop(const struct insn *in)
{
	const ZydisDecodedOperandMem *m = &in->ops[1].mem;

	switch (in->d.mnemonic) {
	case ZYDIS_MNEMONIC_NOP: return 1;
	case ZYDIS_MNEMONIC_MOV:
		return in->ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && in->ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       in->ops[0].reg.value == in->ops[1].reg.value;
	case ZYDIS_MNEMONIC_LEA: return m->base == in->ops[0].reg.value && !m->index && !m->disp.value;
	default: return 0;
	}
}

static enum insn_class nop_class(size_t len, uint64_t offset, int is_entry)
{
	if (len == 1)
		return INSN_NOP;
	if (len == 5 && offset % PAGE <= PAGE - len) /* one that spans two pages is not optimised */
		return is_entry ? INSN_NOP5 : INSN_NOP5_INSIDE;
	return len == 10 ? INSN_NOP10 : INSN_STEPPED;
}

static enum insn_class classify(const uint8_t *code, const struct insn *in, uint64_t offset, int is_entry)
{
	size_t len = in->d.length;
	uint8_t op = code[0];

	if (is_nop(in))
		return nop_class(len, offset, is_entry);
	if ((op >= 0x50 && op <= 0x57 && len == 1) ||
	    (op == 0x41 && len == 2 && code[1] >= 0x50 && code[1] <= 0x57))
		return INSN_PUSH;
	if (op == 0xeb || op == 0xe9 || (op >= 0x70 && op <= 0x7f) ||
	    (op == 0x0f && len > 1 && code[1] >= 0x80 && code[1] <= 0x8f))
		return INSN_JUMP;
	if (op == 0xc3)
		return INSN_RET;
	return in->d.meta.category == ZYDIS_CATEGORY_CALL ? INSN_CALL : INSN_STEPPED;
}

/* By a quarter: repeated measurements on one machine differ by less. */
static int is_cheaper(const struct insn_classes *c, enum insn_class a, enum insn_class b)
{
	return c->of[a].hit_ns * 4u < c->of[b].hit_ns * 3u;
}

/* --- what an instruction changes -----------------------------------------------------------------------
 */

/* Can control leave the straight line here? */
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

/* The registers of arguments. */
static uint32_t regs_of(uint32_t args)
{
	uint32_t regs = 0;

	for (unsigned n = 0; n < MT_ARG_REGS; n++)
		regs |= args & ARG_BIT(n) ? REG_BIT(arg_regs[n]) : 0;
	return regs;
}

/* May the walk go past this instruction? */
static int keeps(const struct insn *in, const struct prologue_need *need)
{
	uint32_t regs = written_regs(in);

	if (ends_line(in) || (regs & regs_of(need->args)))
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
			at++; /* a table within the code */
			continue;
		}
		if (in.raw.imm[0].is_relative && at + in.length + (uint64_t)in.raw.imm[0].value.s == wanted)
			return 1;
		at += in.length;
	}
	return 0;
}

/* Is it certain that no branch leads back to the instructions up to `wanted`? len: the whole function. */
static int is_passed_once(const uint8_t *code, size_t len, uint64_t wanted)
{
	size_t at = 0;

	while (at < len) {
		struct insn in;

		if (decode(code + at, len - at, &in) < 0)
			return 0;
		if (in.d.meta.category == ZYDIS_CATEGORY_UNCOND_BR && in.ops[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		    !(in.ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY && in.ops[0].mem.base == ZYDIS_REGISTER_RIP))
			return 0; /* a switch; not a tail call through the table of imports */
		at += in.d.length;
	}
	return !is_branch_target(code, len, wanted) && !is_branch_target(code, len, 0);
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

int prologue_at(const uint8_t *code, size_t code_len, uint64_t offset, const struct insn_classes *classes,
		struct prologue_site *ret)
{
	enum insn_class c;
	struct insn in;

	if (!code_len || decode(code, code_len, &in) < 0)
		return -EINVAL;
	c = classify(code, &in, offset, 0);
	if (!classes->of[c].is_usable)
		return -ENOTSUP;
	ret->skipped = 0;
	ret->insn_class = c;
	text_of(&in, offset, ret->insn, sizeof(ret->insn));
	return 0;
}

struct function {
	const uint8_t *code;
	size_t len; /* available */
	int is_whole;
	uint64_t offset;
};

/* The start of its code: after an endbr64. */
static size_t function__entry(const struct function *f)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return f->len > sizeof(endbr64) && !memcmp(f->code, endbr64, sizeof(endbr64)) ? sizeof(endbr64) : 0;
}

/* May there be a probe on the instruction at `at`, of class c? */
static int function__allows(const struct function *f, size_t at, enum insn_class c, const struct insn_classes *classes)
{
	if (!classes->of[c].is_usable)
		return 0;
	if (c == INSN_NOP5)
		return f->is_whole && f->len <= SCAN_BYTES_MAX && is_passed_once(f->code, f->len, at);
	return !at || !is_branch_target(f->code, f->len, at);
}

int prologue_pick(const uint8_t *code, size_t code_len, uint64_t sym_size, uint64_t offset,
		  const struct prologue_need *need, const struct insn_classes *classes, struct prologue_site *ret)
{
	struct function f = { code, sym_size < code_len ? sym_size : code_len, sym_size && sym_size <= code_len, offset };
	struct prologue_site best = { 0 };
	size_t at = 0, len = f.len;

	for (;;) {
		enum insn_class c;
		struct insn in;

		if ((at && at >= len) || at > WALK_BYTES_MAX || decode(code + at, (at ? len : code_len) - at, &in) < 0)
			break;
		c = classify(code + at, &in, offset + at, at == function__entry(&f));
		if ((!best.insn_class || is_cheaper(classes, c, best.insn_class)) && function__allows(&f, at, c, classes)) {
			best.skipped = (uint32_t)at;
			best.insn_class = c;
			text_of(&in, offset + at, best.insn, sizeof(best.insn));
		}
		at += in.d.length;
		if (!keeps(&in, need))
			break;
	}
	if (!best.insn_class)
		return at ? -ENOTSUP : -EINVAL;
	*ret = best;
	return 0;
}
