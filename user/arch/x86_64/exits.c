/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A return probe replaces the return address on the stack by the kernel's trampoline, and an exception that unwinds past it
 * finds no unwind information: std::terminate. So functions that may throw get no return probe. Their `ret` instructions are
 * probed instead: nothing is changed on the stack.
 *
 * From the entry all direct branches are followed, tail calls too, through the PLT into functions of the same file. Calls are
 * assumed to return; one that does not (it throws) is followed by padding or by another function, whose rets are then found as
 * well. That costs a trap there, but gives no wrong result: the program compares the stack pointer with that of the entry.
 */
#include "arch/arch.h"

#include <errno.h>
#include <stdlib.h>

#include <Zydis/Zydis.h>

#include "base/seed.h"

#define BLOCKS_MAX 1024
#define INSN_BYTES_MAX 15
#define SLOTS_MAX 64 /* each is searched for among all relocations */
#define SEEN_MAX (1u << 14) /* instructions; a power of 2 */

struct exits_walk {
	const struct exits_code *code;
	ZydisDecoder dec;
	uint64_t blocks[BLOCKS_MAX]; /* not walked yet */
	size_t blocks_cnt;
	uint64_t seen[SEEN_MAX]; /* addresses of instructions, a hash table; 0 = free */
	size_t seen_cnt, slots_cnt;
	uint64_t *rets;
	int rets_cnt;
};

/* 1: it is new; 0: seen before; -E2BIG. */
static int exits_walk__see(struct exits_walk *w, uint64_t vaddr)
{
	size_t i = hash_u64(vaddr) % SEEN_MAX;

	for (; w->seen[i]; i = (i + 1) % SEEN_MAX)
		if (w->seen[i] == vaddr)
			return 0;
	if (w->seen_cnt >= SEEN_MAX / 2)
		return -E2BIG;
	w->seen[i] = vaddr;
	w->seen_cnt++;
	return 1;
}

static int exits_walk__later(struct exits_walk *w, uint64_t vaddr)
{
	if (w->blocks_cnt == BLOCKS_MAX)
		return -E2BIG;
	w->blocks[w->blocks_cnt++] = vaddr;
	return 0;
}

/* jmp *slot(%rip), as in a PLT: goes on in the target function, if this file has it. */
static int exits_walk__through_slot(struct exits_walk *w, uint64_t slot)
{
	uint64_t vaddr;

	if (w->slots_cnt++ >= SLOTS_MAX || w->code->through(w->code->ctx, slot, &vaddr) < 0)
		return -ENOTSUP;
	return exits_walk__later(w, vaddr);
}

static int exits_walk__jump(struct exits_walk *w, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op, uint64_t at)
{
	if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative)
		return exits_walk__later(w, at + in->length + (uint64_t)op->imm.value.s);
	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.base == ZYDIS_REGISTER_RIP)
		return exits_walk__through_slot(w, at + in->length + (uint64_t)op->mem.disp.value);
	return -ENOTSUP;
}

static int is_padding(const ZydisDecodedInstruction *in)
{
	return in->mnemonic == ZYDIS_MNEMONIC_INT3 || in->mnemonic == ZYDIS_MNEMONIC_NOP;
}

/* One instruction. 1: control goes on to the next, 0: it does not, or -errno. */
static int exits_walk__step(struct exits_walk *w, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
			    uint64_t at, int after_call)
{
	int r;

	switch (in->meta.category) {
	case ZYDIS_CATEGORY_RET:
		if (w->rets_cnt == EXITS_MAX)
			return -E2BIG;
		w->rets[w->rets_cnt++] = at;
		return 0;
	case ZYDIS_CATEGORY_UNCOND_BR: return exits_walk__jump(w, in, &ops[0], at);
	case ZYDIS_CATEGORY_COND_BR:
		r = exits_walk__jump(w, in, &ops[0], at);
		return r < 0 ? r : 1;
	default: break;
	}
	if (in->mnemonic == ZYDIS_MNEMONIC_UD2 || in->mnemonic == ZYDIS_MNEMONIC_HLT || (after_call && is_padding(in)))
		return 0;
	return 1;
}

static int exits_walk__block(struct exits_walk *w, uint64_t at)
{
	int after_call = 0, r = 1;

	while (r == 1) {
		ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
		ZydisDecodedInstruction in;
		size_t len;
		const uint8_t *code = w->code->bytes(w->code->ctx, at, INSN_BYTES_MAX, &len);

		if (!code || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&w->dec, code, len, &in, ops)))
			return after_call ? 0 : -ENOTSUP;
		r = exits_walk__see(w, at);
		if (r != 1)
			return r;
		r = exits_walk__step(w, &in, ops, at, after_call);
		after_call = in.meta.category == ZYDIS_CATEGORY_CALL;
		at += in.length;
	}
	return r;
}

int exits_walk(const struct exits_code *code, uint64_t vaddr, uint64_t *ret)
{
	struct exits_walk *w = calloc(1, sizeof(*w));
	int r = 0;

	if (!w)
		return -ENOMEM;
	w->code = code;
	w->rets = ret;
	if (!ZYAN_SUCCESS(ZydisDecoderInit(&w->dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		r = -ENOTSUP;
	if (!r)
		r = exits_walk__later(w, vaddr);
	while (r >= 0 && w->blocks_cnt)
		r = exits_walk__block(w, w->blocks[--w->blocks_cnt]);
	r = r < 0 ? r : w->rets_cnt;
	free(w);
	return r;
}
