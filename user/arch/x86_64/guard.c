/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * GCC's code for a static variable of a function, in each wheel from 1.13 to 2.13 and in Debian's 1.13:
 *
 *   movzbl guard(%rip),%eax;  test %al,%al;  jne done
 *   lea guard(%rip),%rbx;  mov %rbx,%rdi;  call __cxa_guard_acquire
 *
 * or with je to a slow path elsewhere. Clang compares in memory: cmpb $0,guard(%rip). So: along the straight line from the
 * entry, each byte at a fixed address that decides a branch; it is a guard if the code for zero takes its address and then
 * calls. Another static flag is only mistaken for a guard if it is tested first and its address is passed to a function at
 * once.
 */
#include "arch/arch.h"

#include <errno.h>
#include <string.h>

#include "arch/x86_64/insn.h"

#define LINE_INSNS_MAX 96 /* from the entry: 2.13's longest prologue has 50 */
#define SLOW_INSNS_MAX 8  /* from the branch to the call */

struct guard_code {
	const uint8_t *at;
	size_t len;
	uint64_t vaddr;
	ZydisDecoder dec;
};

static int guard_code__decode(const struct guard_code *c, size_t at, struct insn *ret)
{
	if (at >= c->len || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&c->dec, c->at + at, c->len - at, &ret->d, ret->ops)))
		return -EINVAL;
	return 0;
}

/* The fixed address of an operand; 0: none. */
static uint64_t fixed_address(const struct guard_code *c, size_t at, const struct insn *in, unsigned op)
{
	const ZydisDecodedOperand *o = &in->ops[op];

	if (op >= in->d.operand_count_visible || o->type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    o->mem.base != ZYDIS_REGISTER_RIP || o->mem.index != ZYDIS_REGISTER_NONE || !o->mem.disp.has_displacement)
		return 0;
	return c->vaddr + at + in->d.length + (uint64_t)o->mem.disp.value;
}

static int same_reg(ZydisRegister a, ZydisRegister b)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, a) ==
	       ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, b);
}

/* The byte at a fixed address that decides the next branch, as far as is known. */
struct flag {
	uint64_t loaded, tested; /* 0: none */
	ZydisRegister reg;	 /* the register with `loaded` */
};

static void flag__next(struct flag *f, const struct guard_code *c, size_t at, const struct insn *in)
{
	uint64_t addr = fixed_address(c, at, in, in->d.mnemonic == ZYDIS_MNEMONIC_CMP ? 0 : 1);

	switch (in->d.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVZX:
		if (addr && in->ops[1].size == 8 && in->ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
			*f = (struct flag){ .loaded = addr, .reg = in->ops[0].reg.value };
		break;
	case ZYDIS_MNEMONIC_TEST:
		f->tested = in->ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && in->ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
					    in->ops[0].reg.value == in->ops[1].reg.value && f->loaded &&
					    same_reg(in->ops[0].reg.value, f->reg) ?
				    f->loaded :
				    0;
		break;
	case ZYDIS_MNEMONIC_CMP:
		f->tested = addr && in->ops[0].size == 8 && in->ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
					    !in->ops[1].imm.value.u ?
				    addr :
				    0;
		break;
	default:
		break;
	}
}

/* Does the code at `at` take that address and call, within a few instructions? */
static int is_taken(const struct guard_code *c, size_t at, uint64_t guard)
{
	int has_address = 0;
	struct insn in;

	for (int n = 0; n < SLOW_INSNS_MAX && !guard_code__decode(c, at, &in); n++, at += in.d.length) {
		if (in.d.mnemonic == ZYDIS_MNEMONIC_LEA)
			has_address |= fixed_address(c, at, &in, 1) == guard;
		else if (in.d.meta.category == ZYDIS_CATEGORY_CALL)
			return has_address;
		else if (in.d.meta.category != ZYDIS_CATEGORY_DATAXFER && in.d.mnemonic != ZYDIS_MNEMONIC_NOP)
			return 0;
	}
	return 0;
}

/* The target if the byte is zero; len: outside of the function. */
static size_t zero_path(const struct guard_code *c, size_t at, const struct insn *in)
{
	size_t next = at + in->d.length;
	uint64_t to;

	if (in->d.mnemonic == ZYDIS_MNEMONIC_JNZ)
		return next;
	to = next + (uint64_t)in->d.raw.imm[0].value.s;
	return to < c->len ? (size_t)to : c->len;
}

int guard_find(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *ret_vaddr)
{
	struct guard_code c = { .at = code, .len = len, .vaddr = vaddr };
	struct flag f = { 0 };
	struct insn in;
	size_t at = 0;

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&c.dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -ENOENT;
	for (int n = 0; n < LINE_INSNS_MAX && !guard_code__decode(&c, at, &in); n++, at += in.d.length) {
		if (in.d.meta.category == ZYDIS_CATEGORY_RET || in.d.meta.category == ZYDIS_CATEGORY_UNCOND_BR)
			break;
		if (in.d.meta.category != ZYDIS_CATEGORY_COND_BR) {
			flag__next(&f, &c, at, &in);
			continue;
		}
		if (f.tested && (in.d.mnemonic == ZYDIS_MNEMONIC_JNZ || in.d.mnemonic == ZYDIS_MNEMONIC_JZ) &&
		    is_taken(&c, zero_path(&c, at, &in), f.tested)) {
			*ret_vaddr = f.tested;
			return 0;
		}
		f = (struct flag){ 0 };
	}
	return -ENOENT;
}
