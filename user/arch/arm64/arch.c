/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Not implemented yet: the names and numbers of arm64, so that everything else can be compiled for it; every other function
 * returns that the answer is unknown. None is called unless arch__ready has succeeded.
 */
#include "arch/arch.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"

const struct arch arch = {
	.name = "arm64",
	.machine = "aarch64",
	.elf_machine = EM_AARCH64,
	.elf_other = "it is for another processor than arm64",
	.dwarf_regs = {
		[19] = 1 + MT_STACK_X19, [20] = 1 + MT_STACK_X20, [21] = 1 + MT_STACK_X21, [22] = 1 + MT_STACK_X22,
		[23] = 1 + MT_STACK_X23, [24] = 1 + MT_STACK_X24, [25] = 1 + MT_STACK_X25, [26] = 1 + MT_STACK_X26,
		[27] = 1 + MT_STACK_X27, [28] = 1 + MT_STACK_X28, [29] = 1 + MT_STACK_X29, [30] = 1 + MT_STACK_PC,
		[31] = 1 + MT_STACK_SP,
	},
	.dwarf_return = 30,
};

int arch__ready(struct err *err)
{
	err_set(err, -ENOTSUP, "on arm64 programs cannot be traced yet");
	(void)err_hint(err, "what was recorded on another machine can be read here: memtrace report FILE");
	return -ENOTSUP;
}

uint64_t arch__plt_shift(uint64_t pc)
{
	(void)pc;
	return 0;
}

/* --- calls ----------------------------------------------------------------------------------------------- */

void args_begin(struct arg_dealer *d, int has_result)
{
	(void)has_result;
	*d = (struct arg_dealer){ 0 };
}

unsigned args_deal(struct arg_dealer *d, struct arg_way w)
{
	d->words += w.words;
	return MT_ARG_STACK;
}

const char *arg_name(unsigned n)
{
	static const char *const names[MT_ARG_REGS] = { "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7" };

	return n < MT_ARG_REGS ? names[n] : NULL;
}

int sdt_args_parse(const char *text, struct mt_usdt_arg args[SDT_ARGS_MAX])
{
	(void)text;
	(void)args;
	return -EINVAL;
}

/* --- code ------------------------------------------------------------------------------------------------ */

int prologue_pick(const uint8_t *code, size_t code_len, uint64_t sym_size, uint64_t offset, const struct prologue_need *need,
		  const struct insn_classes *classes, struct prologue_site *ret)
{
	(void)code;
	(void)code_len;
	(void)sym_size;
	(void)offset;
	(void)need;
	(void)classes;
	(void)ret;
	return -ENOTSUP;
}

int prologue_at(const uint8_t *code, size_t code_len, uint64_t offset, const struct insn_classes *classes,
		struct prologue_site *ret)
{
	return prologue_pick(code, code_len, 0, offset, NULL, classes, ret);
}

int guard_find(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *ret_vaddr)
{
	(void)code;
	(void)len;
	(void)vaddr;
	(void)ret_vaddr;
	return -ENOENT;
}

int exits_walk(const struct exits_code *code, uint64_t vaddr, uint64_t *ret)
{
	(void)code;
	(void)vaddr;
	(void)ret;
	return -ENOTSUP;
}

void code_fields(const uint8_t *code, size_t len, unsigned arg, int max, struct code_fields *ret)
{
	(void)code;
	(void)len;
	(void)arg;
	(void)max;
	*ret = (struct code_fields){ .first = -1 };
}

void code_uses(const uint8_t *code, size_t len, struct code_uses *ret)
{
	(void)code;
	(void)len;
	*ret = (struct code_uses){ 0 };
}

int64_t code_compared(const uint8_t *code, size_t len, unsigned arg, int64_t field, int max)
{
	(void)code;
	(void)len;
	(void)arg;
	(void)field;
	(void)max;
	return -1;
}

int code_accessor(const uint8_t *code, size_t len, uint64_t vaddr, struct code_accessor *ret)
{
	(void)code;
	(void)len;
	(void)vaddr;
	(void)ret;
	return -ENOENT;
}

int code_addresses(const uint8_t *code, size_t len, uint64_t vaddr, int (*each)(void *ctx, uint64_t addr), void *ctx)
{
	(void)code;
	(void)len;
	(void)vaddr;
	(void)each;
	(void)ctx;
	return 0;
}

const struct insn_known insn_known[INSN_CLASSES] = { { NULL, 0, 0, 0 } };

/* --- code of our own ------------------------------------------------------------------------------------- */

const void *own_site(unsigned n)
{
	(void)n;
	return NULL;
}

void own_site_call(unsigned n, const void *a, const void *b, const void *c)
{
	(void)n;
	(void)a;
	(void)b;
	(void)c;
}

void own_code_run(size_t lines)
{
	(void)lines;
}

const struct try_site try_sites[] = { { 0 } };
const size_t try_sites_cnt = 0;
const void *const try_nothing = NULL;
const uint8_t try_breakpoint = 0;

void try_state_fill(struct try_state *s, uint64_t seed)
{
	(void)seed;
	memset(s, 0, sizeof(*s));
}

void try_run(const struct try_state *in, struct try_state *out, const void *code)
{
	(void)code;
	*out = *in;
}

int try_differs(const struct try_site *site, const struct try_state *a, const struct try_state *b)
{
	(void)site;
	return memcmp(a, b, sizeof(*a)) ? 2 : 0;
}
