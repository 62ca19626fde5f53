/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "arch/arch.h"

#include <errno.h>
#include <string.h>

#include <Zydis/Zydis.h>

/* --- fields of an object ---------------------------------------------------------------------------------- */

static uint32_t reg_bit(ZydisRegister reg)
{
	ZydisRegister r = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	return r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15 ? 1u << (r - ZYDIS_REGISTER_RAX) : 0;
}

/* A callee may change all registers but rbx, rsp, rbp, r12 to r15. */
#define KEPT_BY_CALLS 0xf038u

/* One instruction; `holds`: the registers with the object's address; returns those after it. */
static uint32_t fields__insn(struct code_fields *f, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
			     uint32_t holds)
{
	uint32_t after = in->meta.category == ZYDIS_CATEGORY_CALL ? holds & KEPT_BY_CALLS : holds;
	int is_copy = in->mnemonic == ZYDIS_MNEMONIC_MOV && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		      ops[1].size == 64 && (reg_bit(ops[1].reg.value) & holds);

	for (int i = 0; i < in->operand_count; i++) {
		const ZydisDecodedOperand *o = &ops[i];
		int64_t at;

		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER && (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) {
			after &= ~reg_bit(o->reg.value);
			if (is_copy && i == 0)
				after |= reg_bit(o->reg.value);
		}
		if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || o->mem.index != ZYDIS_REGISTER_NONE ||
		    !(reg_bit(o->mem.base) & holds))
			continue;
		at = o->mem.disp.value;
		if (f->first < 0)
			f->first = at;
		if (at >= 0 && at < CODE_FIELDS_BYTES)
			f->bytes[at] |= (uint8_t)(o->size / 8);
	}
	return after;
}

static uint32_t arg_bit(unsigned arg)
{
	static const ZydisRegister args[MT_ARG_REGS] = {
		ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDX,
		ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_R8,	ZYDIS_REGISTER_R9,
	};

	return arg < MT_ARG_REGS ? reg_bit(args[arg]) : 0;
}

void code_fields(const uint8_t *code, size_t len, unsigned arg, int max, struct code_fields *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;
	uint32_t holds = arg_bit(arg);
	ZydisDecoder dec;
	size_t at = 0;

	*ret = (struct code_fields){ .first = -1 };
	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return;
	for (int n = 0; n < max && at < len && holds; n++, at += in.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code + at, len - at, &in, ops)))
			return;
		holds = fields__insn(ret, &in, ops, holds);
	}
}

static void uses__operand(struct code_uses *u, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *o)
{
	int64_t at = o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? o->imm.value.s : o->mem.disp.value;

	if (at < 0 || at >= CODE_FIELDS_BYTES)
		return;
	if (o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && in->mnemonic == ZYDIS_MNEMONIC_ADD)
		u->steps[at] = 1;
	if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || !reg_bit(o->mem.base) || o->mem.base == ZYDIS_REGISTER_RSP ||
	    o->mem.index != ZYDIS_REGISTER_NONE)
		return;
	if (o->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		u->steps[at] = 1;
	else
		u->bytes[at] |= (uint8_t)(o->size / 8);
}

void code_uses(const uint8_t *code, size_t len, struct code_uses *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;
	ZydisDecoder dec;

	*ret = (struct code_uses){ 0 };
	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return;
	for (size_t at = 0; at < len; at += in.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code + at, len - at, &in, ops)))
			return;
		for (int i = 0; i < in.operand_count; i++)
			uses__operand(ret, &in, &ops[i]);
	}
}

static int is_compared(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops, uint32_t holds, int64_t field)
{
	return in->mnemonic == ZYDIS_MNEMONIC_CMP && ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[0].size == 32 &&
	       ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].mem.index == ZYDIS_REGISTER_NONE &&
	       (reg_bit(ops[0].mem.base) & holds) && ops[0].mem.disp.value == field;
}

int64_t code_compared(const uint8_t *code, size_t len, unsigned arg, int64_t field, int max)
{
	struct code_fields fields = { .first = -1 };
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;
	uint32_t holds = arg_bit(arg);
	ZydisDecoder dec;
	size_t at = 0;

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -1;
	for (int n = 0; n < max && at < len && holds; n++, at += in.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code + at, len - at, &in, ops)))
			return -1;
		if (is_compared(&in, ops, holds, field))
			return ops[1].imm.value.s;
		holds = fields__insn(&fields, &in, ops, holds);
	}
	return -1;
}

/* --- a thread's variable: lea slot(%rip),%rdi; call __tls_get_addr; mov disp(%rax),%rax --------------------- */

#define INSNS_MAX 24
#define DISP_MAX 65536

struct call_reader {
	struct code_accessor a;
	int calls;
	uint64_t lea; /* the %rdi for the next call */
};

static int is_rax(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) == ZYDIS_REGISTER_RAX;
}

static void on_lea(struct call_reader *r, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops, uint64_t at)
{
	if (ops[0].reg.value == ZYDIS_REGISTER_RDI && ops[1].mem.base == ZYDIS_REGISTER_RIP)
		r->lea = at + in->length + (uint64_t)ops[1].mem.disp.value;
	else if (r->calls && is_rax(ops[0].reg.value) && is_rax(ops[1].mem.base))
		r->a.add += (uint64_t)ops[1].mem.disp.value;
}

/* 1: it returns. */
static int call_reader__insn(struct call_reader *r, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
			     uint64_t at)
{
	switch (in->mnemonic) {
	case ZYDIS_MNEMONIC_LEA:
		on_lea(r, in, ops, at);
		break;
	case ZYDIS_MNEMONIC_CALL:
		r->calls++;
		if (r->lea)
			r->a.slot = r->lea;
		r->lea = 0;
		break;
	case ZYDIS_MNEMONIC_ADD:
		if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && is_rax(ops[0].reg.value) &&
		    ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			r->a.add += ops[1].imm.value.u;
		break;
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVZX:
		if (r->calls && r->a.field < 0 && ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY && is_rax(ops[1].mem.base) &&
		    ops[1].mem.index == ZYDIS_REGISTER_NONE)
			r->a.field = ops[1].mem.disp.value;
		break;
	case ZYDIS_MNEMONIC_RET:
		return 1;
	default:
		break;
	}
	return 0;
}

int code_accessor(const uint8_t *code, size_t len, uint64_t vaddr, struct code_accessor *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	struct call_reader r = { .a = { .field = -1 } };
	ZydisDecodedInstruction in;
	ZydisDecoder dec;
	size_t at = 0;

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -ENOENT;
	for (int n = 0; n < INSNS_MAX && at < len; n++, at += in.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code + at, len - at, &in, ops)))
			break;
		if (call_reader__insn(&r, &in, ops, vaddr + at)) {
			*ret = r.a;
			return r.calls && r.a.add < DISP_MAX && r.a.field < DISP_MAX ? 0 : -ENOENT;
		}
	}
	return -ENOENT;
}

/* --- addresses -------------------------------------------------------------------------------------------- */

/* Every byte that could begin `lea disp32(%rip), %r64` is treated as one. */
int code_addresses(const uint8_t *code, size_t len, uint64_t vaddr, int (*each)(void *ctx, uint64_t addr), void *ctx)
{
	enum { LEA_BYTES = 7 };
	int r = 0;

	for (size_t i = 0; i + LEA_BYTES <= len && r >= 0; i++) {
		const uint8_t *at = code + i;
		int32_t disp;

		if ((at[0] & 0xfb) != 0x48 || at[1] != 0x8d || (at[2] & 0xc7) != 0x05)
			continue;
		memcpy(&disp, at + 3, sizeof(disp));
		r = each(ctx, vaddr + i + LEA_BYTES + (uint64_t)(int64_t)disp);
	}
	return r < 0 ? r : 0;
}
