/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Where threads keep two variables of torch's. No symbol says it: thread-local variables of a library are reached through
 * __tls_get_addr, whose argument is a slot that the loader fills in. So exported functions that do nothing but return them
 * are read: lea slot(%rip),%rdi; call __tls_get_addr; mov disp(%rax),%rax.
 *
 * at::sequence_number::peek(), and c10::GradMode::is_enabled(), which in 2.13 asks AutogradState::get_tls_state()
 * first. Code of another form (a static build, TLS descriptors) gives nothing, and what rests on it is not known.
 */
#include <errno.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "plan/plan.h"
#include "target/elf.h"
#include "target/target.h"

#define INSNS_MAX 24
#define DISP_MAX 65536

/* What a function that returns a thread's variable does, as far as it matters. */
struct accessor {
	uint64_t slot;	  /* vaddr; 0: none */
	uint64_t add;	  /* to what __tls_get_addr returns */
	int64_t field;	  /* displacement of the first read through %rax behind a call; -1: none */
};

struct reader {
	struct accessor a;
	int calls;
	uint64_t lea; /* of the %rdi before the next call */
};

static int is_rax(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) == ZYDIS_REGISTER_RAX;
}

static void on_lea(struct reader *r, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops, uint64_t at)
{
	if (ops[0].reg.value == ZYDIS_REGISTER_RDI && ops[1].mem.base == ZYDIS_REGISTER_RIP)
		r->lea = at + in->length + (uint64_t)ops[1].mem.disp.value;
	else if (r->calls && is_rax(ops[0].reg.value) && is_rax(ops[1].mem.base))
		r->a.add += (uint64_t)ops[1].mem.disp.value;
}

/* 1: it returns. */
static int reader__insn(struct reader *r, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops, uint64_t at)
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

static int read_accessor(const struct elf *e, const char *symbol, struct accessor *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	struct reader r = { .a = { .field = -1 } };
	ZydisDecodedInstruction in;
	const uint8_t *code;
	struct elf_sym sym;
	ZydisDecoder dec;
	size_t len, at = 0;

	if (elf__find_symbol(e, symbol, &sym) < 0 || !sym.is_exec)
		return -ENOENT;
	code = elf__code(e, &sym, &len);
	if (!code || !ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -ENOENT;
	for (int n = 0; n < INSNS_MAX && at < len; n++, at += in.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code + at, len - at, &in, ops)))
			break;
		if (reader__insn(&r, &in, ops, sym.vaddr + at)) {
			*ret = r.a;
			return r.calls && r.a.add < DISP_MAX && r.a.field < DISP_MAX ? 0 : -ENOENT;
		}
	}
	return -ENOENT;
}

static void find_seq(const struct elf *e, uint64_t bias, struct tls_place *ret)
{
	struct accessor a;

	if (!read_accessor(e, "_ZN2at15sequence_number4peekEv", &a) && a.slot && a.field >= 0 && !a.add)
		*ret = (struct tls_place){ a.slot + bias, (uint64_t)a.field };
}

static void find_grad(const struct elf *e, uint64_t bias, struct tls_place *ret)
{
	struct accessor is, state = { .field = -1 };

	if (read_accessor(e, "_ZN3c108GradMode10is_enabledEv", &is) || is.field < 0 || is.add)
		return;
	if (!is.slot && read_accessor(e, "_ZN3c1013AutogradState13get_tls_stateEv", &state))
		return;
	if (is.slot || state.slot)
		*ret = (struct tls_place){ (is.slot ? is.slot : state.slot) + bias, state.add + (uint64_t)is.field };
}

void plan__torch_tls(struct torch_tls *ret, struct target *t)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);

	*ret = (struct torch_tls){ 0 };
	for (size_t i = 0; i < cnt; i++) {
		struct elf *e;
		uint64_t bias;
		int fd;

		if (!strstr(libs[i].base, "torch_cpu") && !strstr(libs[i].base, "libc10"))
			continue;
		fd = target__open_lib(t, &libs[i], NULL);
		if (fd < 0 || elf__open(&e, fd, libs[i].base, NULL))
			continue;
		if (!elf__load_bias(e, libs[i].exec_start, libs[i].exec_off, &bias)) {
			find_seq(e, bias, &ret->seq);
			find_grad(e, bias, &ret->grad);
		}
		elf__free(e);
	}
}
